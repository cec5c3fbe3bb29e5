"""docs/glossary.md has every option, pass, operation, attribute and key of schedules, and nothing that is gone."""

import re
from pathlib import Path

from bascule.dialect.ir import Bascule, schedules
from bascule.dialect.passes import registry

import bascule

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "glossary.md").read_text()
SOURCES = [path for folder in ("bascule", "frontend", "dialect", "lowering") for path in (ROOT / folder).rglob("*.py")]
OTHER_STRINGS = {
    "emitters",
    "pass_lists",
    "passes",
    "runtime",
    "dialect",
    "frontend",
    "lowering",
}  # entry points and packages


def section(title: str) -> set[str]:
    """The names in backticks in the first column of a section's tables."""
    text = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL)[1]
    return {name for cell in re.findall(r"^\| (.*?) \|", text, re.MULTILINE) for name in re.findall("`(.+?)`", cell)}


def keys(table: dict) -> set[str]:
    inner = [value[0][0] if isinstance(value[0], list) else value[0] for value in table.values()]
    return {*table}.union(*(keys(value) for value in inner if isinstance(value, dict) and value is not table))


def test_options():
    assert section("Options") == {*bascule.list_options()}


def test_passes():
    assert section("Passes") == {*registry.own_names()}


def test_operations():
    assert section("Operations") == {cls.OPERATION_NAME for cls in Bascule.operations}


def test_attributes():
    strings = {name for path in SOURCES for name in re.findall(r'"bascule\.([a-z_]+)"', path.read_text())}
    operations = {cls.OPERATION_NAME.removeprefix("bascule.") for cls in Bascule.operations}
    told = {name.removeprefix("bascule.") for name in section("Attributes")}
    assert told == strings - operations - OTHER_STRINGS


def test_keys_of_schedules():
    tables = [schedules._TARGETS["cpu"], schedules._CUDA_LOOP, schedules._TARGETS["cuda"], schedules._GROUP]
    assert section("Schedules") == set().union(*(keys(table) for table in tables))

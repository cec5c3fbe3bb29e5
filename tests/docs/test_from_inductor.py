"""docs/from_inductor.md: what counts there is what is followed, and as told."""

import re
from pathlib import Path

import pytest

import bascule
from bascule.inductor_options import INDUCTORS, followed_as, is_inductors
from bascule.options import MODES, PARTITIONER, PASSES

TEXT = (Path(__file__).parents[2] / "docs" / "from_inductor.md").read_text()


def table(title: str) -> list[list[str]]:
    """The cells of the first table of a section, without its header."""
    section = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL)[1]
    lines = re.search(r"(?:^\|.*\n)+", section, re.MULTILINE)[0].splitlines()
    return [[cell.strip() for cell in line.split(" | ")] for line in (line.strip("|") for line in lines[2:])]


def names(cell: str) -> list[str]:
    return re.findall(r"`([\w.]+)", cell)


def test_what_counts_is_all_that_is_followed():
    told = {name for theirs, *_ in table("Settings that count") for name in names(theirs)}
    assert told == {*INDUCTORS, "assert_indirect_indexing", *PASSES, PARTITIONER}


@pytest.mark.parametrize("row", table("Settings that count"), ids=lambda row: row[0])
def test_a_setting_means_the_option_beside_it(row):
    theirs, ours, _ = row
    for name in {*names(theirs)} - {*PASSES, PARTITIONER}:
        option, value = followed_as(name, True, {})
        assert ours in (f"`{option}`", f'`{option}="{value}"`')


def test_other_settings_are_inductors():
    told = {name for theirs, _ in table("Settings with another name, or without one") for name in names(theirs)}
    assert told - {"fx_wrapper", "aot_mode", "compile_fx_inner", "trace."} <= {
        name for name in told if is_inductors(name)
    }
    assert not told & {*INDUCTORS, *PASSES}


def test_modes_are_those_of_both():
    from torch._inductor import list_mode_options

    told = {name.strip("`") for name, *_ in table("Modes")}
    assert {*list_mode_options()} <= told and told - {"lite"} == {*MODES}


def test_functions_are_there():
    for _, ours in table("Functions"):
        for name in re.findall(r"`bascule\.(\w+)", ours):
            assert hasattr(bascule, name)

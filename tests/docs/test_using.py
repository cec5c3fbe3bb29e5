"""docs/using.md: every mode and option is there, and its table of modes is what they stand for."""

import re
from pathlib import Path

import bascule

TEXT = (Path(__file__).parents[2] / "docs" / "using.md").read_text()


def test_every_option_is_told():
    missing = [name for name in bascule.list_options() if f"`{name}`" not in TEXT]
    assert not missing


def test_modes_stand_for_what_is_told():
    rows = {row[0]: set(re.findall("`(.+?)`", row[1])) for row in re.findall(r"^\| `([\w-]+)` \|(.*)\|$", TEXT, re.M)}
    for name, options in bascule.list_modes().items():
        assert rows[name] == set(options)

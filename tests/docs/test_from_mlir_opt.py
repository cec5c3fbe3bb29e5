"""docs/from_mlir_opt.md: the flags that it calls the same are there, and those that it says are not, are not."""

import re
from pathlib import Path

import pytest
from bascule.dialect.errors import UserError
from bascule.dialect.tools.command_line import LIMITS, SWITCHES, USAGE, WITH_VALUE, parse_arguments

TEXT = (Path(__file__).parents[2] / "docs" / "from_mlir_opt.md").read_text()
ROWS = re.findall(r"^\| (`-.+?) \| (.+) \|$", TEXT, re.MULTILINE)


def flags(cell: str) -> list[str]:
    """Those that are spelled out; `-after-all` is `--mlir-print-ir-after-all`."""
    found = re.findall(r"`(--?[a-z][\w-]*)", cell)
    return [flag.lstrip("-") if flag.startswith("--") else f"mlir-print-ir{flag}" for flag in found]


@pytest.mark.parametrize("theirs, ours", [row for row in ROWS if "the same" in row[1] and "text" not in row[1]])
def test_what_is_the_same_is_there(theirs, ours):
    assert {*flags(theirs)} <= SWITCHES | WITH_VALUE | LIMITS.keys()


@pytest.mark.parametrize("flag", [flag for theirs, ours in ROWS if ours == "none" for flag in flags(theirs)])
def test_what_is_not_there_is_refused(flag):
    with pytest.raises(UserError):
        parse_arguments([f"--{flag}"])


def test_other_flags_that_are_named_are_ours():
    for _, ours in ROWS:
        named = [flag for flag in re.findall(r"`--([a-z][\w-]*)", ours) if flag not in ("pass", "shapes")]
        assert not [flag for flag in named if f"--{flag}" not in USAGE]

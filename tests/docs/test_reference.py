"""The generated dialect reference is what the definitions give."""

from pathlib import Path

from bascule.dialect.tools.reference import reference


def test_reference_is_fresh():
    path = Path(__file__).parents[2] / "docs" / "dialect.md"
    assert path.read_text() == reference(), "docs/dialect.md is stale: run `make docs`"

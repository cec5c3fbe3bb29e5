"""Parts of what tests run through: `BASCULE_<name>_PART=3/10` asks for the third of ten, `1/1` for all."""

import os
from collections.abc import Sequence
from typing import Any


def asked(name: str) -> tuple[int, int] | None:
    """The part of `name` that the environment asks for, and of how many, both from 1 on; None where it asks for none."""
    part, _, parts = os.environ.get(f"BASCULE_{name}_PART", "").partition("/")
    return (int(part), int(parts)) if part else None


def chosen(name: str, cases: Sequence[Any], parts: int, part: int = 1) -> list[Any]:
    """Every so many of `cases`: those that are asked for, or part `part` of `parts`."""
    part, parts = asked(name) or (part, parts)
    return list(cases[part - 1 :: parts])

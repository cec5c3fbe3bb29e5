"""Constants of a machine, each with its unit, its source, the date and the script under `benchmarks/` that makes it again.

A file is a table a constant: `value`, `unit`, `source`, `date` of what was measured, `script` as `python -m` takes it, `note`. A source is
"measured" (by hand, where there is no `script`), "data sheet", "compared" (with half of it and twice as much, on the kernels of benchmarks) or
"assumed". `inherits` names the machine whose constants hold where a file has none of its own.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
SOURCES = ("measured", "data sheet", "compared", "assumed")


@dataclass(frozen=True, kw_only=True)
class Measure:
    """One constant."""

    value: Any
    unit: str
    source: str
    date: str = ""
    script: str = ""
    note: str = ""


@cache
def measures(machine: str) -> Mapping[str, Measure]:
    """The constants of `machine`, its own and inherited ones, by name. Raises FileNotFoundError for a machine nobody knows."""
    told = tomllib.loads((FOLDER / f"{machine}.toml").read_text())
    base = told.pop("inherits", None)
    own = {name: Measure(**fields) for name, fields in told.items()}
    return own if base is None else {**measures(base), **own}


def value(machine: str, name: str) -> Any:
    """The value of a constant of `machine`."""
    return measures(machine)[name].value

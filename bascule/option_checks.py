"""Checks of the values that options have: numbers, and paths."""

import os
import re
from errno import ELOOP, ENAMETOOLONG
from fractions import Fraction
from pathlib import Path
from typing import Any

from .dialect.interrupts import pass_on
from .errors import UserError

MOST = 2**63 - 1  # of whole numbers
DIGITS = 30  # of a text that is a number of bytes
SHOWN = 200  # characters of a value
_BYTES = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b\s*", re.IGNORECASE)


def bytes_of(text: str) -> int | None:
    """A text such as "6 GiB", "512MiB" or "1.5 GB" as bytes; None for another."""
    match = _BYTES.fullmatch(text)
    if match is None or (match[3] and not match[2]) or len(match[1]) > DIGITS:
        return None
    return int(Fraction(match[1]) * (1024 if match[3] else 1000) ** " kmgt".index(match[2].lower() or " "))


def shown(value: Any) -> str:
    """`value` as a message tells it: cut where it is long, and where it has no text (too many digits, a `repr` that raises), by its type."""
    try:
        text = repr(value)
    except Exception as error:  # the user's own object raises whatever it raises
        pass_on(error)
        return f"an object of type {type(value).__name__}"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def check_number(value: int | float, least: int | None, option: str) -> None:
    """Raises `UserError` for a number, given as `option`, under `least`, which NaN is too, and for one that no clock or memory counts to."""
    where = f"option '{option}'"
    if value != value:  # NaN, which is beside every bound
        raise UserError("takes a number, got nan", location=where)
    if least is not None and not value >= least:
        raise UserError(f"takes no number under {least}, got {shown(value)}", location=where)
    if isinstance(value, int) and abs(value) > MOST:
        raise UserError(f"takes no number over {MOST}, got {shown(value)}", location=where)


def check_path(text: str, option: str) -> Path:
    """The path that `text` is. Raises `UserError`, given as `option`, for what no file system takes: nothing, a zero byte, too long a name."""
    where = f"option '{option}'"
    if not text:
        raise UserError("takes a directory, got ''", location=where)
    try:
        os.lstat(text)  # `Path.exists` of some versions of Python says False of what cannot be a path
    except ValueError as error:  # a zero byte, half a character
        pass_on(error)
        raise UserError(f"takes a directory, got {shown(text)}: {error}", location=where) from None
    except OSError as error:
        pass_on(error)
        if error.errno in (ENAMETOOLONG, ELOOP):
            raise UserError(f"takes a directory, got {shown(text)}: {error.strerror}", location=where) from None
    return Path(text)


def check_writable(directory: str, option: str) -> None:
    """Raises `UserError` for a directory, given as `option`, that cannot be made, or written into. It is made where something is written."""
    path = check_path(directory, option).absolute()
    existing = next(place for place in (path, *path.parents) if place.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        why = "cannot be written into" if existing.is_dir() else "is no directory"
        raise UserError(f"cannot make the directory '{directory}': '{existing}' {why}", location=f"option '{option}'")


def check_replayed(directory: str, dump: str | None) -> None:
    """Raises `UserError` for a directory that has no dump, and for one that a `dump` is to be written over."""
    path = check_path(directory, "replay")
    if not path.is_dir() or next(path.glob("*/stages.json"), None) is None:
        raise UserError(
            f"there is no dump in '{directory}'",
            location="option 'replay'",
            hint="options={'dump': directory} writes one",
        )
    if dump is not None and Path(dump).resolve() == path.resolve():
        raise UserError("cannot be the directory of 'dump'", location="option 'replay'", hint="dump into another one")

"""The disk cache as the environment says now: `$BASCULE_CACHE_DIR` or `~/.cache/bascule`, and how much it may hold."""

import os
import warnings
from functools import cache
from pathlib import Path
from typing import Any

from ...dialect.interrupts import tolerating
from ...errors import CacheWarning
from ...option_checks import DIGITS, bytes_of
from ...user_paths import in_home
from .entry_paths import KINDS, entries, unfinished
from .files import remove_abandoned
from .store import Store

VARIABLE, LIMIT_VARIABLE = "BASCULE_CACHE_DIR", "BASCULE_CACHE_LIMIT"
LIMIT = 2 << 30  # bytes that all of them may take


def root() -> Path | None:
    """The folder of all caches; None if they are off, or where there is no home directory for them."""
    place = os.environ.get(VARIABLE, "~/.cache/bascule")
    found = in_home(place) if place else None
    if place and found is None and VARIABLE in os.environ:
        _homeless(place)
    return None if found is None else Path(found)


def store_of(kind: str) -> Store | None:
    """The store of `kind`, one of `KINDS`; None if the caches are off."""
    folder = root()
    return None if folder is None else Store(folder, kind, limit())


def limit() -> int:
    """How many bytes all caches together may take: `$BASCULE_CACHE_LIMIT`, a number or such as "6 GiB", or 2 GiB."""
    text = os.environ.get(LIMIT_VARIABLE, "")
    found = int(text) if text.isdecimal() and len(text) <= DIGITS else bytes_of(text)
    if text and found is None:
        _unread(text)
    return LIMIT if found is None else found


@cache
def _unread(text: str) -> None:
    warnings.warn(f"${LIMIT_VARIABLE} is '{text:.50}', which is no number of bytes: {LIMIT} it is", stacklevel=2)


@cache
def _homeless(text: str) -> None:
    warnings.warn(
        f"${VARIABLE} is '{text:.200}', but there is no such home directory: nothing is cached",
        CacheWarning,
        stacklevel=2,
    )


def statistics() -> dict[str, Any]:
    """The folder, and the entries and bytes of each cache under it."""
    folder = root()
    if folder is None:
        return {"directory": None}
    found: dict[str, Any] = {"directory": str(folder)}
    for kind in KINDS:
        sizes = []
        for entry in entries(folder, kind):
            with tolerating(OSError):
                sizes.append(entry.stat().st_size)
        found[kind] = {"entries": len(sizes), "bytes": sum(sizes)}
    return found


def clear() -> int:
    """Deletes all entries of all caches; returns how many there were. What writers that were killed have left goes too."""
    folder, number = root(), 0
    if folder is None:
        return 0
    for entry in entries(folder):
        with tolerating(OSError):
            os.unlink(entry.path)
            number += 1
    for path in unfinished(folder):
        remove_abandoned(path)
    return number

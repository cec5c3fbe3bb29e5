"""The versions of PyTorch and Triton that are taken, and the parts of ours that lean on how PyTorch works inside.

Such a part is on where the version is one whose sources were read, off with a newer one, or as an option says. Checked on torch 2.11 to 2.14.
"""

import warnings
from dataclasses import dataclass
from functools import cache
from importlib import metadata

Version = tuple[int, ...]  # major, minor

CHECKED: dict[str, tuple[Version, Version]] = {"torch": ((2, 11), (2, 14)), "triton": ((3, 6), (3, 8))}
_NAMES = {"torch": "PyTorch", "triton": "Triton"}


@dataclass(frozen=True)
class Internals:
    """Which parts are on. `direct_calls`: calls past AOTAutograd's wrappers; `trace_cache`: AOTAutograd's results on disk; `trace_patches`:
    flaws of tracing mended while a graph is traced."""

    direct_calls: bool
    trace_cache: bool
    trace_patches: bool


def internals(
    direct_calls: bool | None = None, trace_cache: bool | None = None, trace_patches: bool | None = None
) -> Internals:
    """Each part as asked; None: on where this PyTorch was checked."""
    asked = (direct_calls, trace_cache, trace_patches)
    return Internals(*(is_checked("torch") if on is None else on for on in asked))


@cache
def running(package: str) -> Version:
    """The version that is installed; (0, 0) where none is."""
    try:
        return tuple(int(part) for part in metadata.version(package).split(".")[:2])
    except metadata.PackageNotFoundError:
        return (0, 0)


def is_checked(package: str) -> bool:
    """Whether the version that runs is one from the first to the last that were checked."""
    first, last = CHECKED[package]
    return first <= running(package) <= last


@cache
def check(package: str) -> None:
    """Raises RuntimeError for a version that is too old; warns, once, of one that is newer than all that were checked."""
    first, last = CHECKED[package]
    told = f"{_NAMES[package]} {_text(running(package))}"
    if running(package) < first:
        raise RuntimeError(f"Bascule needs {_NAMES[package]} {_text(first)} or later, and this is {told}")
    if running(package) > last:
        off = "; direct calls, the trace cache and trace patches are off (options 'direct_calls', 'trace_cache', 'trace_patches')"
        checked = f"Bascule was checked on {_NAMES[package]} {_text(first)} to {_text(last)}, and this is {told}"
        warnings.warn(checked + (off if package == "torch" else ""), stacklevel=2)


def _text(version: Version) -> str:
    return ".".join(map(str, version))


__all__ = ["CHECKED", "Internals", "check", "internals", "is_checked", "running"]

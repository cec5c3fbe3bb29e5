"""Emitters: what `bascule-opt --emit` can print instead of IR. They live in the layers above and are found as their passes are: by entry
points."""

from collections.abc import Callable
from importlib.metadata import entry_points

from ..errors import UserError
from ..mlir import ir

GROUP = "bascule.emitters"
# Of a module that the passes have left and an architecture (empty: the emitter's default). Raises `UserError` for what it cannot take.
Emitter = Callable[[ir.Module, str], str]


def find(name: str) -> Emitter:
    """The emitter called `name`. Raises `UserError` for one nobody knows."""
    known = {entry.name: entry for entry in entry_points(group=GROUP)}
    if name not in known:
        raise UserError(f"nothing emits '{name}'", location="--emit", hint=f"known: {', '.join(sorted(known))}")
    return known[name].load()

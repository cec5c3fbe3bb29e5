"""Positions along a dimension, as arguments of `slice`, `select` and their like: negative ones count from its end.

Whether a number computed from sizes is negative the guards of the trace say, and the form of an affine expression does not: `s0 - 9`. So none in
the IR is.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node

from ..fx.trace_context import holds, known

_POSITIONS = ("start", "end", "index")


def from_beginning(parameters: Sequence[str], arguments: Sequence[Any]) -> list[Any]:
    """The FX `arguments` of an operator, symbolic positions among them counted from the beginning of its dimension."""
    found = [_value(argument) for argument in arguments]
    places = [i for i, name in enumerate(parameters) if name in _POSITIONS and isinstance(found[i], torch.SymInt)]
    if not places or "dim" not in parameters:
        return [*arguments]
    sizes = found[parameters.index("input_sizes")] if "input_sizes" in parameters else found[0].shape
    size = _value(sizes[found[parameters.index("dim")]])
    return [_counted(found[i], size) if i in places else argument for i, argument in enumerate(arguments)]


def _counted(position: torch.SymInt, size: Any) -> Any:
    """`position` without its sign; 0 where it lies before the beginning, as that of a slice may."""
    if holds(position < 0):
        position = position + size
    return 0 if holds(position < 0) or known(position <= 0) else position


def _value(argument: Any) -> Any:
    return argument.meta["val"] if isinstance(argument, Node) else argument

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
    counted = [*arguments]
    named = dict(zip(parameters, arguments))
    places = [i for i, name in enumerate(named) if name in _POSITIONS]
    places = [i for i in places if isinstance(_value(arguments[i]), torch.SymInt)]
    if places and "dim" in named:
        sizes = named["input_sizes"] if "input_sizes" in named else _value(arguments[0]).shape
        size = _value(sizes[named["dim"]])
        for i in places:
            counted[i] = _counted(_value(arguments[i]), size)
    return counted


def _counted(position: torch.SymInt, size: Any) -> Any:
    """`position` without its sign; 0 where it lies before the beginning, as that of a slice may."""
    if holds(position < 0):
        position = position + size
    return 0 if holds(position < 0) or known(position <= 0) else position


def _value(argument: Any) -> Any:
    """None of a node that a user's pass has given no value."""
    return argument.meta.get("val") if isinstance(argument, Node) else argument

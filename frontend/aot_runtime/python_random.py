"""Numbers that Python's `random` draws while a compiled function runs.

Dynamo traces a drawn float as a tensor of the default dtype without dimensions, and hands over one of double precision, unguarded:
operators of eager promote it to the same results, compiled code would read other bytes.

What Dynamo notes of a graph's inputs is private to it. Checked on torch 2.11 to 2.14; where the notes are missing, nothing is converted.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..fx.graph_ends import inputs_of


def with_drawn_numbers(gm: torch.nn.Module) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """For a graph as Dynamo made it: takes a function of its inputs to one that is given drawn numbers of the dtypes they were traced with."""
    places = drawn_places(gm)

    def wrapped(compiled: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            given = list(args)
            for place, dtype in places:
                given[place] = given[place].to(dtype)
            return compiled(*given)

        return call if places else compiled

    return wrapped


def drawn_places(gm: torch.nn.Module) -> Sequence[tuple[int, torch.dtype]]:
    """The drawn numbers among the inputs, each with the dtype it was traced with."""
    if not isinstance(gm, torch.fx.GraphModule):
        return []
    found = []
    for place, node in enumerate(inputs_of(gm.graph)):
        noted, value = node.meta.get("grapharg"), node.meta.get("example_value")
        number = getattr(noted, "pass_arg_as_tensor", False) and not getattr(noted, "is_tensor", True)
        if number and isinstance(value, torch.Tensor) and value.is_floating_point() and value.dtype != torch.float64:
            found.append((place, value.dtype))
    return found

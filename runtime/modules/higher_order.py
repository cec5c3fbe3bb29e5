"""Calls of higher-order operators (`cond`, `scan`, ...) between compiled parts of a graph.

PyTorch's private guard for code below autograd is named here and nowhere else. Checked on torch 2.13.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..boxed import Boxed


def below_autograd(operator: Callable[..., Any]) -> Callable[..., Any]:
    """`operator` where gradients have been taken care of: it runs as it is, and does not trace the functions it is given."""

    def call(*args: Any, **kwargs: Any) -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            return operator(*args, **kwargs)

    return call


def structured(compiled: Boxed, structure: Callable[[Sequence[Any]], Any]) -> Callable[..., Any]:
    """A boxed function as one that a higher-order operator calls; `structure` makes of its results what is returned."""

    def call(*args: Any) -> Any:
        return structure(compiled(list(args)))

    return call

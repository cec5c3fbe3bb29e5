"""Calls of higher-order operators (`cond`, `scan`, ...) between compiled parts of a graph."""

from collections.abc import Callable, Sequence
from typing import Any

from bascule.compat.operators.dispatch import AutoDispatchBelowAutograd

from ..boxed import Boxed


def below_autograd(operator: Callable[..., Any]) -> Callable[..., Any]:
    """`operator` where gradients have been taken care of: it runs as it is, and does not trace the functions it is given."""

    def call(*args: Any, **kwargs: Any) -> Any:
        with AutoDispatchBelowAutograd():
            return operator(*args, **kwargs)

    return call


def structured(compiled: Boxed, structure: Callable[[Sequence[Any]], Any]) -> Callable[..., Any]:
    """A boxed function as one that a higher-order operator calls; `structure` makes of its results what is returned."""

    def call(*args: Any) -> Any:
        return structure(compiled(list(args)))

    return call

"""Operators that write to their arguments, or return lists beside other results, as functions that return tensors one by one."""

from collections.abc import Callable
from typing import Any

import torch

from bascule.compat.operators.schemas import OpOverload
from bascule.compat.tensors.pytree import tree_leaves


def functional(operator: OpOverload) -> Callable[..., tuple[Any, ...]]:
    """`operator` on copies of the arguments that it writes: returns its results, one by one, then the copies as it leaves them."""
    # Which arguments are written the frontend asks in `fx/node_calls.py`; the runtime imports no other layer.
    parameters = operator._schema.arguments
    written = {p.name for p in parameters if p.alias_info is not None and p.alias_info.is_write}

    def call(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
        copies: list[torch.Tensor] = []

        def own(name: str, value: Any) -> Any:
            if name not in written or value is None:
                return value
            new = [tensor.clone() for tensor in value] if isinstance(value, list) else value.clone()
            copies.extend(new if isinstance(new, list) else [new])
            return new

        positional = [own(parameter.name, value) for parameter, value in zip(parameters, args)]
        outputs = operator(*positional, **{name: own(name, value) for name, value in kwargs.items()})
        if not operator._schema.returns:
            return tuple(copies)
        return (*tree_leaves(outputs), *copies)

    return call


def flat(operator: OpOverload) -> Callable[..., list[Any]]:
    """`operator`, whose results are lists and others: returns the elements of all, in order, None for what is missing."""

    def call(*args: Any, **kwargs: Any) -> list[Any]:
        return tree_leaves(operator(*args, **kwargs))

    return call

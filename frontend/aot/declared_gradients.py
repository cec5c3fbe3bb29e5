"""Gradients that are declared for operators whose own formula looks at data: they are compiled in its place, where it would be
`bascule.gradient_of`, a call of Python when the graph runs."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from bascule.compat.operators.schemas import OpOverload

from ..torch_patches.custom_op_gradients import gradient_call

Gradients = Callable[..., Any]  # of an operator's arguments and the gradients of its results: a gradient an argument


def decomposed_gradients(declared: Mapping[str, Gradients]) -> dict[OpOverload, Callable[..., Any]]:
    """The decomposition of `gradient_of`, where gradients are `declared` for an operator, by its name."""

    def instead(tensors: Sequence[Tensor], told: str, numbers: Sequence[int]) -> Any:
        call = gradient_call(tensors, told, numbers)
        function = declared.get(call.operator)
        if function is None or call.arguments is None or any(x is None for x in call.gradients):
            return NotImplemented
        found = function(*call.arguments, *call.gradients)
        if found is NotImplemented:
            return NotImplemented
        found = found if isinstance(found, tuple | list) else (found,)
        if len(found) != len(call.arguments):
            count = len(call.arguments)
            raise ValueError(f"{len(found)} gradients are declared of the {count} arguments of '{call.operator}'")
        # Arguments that are left to their defaults are last, and need none.
        needed = [x for x, needs in zip(found, call.needed) if needs]
        return [_laid(call.operator, x, tensors[0].device, *shape) for x, shape in zip(needed, call.shapes)]

    return {torch.ops.bascule.gradient_of.default: instead} if declared else {}


def _laid(
    operator: str,
    x: Tensor | None,
    device: torch.device,
    size: Sequence[int],
    stride: Sequence[int],
    dtype: torch.dtype,
) -> Tensor:
    """A gradient as it lies in memory in eager; zeros for none."""
    if x is None:
        x = torch.zeros(*size, dtype=dtype, device=device)
    if (tuple(x.shape), x.dtype) != (tuple(size), dtype):
        told = f"{tuple(x.shape)} and {x.dtype}, not of {tuple(size)} and {dtype}"
        raise ValueError(f"a gradient that is declared for '{operator}' is of {told}")
    if not all(isinstance(number, int) for number in (*x.stride(), *stride)) or x.stride() == tuple(stride):
        return x
    order = sorted(range(x.dim()), key=lambda i: -stride[i])
    return x.permute(order).contiguous().permute([order.index(i) for i in range(x.dim())])

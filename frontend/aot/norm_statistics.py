"""Statistics of normalizations on a CPU, saved as exactly as ATen saves them.

ATen saves means and deviations in f32 of an input of 16 bits whose parameters or running statistics are f32, as under autocast. PyTorch's
decompositions round them to the dtype of the input, and a backward that subtracts a rounded mean is off by as much as the mean is large:
gradients of the input no longer sum to zero, those of the weight lose bits.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor

from ..rules.support.scalars import NARROW

aten = torch.ops.aten

NORMALIZATIONS = (
    aten._native_batch_norm_legit.default,
    aten._native_batch_norm_legit.no_stats,
    aten._native_batch_norm_legit_functional.default,
    aten.native_batch_norm.default,
    aten.native_group_norm.default,
    aten.native_layer_norm.default,
)


def unrounded(decomposition: Callable[..., Any]) -> Callable[..., Any]:
    """`decomposition` of a normalization, with statistics in f32 where ATen has them so."""

    @wraps(decomposition)
    def decompose(x: Tensor, *args: Any) -> Any:
        if x.device.type != "cpu" or x.dtype not in NARROW or not any(map(_is_wide, args)):
            return decomposition(x, *args)
        result, *statistics = decomposition(x.float(), *args)
        return result.to(x.dtype), *statistics

    return decompose


def _is_wide(arg: Any) -> bool:
    return isinstance(arg, Tensor) and arg.dtype == torch.float32

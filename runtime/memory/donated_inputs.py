"""Results in the memory of inputs that were made for the call."""

from collections.abc import Sequence

import torch

from .allocation import empty as empty_cpu
from .allocation import view


def over(x: torch.Tensor, sizes: Sequence[int], strides: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """A tensor of unspecified contents: in the memory of `x`, if that was made for this call and nothing reads it after (zeros that
    `frontend/aot_runtime/direct_backward.py` makes are marked as such), else in memory of its own."""
    if getattr(x, "bascule_spare", False) and x.dtype == dtype:
        return view(x, sizes, strides, 0)
    if x.is_cuda:
        return torch.empty_strided(sizes, strides, dtype=dtype, device=x.device)
    return empty_cpu(sizes, strides, dtype)

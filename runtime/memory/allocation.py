"""Allocation, views and copies of tensors for generated modules."""

from collections.abc import Sequence

import torch

from bascule.compat.tensors.allocation import assert_size_stride
from bascule.compat.tensors.allocation import empty_strided_cpu as empty
from bascule.compat.tensors.allocation import reinterpret_tensor as view

from .alignment import ALIGNMENT


def has_layout(tensor: torch.Tensor, sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether the strides of `tensor` are `strides`.

    Raises RuntimeError for other sizes: the program asserts what they are, where they depend on data, or a custom operator's fake does.
    """
    try:
        assert_size_stride(tensor, sizes, strides)  # takes a tensor without elements for one of any sizes
        if tensor.numel() or tensor.shape == tuple(sizes):
            return True
    except AssertionError:
        if tensor.shape == tuple(sizes):
            return False
    raise RuntimeError(
        f"Runtime assertion failed: an operator returned a tensor of sizes {list(tensor.shape)} where {list(sizes)} were asserted"
    )


def laid_out(
    tensor: torch.Tensor | None,
    sizes: Sequence[int],
    strides: Sequence[int],
    *,
    left_out: bool = False,
    dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """`tensor`, or a copy of it with these strides, on a GPU an aligned one: an operator may return others than it told the tracer. `left_out`:
    or no elements. `dtype`: that of the elements that a kernel reads there.

    Raises RuntimeError for other sizes, as `has_layout`, for another dtype, and for a result that an operator leaves undefined.
    """
    if tensor is None:
        raise RuntimeError(f"an operator returned no tensor where its fake kernel has one of sizes {list(sizes)}")
    if dtype is not None and tensor.dtype is not dtype:
        raise RuntimeError(f"an operator returned {tensor.dtype} where its fake kernel has {dtype}")
    if left_out and not tensor.numel():
        return tensor
    if has_layout(tensor, sizes, strides) and (not tensor.is_cuda or tensor.data_ptr() % ALIGNMENT == 0):
        return tensor
    return torch.empty_strided(sizes, strides, dtype=tensor.dtype, device=tensor.device).copy_(tensor)


def begun_at(tensor: torch.Tensor, offset: int, strides: Sequence[int] | None = None) -> torch.Tensor:
    """`tensor`, or a copy of it, that begins at the element `offset` of its storage, with `strides`, or its own: the base of views that an
    operator is told by their places in memory. What comes before and between is of no meaning."""
    strides = tensor.stride() if strides is None else strides
    if tensor.storage_offset() == offset and tensor.stride() == strides:
        return tensor
    extent = offset + 1 + sum(max(0, size - 1) * stride for size, stride in zip(tensor.shape, strides))
    return tensor.new_empty(extent).as_strided(tensor.shape, strides, offset).copy_(tensor)


__all__ = ["begun_at", "empty", "has_layout", "laid_out", "view"]

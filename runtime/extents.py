"""What memory a strided tensor spans, and whether elements share a place in it. Strides are never negative."""

from collections.abc import Sequence

import torch


def extent(sizes: Sequence[int], strides: Sequence[int]) -> int:
    """How many elements lie from the first to the last one, both included, of a tensor that has any."""
    return 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides))


def overlap(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether the memory of `a` from its first element to its last meets that of `b`."""
    if a.numel() == 0 or b.numel() == 0 or a.device != b.device:
        return False
    (first, end), (other, other_end) = (
        (x.data_ptr(), x.data_ptr() + extent(x.shape, x.stride()) * x.element_size()) for x in (a, b)
    )
    return first < other_end and other < end


def overlaps_itself(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether two elements may share a place."""
    reached = 1
    for stride, size in sorted((stride, size) for size, stride in zip(sizes, strides) if size > 1):
        if stride < reached:
            return True
        reached += stride * (size - 1)
    return False

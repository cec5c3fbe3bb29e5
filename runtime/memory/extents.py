"""The memory that a strided tensor spans, and whether elements share a place in it. Strides are never negative."""

from collections.abc import Sequence
from math import gcd

import torch


def extent(sizes: Sequence[int], strides: Sequence[int]) -> int:
    """How many elements of memory lie from the first to the last one of a tensor, both included; none of an empty one."""
    return 0 if 0 in sizes else 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides))


def overlap(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether the memory of `a` from its first element to its last meets that of `b`."""
    if a.numel() == 0 or b.numel() == 0 or a.device != b.device:
        return False
    (first, end), (other, other_end) = (
        (x.data_ptr(), x.data_ptr() + extent(x.shape, x.stride()) * x.element_size()) for x in (a, b)
    )
    return first < other_end and other < end


def overlaps_itself(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether two elements share a place."""
    if 0 in sizes:
        return False
    steps = sorted(((stride, size - 1) for size, stride in zip(sizes, strides) if size > 1), reverse=True)
    for first, (stride, most) in enumerate(steps):
        # Indices of one place differ in some dimension first; there, one is larger by `further`, for which those that follow make up.
        rest = [(step, -n, n) for step, n in steps[first + 1 :]]
        reach = sum(step * n for step, _, n in rest)
        if stride == 0:
            return True
        if any(_reaches(further * stride, rest) for further in range(1, min(most, reach // stride) + 1)):
            return True
    return False


def meet(
    sizes: Sequence[int], strides: Sequence[int], other: Sequence[int], other_strides: Sequence[int], distance: int
) -> bool:
    """Whether an element of a tensor lies where one of another does, whose first element lies `distance` elements after its own."""
    if 0 in sizes or 0 in other:
        return False
    steps: dict[int, list[int]] = {}
    for size, stride in zip(sizes, strides):
        steps.setdefault(stride, [0, 0])[1] += size - 1
    for size, stride in zip(other, other_strides):
        steps.setdefault(stride, [0, 0])[0] -= size - 1
    return _reaches(distance, [(stride, low, high) for stride, (low, high) in sorted(steps.items(), reverse=True)])


def _reaches(target: int, steps: Sequence[tuple[int, int, int]]) -> bool:
    """Whether `target` is a sum of one multiple of each stride: of (stride, lowest multiple, highest), strides descending."""
    divisor = gcd(*(stride for stride, *_ in steps))
    if target % divisor if divisor else target:
        return False
    if not divisor:
        return True
    (stride, low, high), rest = steps[0], steps[1:]
    least, most = sum(s * n for s, n, _ in rest), sum(s * n for s, _, n in rest)
    first, last = max(low, -((most - target) // stride)), min(high, (target - least) // stride)
    return any(_reaches(target - n * stride, rest) for n in range(first, last + 1))

"""Tensors whose elements have places in memory in common, with their own or with other tensors'."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import torch

from bascule.frontend.fx.storages import storage
from bascule.frontend.fx.trace_context import hint, known

from ..runtime.memory.extents import extent, meet, overlaps_itself


def mixed_storages(inputs: Sequence[torch.Tensor]) -> set[int | None]:
    """The storages of inputs that share places, where these are not views of one tensor, of one dtype."""
    groups: dict[int | None, list[torch.Tensor]] = {}
    for x in inputs:
        groups.setdefault(storage(x), []).append(x)
    return {memory for memory, group in groups.items() if len(group) > 1 and _are_mixed(group)}


def _are_mixed(group: Sequence[torch.Tensor]) -> bool:
    roots = {id(root): root for root in (x if x._base is None else x._base for x in group)}
    if len(roots) == 1 and len({x.dtype for x in (*group, *roots.values())}) == 1:
        return False
    if any(None in (hint(x.storage_offset()), *chain(*_layout(x))) for x in group):
        return True
    placed = sorted((hint(x.storage_offset()) * x.itemsize, number) for number, x in enumerate(group))
    for first, (begin, number) in enumerate(placed):
        sizes, strides = _layout(group[number])
        end = begin + extent(sizes, strides) * group[number].itemsize
        for other_begin, other in placed[first + 1 :]:
            if other_begin >= end:
                break
            if _meet(group[number], group[other]):
                return True
    return False


def _meet(x: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors over one storage share places. Of two dtypes that is so where the memory that they span meets."""
    if x.dtype != other.dtype:
        return 0 not in (*_layout(x)[0], *_layout(other)[0])
    distance = hint(other.storage_offset()) - hint(x.storage_offset())
    return meet(*_layout(x), *_layout(other), distance)


def _layout(x: torch.Tensor) -> tuple[list[int], list[int]]:
    """Sizes and strides, as they were seen."""
    return [hint(size) for size in x.shape], [hint(stride) for stride in x.stride()]


def share_places_now(x: torch.Tensor) -> bool:
    """Whether elements of `x` share places, with the sizes that were seen."""
    sizes, strides = _layout(x)
    return None not in (*sizes, *strides) and overlaps_itself(sizes, strides)


def may_share_places(x: torch.Tensor) -> bool:
    """Whether elements of `x`, an input, share places now, or may do so in another call."""
    sizes, strides = _layout(x)
    seen = None not in (*sizes, *strides)
    return seen and (share_places_now(x) or not all(known(apart) for apart in _apart(x)))


def share_places(x: torch.Tensor) -> bool:
    """Whether elements of `x` share places. The sizes for which they do not are guarded."""
    return share_places_now(x) or not all(map(bool, _apart(x)))


def _apart(x: torch.Tensor) -> list[Any]:
    """Conditions, if some are symbolic, under which no elements of `x` share places: each stride is beyond what smaller ones reach."""
    numbers = (*x.shape, *x.stride())
    if not any(isinstance(n, torch.SymInt) for n in numbers):
        return []
    conditions, reached = list[Any](), 0
    for _, size, stride in sorted((hint(stride), n, stride) for n, stride in enumerate(x.stride())):
        if hint(x.shape[size]) != 1:
            conditions.append(stride > reached)
            reached = reached + stride * (x.shape[size] - 1)
    return conditions

"""Narrow indices of a max pooling: it saves for its backward how far behind the beginning of its window each element was, in one byte or two,
instead of where in the input, in eight.

Which of the two is saved is the partitioner's choice, which takes the smaller. Inductor saves numbers of elements in their windows, which a
backward divides for each window that an element is in; a distance takes an addition.
"""

from collections.abc import Sequence
from math import prod
from operator import getitem
from typing import Any

import torch
from torch.fx import Graph, Node

from ..fx.node_calls import call_like

aten, prims = torch.ops.aten, torch.ops.prims

Window = tuple[
    int, int, int, int
]  # along a pooled dimension: number of windows, elements that one spans, stride, padding
NARROW = (torch.uint8, torch.int16, torch.int32)
FARTHEST = 2**31 - 1  # the last position that is computed with in 32 bits
FORWARD = (aten.max_pool2d_with_indices.default, aten.max_pool3d_with_indices.default)
BACKWARD = (aten.max_pool2d_with_indices_backward.default, aten.max_pool3d_with_indices_backward.default)


def narrow_pooling_indices(graph: Graph) -> int:
    """Lets each backward of a max pooling, of windows at static places, read indices made of distances in the window. Returns how many it
    changed."""
    narrowed = 0
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target not in BACKWARD:
            continue
        *_, indices = node.args
        if not _is_of_pooling(indices) or (found := _windows(node)) is None:
            continue
        windows, steps = found
        farthest = sum((span - 1) * step for (_, span, *_), step in zip(windows, steps))
        narrow = next((dtype for dtype in NARROW if farthest <= torch.iinfo(dtype).max), None)
        if narrow is None:
            continue
        wide = torch.int32 if steps[0] * node.args[1].meta["val"].shape[-len(steps)] <= FARTHEST else torch.int64
        with graph.inserting_before(indices.next):
            distances = _moved(graph, indices, aten.sub.Tensor, _firsts(graph, indices, windows, steps, wide), narrow)
        with graph.inserting_before(node):
            firsts = _firsts(graph, indices, windows, steps, wide)
            node.update_arg(len(node.args) - 1, _moved(graph, distances, aten.add.Tensor, firsts, torch.int64))
        narrowed += 1
    return narrowed


def _is_of_pooling(indices: Any) -> bool:
    return isinstance(indices, Node) and indices.target is getitem and indices.args[0].target in FORWARD


def _windows(node: Node) -> tuple[list[Window], list[int]] | None:
    """Of each pooled dimension the windows, and elements of the input from one of its indices to the next."""
    _, x, kernel, stride, padding, dilation, _, indices = node.args
    rank = 2 + BACKWARD.index(node.target)
    kernel = _per_dim(kernel, rank)
    stride = _per_dim(stride, rank) if len(stride) else kernel
    sizes, counts = x.meta["val"].shape[-rank:], indices.meta["val"].shape[-rank:]
    if not all(isinstance(n, int) for n in (*sizes, *counts)):
        return None
    spans = [(size - 1) * gap + 1 for size, gap in zip(kernel, _per_dim(dilation, rank))]
    return list(zip(counts, spans, stride, _per_dim(padding, rank))), [prod(sizes[k + 1 :]) for k in range(rank)]


def _per_dim(values: Sequence[int], rank: int) -> list[int]:
    return list(values) * rank if len(values) == 1 else list(values)


def _firsts(
    graph: Graph, like: Node, windows: Sequence[Window], steps: Sequence[int], dtype: torch.dtype
) -> list[Node]:
    """The terms of the positions at which windows begin, one a pooled dimension: of sizes that broadcast to those of the result."""
    device = like.meta["val"].device
    made = []
    for k, ((count, _, stride, padding), step) in enumerate(zip(windows, steps)):
        start, stride = -padding * step, stride * step
        first = call_like(
            graph,
            like,
            prims.iota.default,
            count,
            start=start,
            step=stride,
            dtype=dtype,
            device=device,
            requires_grad=False,
        )
        made.append(call_like(graph, like, aten.view.default, first, [count] + [1] * (len(windows) - 1 - k)))
    return made


def _moved(graph: Graph, x: Node, by: Any, firsts: Sequence[Node], dtype: torch.dtype) -> Node:
    """`x` with `firsts` added or subtracted, in their type, as `dtype`."""
    moved = call_like(graph, x, aten._to_copy.default, x, dtype=firsts[0].meta["val"].dtype)
    for first in firsts:
        moved = call_like(graph, x, by, moved, first)
    return call_like(graph, x, aten._to_copy.default, moved, dtype=dtype)

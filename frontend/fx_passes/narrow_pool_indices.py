"""Narrow indices of a max pooling: it saves for its backward where in its window each element was, a byte, instead of where in the input, eight.

As Inductor does. Which of the two is saved is the partitioner's choice, which takes the smaller.
"""

from collections.abc import Sequence
from math import prod
from operator import getitem
from typing import Any

import torch
from torch.fx import Graph, Node

from ..fx.node_calls import call_like

aten, prims = torch.ops.aten, torch.ops.prims

MOST = 127  # elements of a window that a byte numbers
FARTHEST = 2**31 - 1  # the last position that is computed with in 32 bits: no processor divides vectors of 64
FORWARD = (aten.max_pool2d_with_indices.default, aten.max_pool3d_with_indices.default)
BACKWARD = (aten.max_pool2d_with_indices_backward.default, aten.max_pool3d_with_indices_backward.default)


def narrow_pooling_indices(graph: Graph) -> int:
    """Lets each backward of a max pooling, of windows of static places without gaps, read indices made of numbers in the window. Returns how
    many it changed."""
    narrowed = 0
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target not in BACKWARD:
            continue
        *_, indices = node.args
        windows = _windows(node)
        if windows is not None and _is_of_pooling(indices):
            with graph.inserting_before(indices.next):
                numbers = _numbers(graph, indices, windows)
            with graph.inserting_before(node):
                node.update_arg(len(node.args) - 1, _positions(graph, indices, numbers, windows))
            narrowed += 1
    return narrowed


def _is_of_pooling(indices: Any) -> bool:
    return isinstance(indices, Node) and indices.target is getitem and indices.args[0].target in FORWARD


def _windows(node: Node) -> list[tuple[int, int, int, int, int]] | None:
    """(size of the input, number of windows, elements of a window, stride, padding) for each pooled dimension."""
    _, x, kernel, stride, padding, dilation, _, indices = node.args
    rank = 2 + BACKWARD.index(node.target)
    kernel = _per_dim(kernel, rank)
    stride = _per_dim(stride, rank) if len(stride) else kernel
    sizes, counts = x.meta["val"].shape[-rank:], indices.meta["val"].shape[-rank:]
    if not all(isinstance(n, int) for n in (*sizes, *counts)) or set(dilation) != {1} or prod(kernel) > MOST:
        return None
    return list(zip(sizes, counts, kernel, stride, _per_dim(padding, rank)))


def _per_dim(values: Sequence[int], rank: int) -> list[int]:
    return list(values) * rank if len(values) == 1 else list(values)


def _firsts(graph: Graph, like: Node, windows: Sequence[tuple]) -> list[Node]:
    """For each pooled dimension, where the windows begin in the input: of sizes that broadcast to those of the result."""
    device = like.meta["val"].device
    made = []
    for k, (_, count, _, stride, padding) in enumerate(windows):
        first = call_like(
            graph,
            like,
            prims.iota.default,
            count,
            start=-padding,
            step=stride,
            dtype=_dtype(windows),
            device=device,
            requires_grad=False,
        )
        made.append(call_like(graph, like, aten.view.default, first, [count] + [1] * (len(windows) - 1 - k)))
    return made


def _numbers(graph: Graph, indices: Node, windows: Sequence[tuple]) -> Node:
    """The number of each element in its window, an int8."""
    whole = call_like(graph, indices, aten._to_copy.default, indices, dtype=_dtype(windows))
    places = _parts(graph, indices, whole, [size for size, *_ in windows])
    inside = [
        call_like(graph, indices, aten.sub.Tensor, place, first)
        for place, first in zip(places, _firsts(graph, indices, windows))
    ]
    number = _linear(graph, indices, inside, [kernel for _, _, kernel, *_ in windows])
    return call_like(graph, indices, aten._to_copy.default, number, dtype=torch.int8)


def _positions(graph: Graph, indices: Node, numbers: Node, windows: Sequence[tuple]) -> Node:
    """The indices again: row-major positions in the pooled dimensions."""
    rest = call_like(graph, indices, aten._to_copy.default, numbers, dtype=_dtype(windows))
    inside = _parts(graph, indices, rest, [kernel for _, _, kernel, *_ in windows])
    places = [
        call_like(graph, indices, aten.add.Tensor, one, first)
        for one, first in zip(inside, _firsts(graph, indices, windows))
    ]
    position = _linear(graph, indices, places, [size for size, *_ in windows])
    return call_like(graph, indices, aten._to_copy.default, position, dtype=torch.int64)


def _dtype(windows: Sequence[tuple]) -> torch.dtype:
    """Of positions in the input."""
    return torch.int32 if prod(size for size, *_ in windows) <= FARTHEST else torch.int64


def _linear(graph: Graph, like: Node, places: Sequence[Node], sizes: Sequence[int]) -> Node:
    """The row-major position of `places` in `sizes`."""
    position = places[0]
    for place, size in zip(places[1:], sizes[1:]):
        scaled = call_like(graph, like, aten.mul.Scalar, position, size)
        position = call_like(graph, like, aten.add.Tensor, scaled, place)
    return position


def _parts(graph: Graph, like: Node, position: Node, sizes: Sequence[int]) -> list[Node]:
    """The index of each dimension of a row-major `position` in `sizes`."""
    parts = list[Node]()
    for size in reversed(sizes[1:]):
        parts.insert(0, call_like(graph, like, aten.remainder.Scalar, position, size))
        position = call_like(graph, like, aten.div.Scalar_mode, position, size, rounding_mode="floor")
    return [position, *parts]

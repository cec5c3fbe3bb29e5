"""Convolutions on a GPU whose windows tile their image, as matrix products: patches of a vision transformer, steps between stages whose stride
is their window's size, and their transposed forms.

Such windows read each element of the image once: patches are the image in another order. The convolution and both its gradients are a product
each then, and the order is an index map of what makes or reads the image. cuDNN has no kernel of its own for them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from operator import getitem
from typing import Any

import torch
from torch.fx import Graph, Node

from ..fx.matmul_precision import convolutions_are_alike
from ..fx.node_calls import arguments_of, call_like, lie_alike, memory_format_of

aten = torch.ops.aten

CALLS = (aten.convolution.default, aten.convolution_backward.default)
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def multiply_tiles(graph: Graph, devices: Sequence[str] = ("cuda",)) -> int:
    """Replaces convolutions on `devices` whose windows tile their image, and their gradients, by matrix products. Returns how many."""
    replaced, patches = 0, dict[Any, Node]()
    for node in list(graph.nodes):
        if node.op == "call_function" and node.target in CALLS and (found := _found(node, devices)):
            with graph.inserting_before(node):
                found.replace(graph, patches)
            graph.erase_node(node)
            replaced += 1
    return replaced


@dataclass(frozen=True)
class _Tiling:
    """Windows beside each other in an image of (N, `channels`, *`sizes`), of each dim `counts` of `window` elements; some may be left at its
    end. `order`: dims of the weight, (channels of rows, channels, *window), but its first, as they lie in memory."""

    channels: int
    sizes: tuple[int, ...]
    counts: tuple[int, ...]
    window: tuple[int, ...]
    order: tuple[int, ...]

    @property
    def patch(self) -> list[int]:
        """The sizes of a patch, in its order."""
        return [(self.channels, *self.window)[dim - 1] for dim in self.order]

    @property
    def rows(self) -> list[int]:
        """Of an image as (N, channels, count, window, count, window, ..) the dims, as (N, *counts, *patch)."""
        patch = [1 if dim == 1 else 2 * dim - 1 for dim in self.order]
        return [0, *range(2, 2 + 2 * len(self.counts), 2), *patch]


@dataclass(frozen=True)
class _Found:
    """A call of a convolution, or of its gradients where `gradient` is that of the result."""

    node: Node
    gradient: Node | None
    x: Node
    weight: Node
    transposed: bool
    tiling: _Tiling

    def replace(self, graph: Graph, patches: dict[Any, Node]) -> None:
        """Puts products before the node, and in the place of its results. `patches`: those that are made already."""
        if self.gradient is None:
            self.node.replace_all_uses_with(self._of(0, _Products(graph, self.tiling, patches, self.node)))
            return
        for user in list(self.node.users):
            if user.users:
                user.replace_all_uses_with(self._of(user.args[1], _Products(graph, self.tiling, patches, user)))
            graph.erase_node(user)

    def _of(self, result: Any, products: "_Products") -> Node:
        """Result 0 or 1: the convolution, or the gradients of x and of the weight. A gradient of x goes the way of a transposed convolution."""
        given = self.x if self.gradient is None else self.gradient
        if result == 1:
            return products.weight(given, self.x) if self.transposed else products.weight(self.x, given)
        to_image = self.transposed == (self.gradient is None)
        return products.image(given, self.weight) if to_image else products.rows(given, self.weight)


def _found(node: Node, devices: Sequence[str]) -> _Found | None:
    """Reads `node`; None where it is no call of a convolution, or of its gradients, that is to be replaced."""
    given = arguments_of(node)
    gradient = given.pop(0) if node.target is CALLS[1] else None
    x, weight, bias, stride, padding, dilation, transposed, more, groups, *mask = given
    biased = bias is not None if gradient is None else mask[0][2]
    tensors = [each.meta["val"] for each in (gradient, x, weight) if each is not None]
    results = [node] if gradient is None else [user for user in node.users if user.users]
    parted = gradient is None or all(user.target is getitem and user.args[1] != 2 for user in results)
    if biased or groups != 1 or not parted or not _are_taken(tensors, devices):
        return None
    small = node.meta["val"] if gradient is None else gradient.meta["val"]
    image, rows = (small, x.meta["val"]) if transposed else (x.meta["val"], small)
    tiling = _tiling(image, rows, weight.meta["val"], stride, [*padding, *more, *(d - 1 for d in dilation)])
    if tiling is None or not all(memory_format_of(each.meta["val"]) for each in results):
        return None
    return _Found(node, gradient, x, weight, transposed, tiling)


def _are_taken(tensors: Sequence[torch.Tensor], devices: Sequence[str]) -> bool:
    """Whether products of such tensors are as exact as their convolution: cuDNN has a setting of its own for TF32."""
    dtype = tensors[0].dtype
    alike = all(each.device.type in devices and each.dtype == dtype for each in tensors)
    return alike and dtype in DTYPES and (dtype != torch.float32 or convolutions_are_alike())


def _tiling(
    image: torch.Tensor, rows: torch.Tensor, weight: torch.Tensor, stride: Sequence[int], rest: Sequence[int]
) -> _Tiling | None:
    """How windows tile `image`, where nothing of `rest` (padding, more of the result, gaps in a window) is asked for; None where they do
    not: they overlap, have gaps between them, or sizes beside N are known at run time alone."""
    (_, channels, *sizes), (_, _, *counts), (_, _, *window) = image.shape, rows.shape, weight.shape
    numbers = [channels, *sizes, *counts, *weight.shape]
    if any(rest) or len(rows.shape) != len(window) + 2 or not all(type(each) is int and each for each in numbers):
        return None
    if [*stride] * (len(window) if len(stride) == 1 else 1) != window or not pays(window):
        return None
    order = sorted(range(1, weight.dim()), key=lambda dim: -weight.stride(dim))
    return _Tiling(channels, tuple(sizes), tuple(counts), tuple(window), tuple(order))


def pays(window: Sequence[int]) -> bool:
    """Whether products are faster than cuDNN's kernels: these are products for windows of one element. 1.2 to 14 times on an H200 for larger
    ones (2026-11-27, `benchmarks.tiled_convolutions`)."""
    return max(window) > 1


@dataclass(frozen=True)
class _Products:
    """Products for one convolution, at the insertion point of `graph`, that give what `like` gives. Images are (N, channels, *sizes), rows are
    images of the windows, (N, channels of rows, *counts). `patches`: those that are made, which a gradient reads too."""

    graph: Graph
    tiling: _Tiling
    patches: dict[Any, Node]
    like: Node

    def rows(self, image: Node, weight: Node) -> Node:
        """Each patch times the weight."""
        made = self._call(aten.mm.default, self._patches(image), self._permuted(self._matrix(weight), [1, 0]))
        made = self._call(aten.view.default, made, [-1, *self.tiling.counts, made.meta["val"].shape[1]])
        return self._laid(self._channels_second(made))

    def image(self, rows: Node, weight: Node) -> Node:
        """Each row times the weight, where its patch lies; 0 where none does."""
        tiling, rank = self.tiling, len(self.tiling.counts)
        made = self._call(aten.mm.default, self._flat(rows), self._matrix(weight))
        made = self._call(aten.view.default, made, [-1, *tiling.counts, *tiling.patch])
        # As the result lies in memory, so that the image is a view of what is copied.
        channels_last = memory_format_of(self.like.meta["val"]) is not torch.contiguous_format
        wanted = [0, *range(2, 2 + 2 * rank)]
        wanted.insert(len(wanted) if channels_last else 1, 1)
        made = self._permuted(made, [tiling.rows.index(dim) for dim in wanted])
        sizes = [count * window for count, window in zip(tiling.counts, tiling.window)]
        made = self._viewed(made, [-1, *sizes, tiling.channels] if channels_last else [-1, tiling.channels, *sizes])
        made = self._channels_second(made) if channels_last else made
        left = [whole - size for whole, size in zip(tiling.sizes, sizes)]
        if any(left):
            ends = [end for each in reversed(left) for end in (0, each)]
            made = self._call(aten.constant_pad_nd.default, made, ends, 0)
        return self._laid(made)

    def weight(self, image: Node, rows: Node) -> Node:
        """The sum over N and windows of rows by patches."""
        made = self._call(aten.mm.default, self._permuted(self._flat(rows), [1, 0]), self._patches(image))
        made = self._call(aten.view.default, made, [made.meta["val"].shape[0], *self.tiling.patch])
        order = self.tiling.order
        return self._laid(self._permuted(made, [0, *(1 + order.index(dim) for dim in range(1, 1 + len(order)))]))

    def _patches(self, image: Node) -> Node:
        """(N * windows, patch)."""
        key = image, self.tiling
        if key not in self.patches:
            tiling, cut, sizes = self.tiling, image, [-1, self.tiling.channels]
            for dim, (size, count, window) in enumerate(zip(tiling.sizes, tiling.counts, tiling.window), 2):
                if count * window < size:
                    cut = self._call(aten.slice.Tensor, cut, dim, 0, count * window)
                sizes += [count, window]
            cut = self._permuted(self._call(aten.view.default, cut, sizes), tiling.rows)
            self.patches[key] = self._viewed(cut, [-1, prod(tiling.patch)])
        return self.patches[key]

    def _flat(self, rows: Node) -> Node:
        """(N * windows, channels)."""
        _, channels, *counts = rows.meta["val"].shape
        return self._viewed(self._permuted(rows, [0, *range(2, 2 + len(counts)), 1]), [-1, channels])

    def _matrix(self, weight: Node) -> Node:
        """(channels of rows, patch)."""
        sizes = [weight.meta["val"].shape[0], prod(self.tiling.patch)]
        return self._viewed(self._permuted(weight, [0, *self.tiling.order]), sizes)

    def _call(self, target: Any, *args: Any, **kwargs: Any) -> Node:
        return call_like(self.graph, self.like, target, *args, **kwargs)

    def _permuted(self, node: Node, dims: list[int]) -> Node:
        return node if dims == [*range(len(dims))] else self._call(aten.permute.default, node, dims)

    def _channels_second(self, node: Node) -> Node:
        rank = node.meta["val"].dim()
        return self._permuted(node, [0, rank - 1, *range(1, rank - 1)])

    def _viewed(self, node: Node, sizes: list[int]) -> Node:
        """A view, of a copy where memory does not lie so."""
        if not node.meta["val"].is_contiguous():
            node = self._call(aten.clone.default, node, memory_format=torch.contiguous_format)
        return self._call(aten.view.default, node, sizes)

    def _laid(self, node: Node) -> Node:
        """As `like` lies in memory, copied where `node` does not."""
        wanted, format_ = self.like.meta["val"], memory_format_of(self.like.meta["val"])
        if not node.meta["val"].is_contiguous(memory_format=format_):
            node = self._call(aten.clone.default, node, memory_format=format_)
        if lie_alike(node.meta["val"], wanted) or not all(type(size) is int for size in wanted.shape):
            return node
        sizes, strides = [*wanted.shape], [*wanted.stride()]  # which differ in dims of one element
        return self._call(aten.as_strided.default, node, sizes, strides, 0)

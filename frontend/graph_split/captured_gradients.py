"""The gradients of what scores of `flex_attention` capture: sums of numbers of each batch, head, row and key, by where these were read.

Where an index is the same for all rows, keys or batches, these are summed before anything is scattered, in the kernel that computes them
(`fuse-products`), and are in no memory.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node

from bascule.compat.graphs.dynamo import ZEROS_AND_SCATTER

from ..fx.node_calls import call_like
from ..fx.storages import is_view
from ..fx.trace_context import known

aten = torch.ops.aten

CREATIONS = (aten.zeros.default, aten.full.default, aten.new_zeros.default)


def scattered(shape: Sequence[int], indices: Sequence[Tensor], values: Tensor) -> Tensor:
    """Zeros of `shape`, to which `values` are added where `indices`, of their sizes, say: those of 16 bits in f32, and rounded at last."""
    wide = values.float() if values.dtype in (torch.float16, torch.bfloat16) else values
    dims = [dim for dim in range(values.ndim) if all(_is_alike(x, dim) for x in indices)]
    for dim in dims:
        indices = [x.narrow(dim, 0, 1) for x in indices]
    return aten.index_put(wide.new_zeros(shape), list(indices), _summed(wide, dims), accumulate=True).to(values.dtype)


def _is_alike(index: Tensor, dim: int) -> bool:
    """Whether an index is the same along `dim`, which is more than one point."""
    stride = index.stride(dim)
    return isinstance(stride, int) and stride == 0 and known(index.shape[dim] > 1)


def _summed(values: Tensor, dims: Sequence[int]) -> Tensor:
    """`values` summed over `dims`: over keys, else rows, else the batch and heads as one first, as kernels do; then over the rest."""
    last, left = values.ndim - 1, list(dims)
    first = next((dim for dim in (last, last - 1) if dim in left), None)
    if first is None and left == [0, 1]:
        return values.reshape(1, -1, *values.shape[2:]).sum(1, keepdim=True)
    for dim in [first, *(dim for dim in left if dim != first)] if first is not None else left:
        values = values.sum(dim, keepdim=True)
    return values


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {ZEROS_AND_SCATTER: scattered}


def drop_whole_scatters(graph: Graph) -> int:
    """Replaces sums into zeros at all places in order by what is added; returns how many there were."""
    found = 0
    for node in graph.find_nodes(op="call_function", target=aten.index_put.default):
        dims = _places(node)
        if dims is None:
            continue
        target, _, values = node.args[:3]
        with graph.inserting_before(node):
            order = [*dims, *(dim for dim in range(values.meta["val"].ndim) if dim not in dims)]
            moved = call_like(graph, node, aten.permute.default, values, order)
            sizes = [*target.meta["val"].shape]
            made = call_like(graph, node, aten.reshape.default, moved, sizes)
        node.replace_all_uses_with(made)
        graph.erase_node(node)
        found += 1
    if found:
        graph.eliminate_dead_code()
    return found


def _places(node: Node) -> list[int] | None:
    """The dims of what is added that are those of the zeros, in order; None where it is not added at all places, or to something else."""
    target, indices, values, *accumulate = node.args
    if (
        target.target not in CREATIONS
        or accumulate != [True]
        or (target.target is aten.full.default and target.args[1])
    ):
        return None
    sizes, dims = values.meta["val"].shape, list[int]()
    if len(indices) != len(target.meta["val"].shape) or None in indices:
        return None
    for index, size in zip(indices, target.meta["val"].shape):
        dim = _counted(index, size)
        if dim is None or dim in dims or len(index.meta["val"].shape) != len(sizes):
            return None
        dims.append(dim)
    whole = all(isinstance(size, int) and (dim in dims or size == 1) for dim, size in enumerate(sizes))
    return dims if whole else None


def _counted(index: Node, size: int) -> int | None:
    """The dim along which `index` is 0, 1 .. up to `size`, whatever the others are; None where it is something else."""
    value = index.meta["val"]
    varying = [dim for dim, n in enumerate(value.shape) if n != 1 and value.stride(dim) != 0]
    while is_view(index):
        index = index.args[0]
    if index.target is not aten.arange.default or index.args != (size,) or len(varying) != 1:
        return None
    plain = value.stride(varying[0]) == 1 and value.shape[varying[0]] == size and value.storage_offset() == 0
    return varying[0] if plain else None

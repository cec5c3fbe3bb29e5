"""Integer tensors that are permutations of 0 to n - 1, by what makes them: the places that a sort of a vector finds, and inverses of those."""

from collections.abc import Iterator
from operator import getitem
from typing import Any

import torch
from torch.fx import Graph, Node

from .node_calls import arguments_of, call_like

aten = torch.ops.aten

_SORTS = (aten.sort.default, aten.sort.stable)
_ARGSORTS = (aten.argsort.default, aten.argsort.stable)


def is_permutation(node: Any) -> bool:
    """Whether a node is a vector of each of the numbers from 0 to its length less 1."""
    while isinstance(node, Node):  # an inverse is one if that is which it inverts
        if _sorted(node) is not None:
            return True
        node = _put_at(node)
    return False


def inverted_by(node: Node) -> Node | None:
    """The permutation that `node` is the inverse of, by what makes it."""
    sorted_ = _sorted(node)
    before = _put_at(node) if sorted_ is None else sorted_ if not _descends(node) else None
    return before if before is not None and is_permutation(before) else None


def inverses(node: Node) -> Iterator[Node]:
    """The inverses of the permutation `node` that its graph has."""
    before = inverted_by(node)
    if before is not None:
        yield before
    near = [
        each for reader in node.users for each in (reader, *reader.users)
    ]  # the places of a sort are a reader's reader
    yield from (each for each in dict.fromkeys(near) if inverted_by(each) is node)


def make_inverse(graph: Graph, node: Node) -> Node:
    """A new inverse of the permutation `node`, right behind it."""
    value = node.meta["val"]
    with graph.inserting_before(node.next):
        empty = call_like(graph, node, aten.empty_like.default, node)
        places = call_like(graph, node, aten.arange.default, value.shape[0], device=value.device)
        return call_like(graph, node, aten.index_put.default, empty, [node], places)


def _sorted(node: Node) -> Node | None:
    """The vector of static size whose sorting `node` is the places of."""
    sort = node
    if node.target is getitem:
        sort, number = node.args
        if number != 1 or not isinstance(sort, Node) or sort.target not in _SORTS:
            return None
    elif node.op != "call_function" or node.target not in _ARGSORTS:
        return None
    keys = sort.args[0]
    return keys if _is_vector(keys) else None


def _descends(node: Node) -> bool:
    sort = node.args[0] if node.target is getitem else node
    return bool(arguments_of(sort)[-1])


def _put_at(node: Node) -> Node | None:
    """The vector at whose places `node` has the numbers from 0 on, one a place; its length is that of `node`."""
    if node.op != "call_function" or node.target is not aten.index_put.default:
        return None
    base, indices, values, adds = arguments_of(node)
    if adds or len(indices) != 1 or not isinstance(values, Node) or not _counts(values):
        return None
    sizes = [each.meta["val"].shape if isinstance(each, Node) else None for each in (base, indices[0], values)]
    return indices[0] if _is_vector(base) and sizes[0] == sizes[1] == sizes[2] else None


def _counts(node: Node) -> bool:
    """Whether a vector has the numbers from 0 on."""
    if node.target not in (aten.arange.default, aten.arange.start_step) or node.meta["val"].is_floating_point():
        return False
    first, _, step, *_ = (0, 0, 1) if node.target is aten.arange.default else arguments_of(node)
    return (first, step) == (0, 1)


def _is_vector(node: Any) -> bool:
    value = node.meta.get("val") if isinstance(node, Node) else None
    return isinstance(value, torch.Tensor) and value.dim() == 1 and type(value.shape[0]) is int

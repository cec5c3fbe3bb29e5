"""Sums at rows in the order of a permutation, as gradients of rows that were sorted by expert: each row has one addend, or as many as were
divided into one place, and is gathered by the inverse. That is fused with what reads it, and adds in one order."""

from typing import Any, NamedTuple

import torch
from torch.fx import Graph, Node

from ..fx.node_calls import arguments_of, call_like
from ..fx.permutations import inverses, is_permutation, make_inverse

aten = torch.ops.aten

_PUTS = (aten.index_put.default, aten._unsafe_index_put.default)
_ZEROS = (aten.new_zeros.default, aten.zeros.default, aten.zeros_like.default)
_FILLED = (aten.full.default, aten.full_like.default, aten.new_full.default)


class _Sum(NamedTuple):
    """Adds row i of `values` to row `order[i] // together` of `base`."""

    base: Node
    order: Node
    together: int
    values: Node


def gather_permuted_rows(graph: Graph) -> int:
    """Gathers what is added at the rows of a permutation, or at those of one divided by a number that divides its length. Returns how many sums
    it replaced."""
    replaced, made = 0, dict[Node, Node]()
    order = {node: number for number, node in enumerate(graph.nodes)}
    for node in list(graph.nodes):
        found = _sum_of(node)
        if found is None:
            continue
        permutation = found.order
        known = [each for each in inverses(permutation) if order.get(each, len(order)) < order[node]]
        if not known and permutation not in made:
            made[permutation] = make_inverse(graph, permutation)
        with graph.inserting_before(node):
            result = _gathered(graph, node, found, known[0] if known else made[permutation])
        node.replace_all_uses_with(result)
        graph.erase_node(node)
        replaced += 1
    return replaced


def _sum_of(node: Node) -> _Sum | None:
    """The sum that `node` is, of static sizes; None for something else."""
    if node.op != "call_function" or node.target not in (*_PUTS, aten.index_add.default):
        return None
    base, second, third, last = arguments_of(node)[:4] if node.target in _PUTS else _of_index_add(node)
    if last is not True or len(second) != 1 or not all(isinstance(x, Node) for x in (base, second[0], third)):
        return None
    permutation, together = _divided(second[0])
    if not is_permutation(permutation):
        return None
    rows, *rest = third.meta["val"].shape
    (count,) = permutation.meta["val"].shape
    sizes, like = tuple(base.meta["val"].shape), base.meta["val"].dtype == third.meta["val"].dtype
    static = all(type(size) is int for size in (rows, *rest, *sizes))
    fits = static and rows == count and count % together == 0 and sizes == (count // together, *rest)
    logical = base.meta["val"].dtype == torch.bool  # which is no sum
    return _Sum(base, permutation, together, third) if fits and like and not logical else None


def _of_index_add(node: Node) -> tuple[Any, list[Any], Any, bool]:
    """Its base, rows and addends, as those of `index_put`; and whether it is a sum over rows."""
    base, dim, index, source, alpha = arguments_of(node)
    return base, [index], source, dim == 0 and alpha == 1


def _divided(index: Node) -> tuple[Node, int]:
    """The numerator of a division that rounds down, and the denominator; 1 where nothing is divided."""
    divides = index.target is aten.floor_divide.default or (
        index.target in (aten.div.Tensor_mode, aten.div.Scalar_mode) and index.kwargs.get("rounding_mode") == "floor"
    )
    if divides and type(index.args[1]) is int and index.args[1] > 0 and isinstance(index.args[0], Node):
        return index.args[0], index.args[1]
    return index, 1


def _gathered(graph: Graph, node: Node, sum_: _Sum, inverse: Node) -> Node:
    """The value of `node`, by an inverse of its order."""
    result = call_like(graph, node, aten.index.Tensor, sum_.values, [inverse])
    sizes = list(node.meta["val"].shape)
    if sum_.together > 1:
        grouped = call_like(graph, node, aten.view.default, result, [sizes[0], sum_.together, *sizes[1:]])
        result = call_like(graph, node, aten.sum.dim_IntList, grouped, [1], dtype=node.meta["val"].dtype)
    if not _is_zeros(sum_.base):
        result = call_like(graph, node, aten.add.Tensor, sum_.base, result)
    return result


def _is_zeros(node: Node) -> bool:
    filled = node.target in _FILLED and node.args[-1] == 0
    return node.target in _ZEROS or filled

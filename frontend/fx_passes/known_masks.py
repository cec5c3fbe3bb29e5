"""Masks that hide nothing, whatever the data: comparisons of integers of known ranges, as whether an expert that `topk` has chosen of 8 is the
ninth or a later one."""

import operator
from collections.abc import Callable

import torch
from torch.fx import Graph, Node

from ..fx.graph_ends import inputs_of
from ..fx.integer_ranges import IntegerRanges, Range
from ..fx.node_calls import lie_alike
from ..fx.storages import storage_of

aten = torch.ops.aten

# A comparison with a number -> what holds of one end of the range, the least or the greatest element, if it is true of none: 0 or 1.
_NEVER: dict[object, tuple[int, Callable[[int, int], bool]]] = {
    aten.ge.Scalar: (1, operator.lt),
    aten.gt.Scalar: (1, operator.le),
    aten.lt.Scalar: (0, operator.ge),
    aten.le.Scalar: (0, operator.gt),
}
_VIEWS = {aten.unsqueeze.default, aten.view.default, aten.expand.default, aten.squeeze.dim, aten.t.default}
_VIEWS |= {aten.permute.default, aten.transpose.int, aten.clone.default}
_FILLS = {aten.masked_fill.Scalar, aten.masked_fill.Tensor}


def drop_known_masks(graph: Graph) -> int:
    """Takes `x` for each `masked_fill` of `x` whose mask compares integers with a number that none of them is on that side of, by what makes
    them. Returns how many.

    Kept are those in, or of, the memory of an input or an output of the graph: whether that is shared is for the user to see.
    """
    compared = [node for node in graph.nodes if node.op == "call_function" and node.target in _NEVER]
    if not compared:
        return 0
    ranges = IntegerRanges()
    seen = {storage_of(node) for node in (*inputs_of(graph), *graph.output_node().all_input_nodes)} | {None}
    dropped = 0
    for node in compared:
        if _is_false(node, ranges.of(node.args[0])):
            for fill in _fills(node):
                source = fill.args[0]
                if storage_of(fill) in seen or storage_of(source) in seen or not _alike(fill, source):
                    continue
                fill.replace_all_uses_with(source)
                graph.erase_node(fill)
                dropped += 1
    return dropped


def _is_false(node: Node, range_: Range | None) -> bool:
    """Whether a comparison holds of no element of `range_`."""
    end, fails = _NEVER[node.target]
    number = node.args[1]
    return range_ is not None and type(number) is int and fails(range_[end], number)


def _fills(mask: Node) -> list[Node]:
    """The calls that fill where `mask`, or a view of it, is set."""
    found, waiting = list[Node](), [mask]
    while waiting:
        node = waiting.pop()
        for user in node.users:
            if user.target in _FILLS and user.args[1] is node and user.args[0] is not node:
                found.append(user)
            elif user.target in _VIEWS:
                waiting.append(user)
    return found


def _alike(fill: Node, source: Node) -> bool:
    one, other = fill.meta["val"], source.meta["val"]
    return one.dtype == other.dtype and lie_alike(one, other)

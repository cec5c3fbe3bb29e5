"""Operands of extrema: the forward saves the tensor in which the backward looks for the extreme, so that it is not computed again.

The gradient of `x.amax(1)` goes to the elements that equal the result, divided by their number. If the partitioner has `x` computed again from
what was saved, rounded once more or contracted otherwise than where the result was found, no element may equal it: 0 / 0. For the same reason a
cast between the two takes what is saved, rounded to 16 bits, in the forward too.
"""

from operator import getitem

import torch
from torch.fx import Graph, Node
from torch.utils.checkpoint import CheckpointPolicy

from ..fx.node_values import STORED_CAST
from ..fx.storages import is_view

aten = torch.ops.aten

EXTREMES = (
    *(aten.amax.default, aten.amin.default, aten.max.default, aten.min.default, aten.aminmax.default),
    aten.linalg_vector_norm.default,  # of infinite order
)
# Beside views: what keeps the order of values, or, as `abs` of them, is the same on both sides of a comparison.
THROUGH = (aten.clone.default, aten._to_copy.default, aten.abs.default)


def save_extremes(graph: Graph) -> int:
    """Marks what is compared with its own extreme, and the extreme, as to be saved, in a joint graph before it is split. Returns how many
    comparisons it found. What a checkpointed region computes again stays so: the extreme is then found again, too."""
    found = 0
    for node in graph.find_nodes(op="call_function", target=aten.eq.Tensor):
        for one, other in (node.args, node.args[::-1]):
            extreme = _origin(other)
            reduced = extreme.args[0] if extreme.target is getitem else extreme
            if reduced.target in EXTREMES and _origin(reduced.args[0]) is _origin(one):
                _keep(_origin(one))
                _keep(extreme)
                _mark_casts(reduced.args[0])
                found += 1
    return found


def _origin(node: Node) -> Node:
    """The node that `node` is a view, a copy or the magnitude of."""
    while is_view(node) or node.target in THROUGH:
        node = node.args[0]
    return node


def _mark_casts(node: Node) -> None:
    """Marks the casts between `node` and its origin: what they widen is rounded before."""
    while is_view(node) or node.target in THROUGH:
        node.meta[STORED_CAST] = True
        node = node.args[0]


def _keep(node: Node) -> None:
    if node.op == "call_function":
        node.meta.setdefault("recompute", CheckpointPolicy.MUST_SAVE)

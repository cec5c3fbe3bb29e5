"""Batch norms in training as one operator: traced whole, and taken apart only where the partitioner gains by it.

PyTorch decomposes one into about thirty operators, each of which costs a millisecond to trace and half of one to compile. A rule builds it from
the operator itself (`frontend/rules/reduce/normalizations.py`). But the partitioner does not compute a whole one again in the backward, and
what it is pointwise in would be saved beside its input. So where the backward does not have the result anyway, what follows the
statistics becomes operators of its own.
"""

from collections.abc import Callable
from operator import getitem
from typing import Any

import torch
from torch.fx import Graph, Node

from ..fx.node_calls import call_like, lie_alike

aten = torch.ops.aten

BATCH_NORM = aten._native_batch_norm_legit_functional.default
X, WEIGHT, BIAS, TRAINING = 0, 1, 2, 5  # operands
RESULT, MEAN, RSTD = 0, 1, 2
WIDE = (torch.float32, torch.float64)  # of which the statistics among the results are as exact as those inside
# A convolution's backward reads what the convolution read; through these operators it does so for a batch norm.
FOLLOWING = (aten.relu.default, aten.add.Tensor, aten.detach.default)
FARTHEST = 8  # operators from a batch norm to a convolution


def kept_whole(decomposition: Callable[..., Any]) -> Callable[..., Any]:
    """`decomposition` of a batch norm, but for those in training on a CPU."""

    def decompose(x: torch.Tensor, *args: Any) -> Any:
        if args[TRAINING - 1] and x.device.type == "cpu" and x.dtype in WIDE:
            return NotImplemented
        return decomposition(x, *args)

    return decompose


def open_batch_norms(graph: Graph) -> int:
    """Takes batch norms apart whose results the backward would not keep, in a joint graph. Returns how many."""
    opened = 0
    for node in graph.find_nodes(op="call_function", target=BATCH_NORM):
        for result in [user for user in node.users if user.target is getitem and user.args[1] == RESULT]:
            if not _kept_anyway(result):
                opened += _open(graph, node, result)
    return opened


def _kept_anyway(node: Node, steps: int = FARTHEST) -> bool:
    """Whether the backward of a convolution has `node`, or all that is computed of it."""
    if any(user.target is aten.convolution_backward.default and user.args[1] is node for user in node.users):
        return True
    return steps > 0 and all(user.target in FOLLOWING and _kept_anyway(user, steps - 1) for user in node.users)


def _open(graph: Graph, node: Node, result: Node) -> bool:
    x, weight, bias = (node.args[place] for place in (X, WEIGHT, BIAS))
    with graph.inserting_before(result.next):

        def statistic(place: int) -> Node:
            found = graph.call_function(getitem, (node, place))
            found.meta = {**result.meta, "val": node.meta["val"][place]}
            return found

        def by_channel(statistic: Node) -> Node:
            for _ in range(x.meta["val"].dim() - 2):
                statistic = call_like(graph, result, aten.unsqueeze.default, statistic, -1)
            return statistic

        value = call_like(graph, result, aten.sub.Tensor, x, by_channel(statistic(MEAN)))
        value = call_like(graph, result, aten.mul.Tensor, value, by_channel(statistic(RSTD)))
        if weight is not None:
            value = call_like(graph, result, aten.mul.Tensor, value, by_channel(weight))
        if bias is not None:
            value = call_like(graph, result, aten.add.Tensor, value, by_channel(bias))
    same = lie_alike(value.meta["val"], result.meta["val"])
    if same:
        result.replace_all_uses_with(value)
        graph.erase_node(result)
    return same  # else what was made is dead

"""Biases of convolutions on a GPU as additions and sums of their own, which are fused with what is around them.

cuDNN's convolutions take no bias: PyTorch adds it with one more pass over the result, and sums its gradient with one more over the result's.
"""

from collections.abc import Sequence
from operator import getitem

import torch
from torch.fx import Graph, Node

from ..fx.node_calls import call_like, lie_alike

aten = torch.ops.aten


def peel_biases(graph: Graph, devices: Sequence[str] = ("cuda",)) -> int:
    """Replaces the bias of each convolution on `devices` by an addition, and in each convolution's backward its gradient by a sum.

    Returns how many it replaced.
    """
    peel = {aten.convolution.default: _peel, aten.convolution_backward.default: _peel_gradient}
    found = [node for node in graph.nodes if node.op == "call_function" and node.target in peel]
    return sum(peel[node.target](graph, node) for node in found if node.args[0].meta["val"].device.type in devices)


def _peel(graph: Graph, node: Node) -> bool:
    x, weight, bias, *rest = node.args
    if bias is None:
        return False
    value = node.meta["val"]
    with graph.inserting_before(node):
        product = call_like(graph, node, aten.convolution.default, x, weight, None, *rest)
        column = call_like(graph, node, aten.view.default, bias, [-1] + [1] * (value.dim() - 2))
        total = call_like(graph, node, aten.add.Tensor, product, column)
    if _stands_for(total, value):
        node.replace_all_uses_with(total)
        graph.erase_node(node)
        return True
    for made in (total, column, product):
        graph.erase_node(made)
    return False


def _peel_gradient(graph: Graph, node: Node) -> bool:
    *rest, (of_input, of_weight, of_bias) = node.args
    found = [user for user in node.users if user.target is getitem and user.args[1] == 2]
    if not of_bias or len(found) != 1:
        return False
    (gradient,) = found
    tangent = node.args[0]
    places = [dim for dim in range(tangent.meta["val"].dim()) if dim != 1]
    with graph.inserting_before(node):
        total = call_like(graph, gradient, aten.sum.dim_IntList, tangent, places)
    if not _stands_for(total, gradient.meta["val"]):
        graph.erase_node(total)
        return False
    gradient.replace_all_uses_with(total)
    graph.erase_node(gradient)
    node.args = (*rest, [of_input, of_weight, False])
    node.meta["val"] = (*node.meta["val"][:2], None)
    return True


def _stands_for(node: Node, value: torch.Tensor) -> bool:
    made = node.meta["val"]
    return made.dtype == value.dtype and lie_alike(made, value)

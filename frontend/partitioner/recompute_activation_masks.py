"""Recomputation of activation masks: a normalization's backward computes from the normalization's input whether the activation let an element
pass.

The backward of `relu(batch_norm(x))` reads `x` anyway, twice: for the sums over each channel and for the gradient. That `relu` let an element
pass is a few operations on `x` and on what each channel has (mean, deviation, weight, bias). Reading the activation for it, as autograd does,
is two more passes over a tensor as large as `x`; the activation then need not be kept, if nothing else asks for it.
"""

import math
from collections.abc import Sequence

import torch
from torch.fx import Graph, Node

from bascule.compat.operators.schemas import OpOverload

from ..fx.node_calls import call_like
from ..fx.operator_effects import draws
from ..fx.trace_context import hint

aten = torch.ops.aten

# Gradients of activations -> which of their operands is the activation's result, or what it was applied to.
GRADIENTS = {
    aten.threshold_backward.default: 1,
    aten.hardtanh_backward.default: 1,
    aten.hardswish_backward.default: 1,
    aten.hardsigmoid_backward.default: 1,
    aten.leaky_relu_backward.default: 1,
    aten.silu_backward.default: 1,
    aten.gelu_backward.default: 1,
}
# Backwards of normalizations -> where their gradient and what was normalized stand.
NORMALIZATIONS = {aten.native_batch_norm_backward.default: (0, 1)}
SMALL = 16  # times fewer elements than what was normalized: statistics and weights
LONGEST = 16  # operations on an element that are worth repeating
CASTS = (aten._to_copy.default, aten.detach.default)


def recompute_masks(graph: Graph, devices: Sequence[str] = ("cuda",)) -> int:
    """Lets each gradient of an activation on `devices`, of which a normalization's backward is computed, read values computed from what that
    backward reads. Of a joint graph, before it is split; returns how many it changed."""
    found = 0
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target not in NORMALIZATIONS:
            continue
        gradient, x = (node.args[place] for place in NORMALIZATIONS[node.target])
        while gradient.op == "call_function" and gradient.target in CASTS:
            gradient = gradient.args[0]
        if gradient.target in GRADIENTS and x.meta["val"].device.type in devices:
            found += _recompute(graph, gradient, x)
    return found


def _recompute(graph: Graph, gradient: Node, x: Node) -> bool:
    place = GRADIENTS[gradient.target]
    value = _asked(gradient, gradient.args[place])
    chain = _chain(value, x)
    if chain is None:
        return False
    copies = dict[Node, Node]()
    with graph.inserting_before(gradient):
        for node in chain:
            arguments = [copies.get(arg, arg) if isinstance(arg, Node) else arg for arg in node.args]
            copies[node] = call_like(graph, gradient, node.target, *arguments, **node.kwargs)
    gradient.update_arg(place, copies[value])
    return True


def _asked(gradient: Node, value: Node) -> Node:
    """`value`, or what it is the relu of, where the gradient only asks whether it is above 0 or more."""
    while value.target is aten.detach.default:
        (value,) = value.all_input_nodes
    above = gradient.args[2] if gradient.target is aten.threshold_backward.default else -1
    return value.args[0] if value.target is aten.relu.default and above >= 0 else value


def _chain(value: Node, x: Node) -> list[Node] | None:
    """The nodes, in order, that compute `value` from `x` and small tensors, each element from those at its place; None where there is more
    to it."""
    order, seen = list[Node](), set[Node]()
    sizes = _sizes(x)

    def visit(node: Node) -> bool:
        if node is x or node in seen or _is_small(node, x):
            return True
        seen.add(node)
        if not _is_pointwise(node) or _sizes(node) != sizes or len(seen) > LONGEST:
            return False
        if not all(visit(operand) for operand in node.all_input_nodes):
            return False
        order.append(node)
        return True

    found = value is not x and visit(value)
    return order if found and any(x in node.all_input_nodes for node in order) else None


def _sizes(node: Node) -> list[str]:
    return [*map(str, node.meta["val"].shape)]


def _is_small(node: Node, x: Node) -> bool:
    """Whether a tensor is small enough for a kernel to read it for nothing."""
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and _count(value) * SMALL <= _count(x.meta["val"])


def _count(value: torch.Tensor) -> float:
    """The elements of a tensor: of dynamic sizes, those that it was traced with."""
    known = hint(value.numel())
    return math.nan if known is None else known


def _is_pointwise(node: Node) -> bool:
    target = node.target
    if node.op != "call_function" or not isinstance(target, OpOverload):
        return False
    seeded = draws(target)
    return target in CASTS or (torch.Tag.pointwise in target.tags and not seeded)

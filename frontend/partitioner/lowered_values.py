"""Values that a step keeps from its forward to its backward in fewer bits, where the user allows it: f32 as bf16.

Only activations are: what is computed element by element, or by a product. Numbers of rows, seeds and masks are not of f32; statistics, which
sums and maxima give, and what is computed of statistics alone, stay as they are. Only what the backward itself reads is lowered: what it
computes again has the operands that the forward had.
"""

from collections.abc import Collection
from dataclasses import replace

import torch
from torch.fx import Graph, Node
from torch.utils.flop_counter import flop_registry

from bascule.compat.operators.schemas import OpOverload

from ..fx.storages import is_view
from .training_step import Step, is_computed_again_for_sure, is_saved_for_sure, tensor_bytes

PRECISIONS = {"bf16": torch.bfloat16}
SUFFIX = "_lowered"  # of the name of a node that is kept


def lowerable(step: Step) -> set[Node]:
    """The values of `step` that may be kept in fewer bits."""
    statistics = _statistics(step)
    returned = {step.root(node) for node in (*step.forward_outputs, *step.backward_outputs)}
    return {
        node
        for node in step.forward
        if _is_activation(node)
        and step.root(node) is node
        and not ({node} & (statistics | returned | step.chunked))
        and not is_saved_for_sure(node)
        and not is_computed_again_for_sure(node)
    }


def _is_activation(node: Node) -> bool:
    value, target = node.meta.get("val"), node.target
    if not isinstance(value, torch.Tensor) or value.dtype != torch.float32 or not isinstance(target, OpOverload):
        return False
    return torch.Tag.pointwise in target.tags or target.overloadpacket in flop_registry


def _statistics(step: Step) -> set[Node]:
    """Results with fewer elements than an operand, and what is computed of such alone."""
    found = set[Node]()
    for node in step.forward:
        reads = [each for each in node.all_input_nodes if isinstance(each.meta.get("val"), torch.Tensor | tuple | list)]
        if getattr(node.target, "overloadpacket", None) in flop_registry:
            continue
        largest = max(map(_elements, reads), default=0)
        if reads and (_elements(node) < largest or all(each in found for each in reads)):
            found.add(node)
    return found


def _elements(node: Node) -> int:
    """Elements of the largest tensor that a node gives, for the sizes at hand."""
    value = node.meta.get("val")
    values = value if isinstance(value, tuple | list) else [value]
    return max(
        (tensor_bytes(each) // each.dtype.itemsize for each in values if isinstance(each, torch.Tensor)), default=0
    )


def lower(graph: Graph, names: Collection[str], backward: Collection[str], precision: str) -> None:
    """Has the calls `backward` of a joint graph read the values `names` from copies in a `precision`, whose names have `SUFFIX`."""
    nodes, copies = {node.name: node for node in graph.nodes}, dict[Node, Node]()
    for name in names:
        node = nodes[name]
        value, kept = node.meta["val"], PRECISIONS[precision]
        with graph.inserting_after(node):
            low = _cast(graph, node, kept, f"{name}{SUFFIX}")
        low.meta["val"] = value.to(kept)
        with graph.inserting_after(low):
            back = _cast(graph, low, value.dtype, f"{name}{SUFFIX}_back")
        back.meta["val"] = low.meta["val"].to(value.dtype)
        for each in (low, back):
            each.meta |= {key: node.meta[key] for key in ("stack_trace", "original_aten") if key in node.meta}
        copies[node] = back
    readers = frozenset(backward)
    for node in nodes.values():  # operands first
        if node.name in readers:
            for read in node.all_input_nodes:
                if read in copies:
                    node.replace_input_with(read, copies[read])
        elif node.op == "call_function" and is_view(node) and node.args[0] in copies:
            with graph.inserting_after(node):
                copies[node] = graph.node_copy(node, lambda each: copies.get(each, each))


def _cast(graph: Graph, node: Node, dtype: torch.dtype, name: str) -> Node:
    return graph.create_node("call_function", torch.ops.aten._to_copy.default, (node,), {"dtype": dtype}, name)


def lowered_step(step: Step, names: Collection[str], precision: str) -> Step:
    """`step`, of a copy of its graph in which the values `names` are kept so."""
    graph, copies = Graph(), dict[Node, Node]()
    for node in step.graph.nodes:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    lower(graph, names, [node.name for node in step.backward], precision)
    backward = {copies[node] for node in step.backward}
    calls = [node for node in graph.nodes if node.op == "call_function"]

    def copied(nodes: frozenset[Node]) -> frozenset[Node]:
        return frozenset(map(copies.__getitem__, nodes))

    return replace(
        step,
        graph=graph,
        forward=tuple(node for node in calls if node not in backward),
        backward=tuple(node for node in calls if node in backward),
        given=copied(step.given),
        forward_outputs=copied(step.forward_outputs),
        backward_outputs=copied(step.backward_outputs),
        chunked=copied(step.chunked),
    )

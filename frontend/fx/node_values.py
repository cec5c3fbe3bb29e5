"""Values of nodes that a pass over a graph made, or gave other arguments."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.fx import Graph, Node
from torch.fx.node import map_arg

from bascule.compat.operators.schemas import HigherOrderOperator, OpOverload, OpOverloadPacket, resolve_packet

from .graph_ends import inputs_of
from .trace_context import fake_mode_of, inside

STORED_CAST = "stored_cast"  # in the metadata of a cast: it takes what it widens as it would be in memory

# Of a node: what it calls, and with what.
Call = tuple[Any, Any, Any]


def calls_of(graph: Graph) -> dict[Node, Call]:
    """The calls of the nodes of `graph`: for `complete_values`, after a pass."""
    return {node: _call(node) for node in graph.nodes if node.op == "call_function"}


def complete_values(graph: Graph, before: Mapping[Node, Call] | None = None) -> None:
    """Gives each operator of `graph` without `meta["val"]` what it makes of its arguments' fake tensors. `graph` is one of ATen operators.

    With `before`, of which pass the values are from, so does each whose call is another now, and what follows from it. Raises what the operators
    do for arguments that they do not take.
    """
    values = [node.meta["val"] for node in graph.nodes if "val" in node.meta]
    mode = fake_mode_of(values)
    changed = set[Node]()

    def value_of(node: Node) -> object:
        if node.op == "get_attr" and "val" not in node.meta:
            held: object = graph.owning_module
            for part in str(node.target).split("."):
                held = getattr(held, part)
            return mode.from_tensor(held, static_shapes=True) if isinstance(held, torch.Tensor) else held
        return node.meta["val"]

    for node in graph.nodes:
        if node.op != "call_function":
            continue
        stale = before is not None and (before.get(node) != _call(node) or not changed.isdisjoint(node.all_input_nodes))
        if "val" in node.meta and not (stale and _computed_again(node)):
            continue
        args, kwargs = map_arg((node.args, node.kwargs), value_of)
        if isinstance(node.target, OpOverloadPacket):  # which of its overloads is called depends on the arguments
            name = resolve_packet(node.target._qualified_op_name, *args, **kwargs)
            node.target = getattr(node.target, name)
        with inside(mode):
            value = node.target(*args, **kwargs)
        if "val" not in node.meta or _told(value) != _told(node.meta["val"]):
            node.meta["val"] = value
            changed.add(node)


def _call(node: Node) -> Call:
    return node.target, node.args, node.kwargs


def _computed_again(node: Node) -> bool:
    """Whether another value of `node` may take the place of the one it has: not one of sizes that only data decides, whose symbols are known."""
    if not isinstance(node.target, OpOverload | OpOverloadPacket):
        return False
    tags = getattr(node.target, "tags", ())
    return not {torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output} & {*tags}


def _told(value: Any) -> Any:
    """The metadata of a value, to be compared without asking what symbols are."""
    if isinstance(value, list | tuple):
        return [*map(_told, value)]
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        return value.node.expr
    if not isinstance(value, torch.Tensor):
        return value
    layout = [_told(size) for size in (*value.shape, *value.stride())] if value.layout is torch.strided else []
    return value.dtype, value.device, value.layout, layout


def complete_inserted(graph: Graph, example_inputs: Sequence[Any]) -> None:
    """Values for what the partitioner puts into a graph without any: higher-order operators that keep the state of a generator or set it, and
    the inputs that are such states."""
    for node, value in zip(inputs_of(graph), example_inputs):
        node.meta.setdefault("val", value)
    if any(isinstance(node.target, HigherOrderOperator) and "val" not in node.meta for node in graph.nodes):
        complete_values(graph)

"""Graphs that AOTAutograd has not seen, made what it makes of all it traces: each node has a value, none writes in place or has a decomposition,
and inputs and outputs are flat.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any
from unittest.mock import patch

import torch
from bascule.dialect.interrupts import pass_on
from torch.fx import Graph, GraphModule, Interpreter, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.graph import CodeGen
from torch.fx.node import map_arg
from torch.fx.passes.fake_tensor_prop import FakeTensorProp
from torch.fx.traceback import preserve_node_meta

from bascule.compat.graphs.fx_code import PyTreeCodeGen
from bascule.compat.operators.dispatch import DispatchKey, DispatchKeySet, ExcludeDispatchKeyGuard
from bascule.compat.operators.schemas import OpOverload
from bascule.compat.tensors.fake_tensors import FakeTensor
from bascule.compat.tensors.functional_tensors import (
    FunctionalTensor,
    FunctionalTensorMode,
    from_fun,
    has_data_mutation,
    to_fun,
)
from bascule.compat.tensors.functorch import is_of_transforms
from bascule.compat.tensors.pytree import tree_leaves, tree_map_only

from ..fx.graph_ends import inputs_of
from ..fx.node_calls import is_written
from ..fx.storages import unwrapped
from ..fx.trace_context import fake_mode_of, inside
from ..torch_patches.custom_op_gradients import register_fake
from ..torch_patches.written_views import written_views_right

aten = torch.ops.aten


def with_values(gm: GraphModule, example_inputs: Sequence[Any]) -> list[Any]:
    """Gives each node of `gm` that has none its `meta["val"]`; returns a fake tensor or a number an input."""
    placeholders = inputs_of(gm.graph)
    nodes = [node for node in gm.graph.nodes if node.op in ("placeholder", "call_function")]
    # `make_fx` of real tensors gives each node a mode of its own, of which no operator takes two.
    modes = {id(x.meta["val"].fake_mode) for x in placeholders if isinstance(x.meta.get("val"), FakeTensor)}
    if all("val" in node.meta for node in nodes) and len(modes) <= 1:
        return [node.meta["val"] for node in placeholders]
    mode = fake_mode_of(example_inputs)
    register_fake()
    with inside(mode):
        FakeTensorProp(gm, mode).propagate(*example_inputs)
    for node, x in zip(placeholders, gm.graph.process_inputs(*example_inputs), strict=True):
        node.meta.setdefault("val", x)  # None is no value to `FakeTensorProp`
    return [node.meta["val"] for node in placeholders]


def decomposed(gm: GraphModule, example_inputs: Sequence[Any], decompositions: dict[Any, Callable]) -> GraphModule:
    """`gm`, traced again where it has operators that `decompositions` would have removed."""
    if not any(node.op == "call_function" and node.target in decompositions for node in gm.graph.nodes):
        return gm
    mode = fake_mode_of(example_inputs)
    with inside(mode), patch.object(mode, "allow_non_fake_inputs", True), preserve_node_meta():
        return make_fx(Interpreter(gm).run, decompositions)(*example_inputs)


def exported_pytree(gm: GraphModule) -> Any:
    """Takes the pytree code generator from a graph that Dynamo's `export` made: it turns arguments into inputs and outputs into results,
    which the graph itself no longer does. None for other graphs."""
    codegen = gm.graph._codegen
    if not isinstance(codegen, PyTreeCodeGen):
        return None
    gm.graph.set_codegen(CodeGen())
    gm.recompile()
    return codegen


def writes_in_place(graph: Graph) -> bool:
    """Whether a node of `graph` writes to an argument, other than the last use of an input, by `aten.copy_`."""
    last: dict[Node, Node] = {}
    for node in graph.nodes:
        if node.op != "output":
            last.update(dict.fromkeys(node.all_input_nodes, node))
    return any(
        isinstance(node.target, OpOverload) and node.target._schema.is_mutable and not _ends_an_input(node, last)
        for node in graph.nodes
    )


def _ends_an_input(node: Node, last: dict[Node, Node]) -> bool:
    written = node.args[0] if node.target is aten.copy_.default else None
    return isinstance(written, Node) and written.op == "placeholder" and last[written] is node


def functional(gm: GraphModule, example_inputs: Sequence[Any]) -> GraphModule:
    """`gm`, traced again where it writes in place; what it writes to inputs it copies into them at its end. Of fake inputs and numbers."""
    if not writes_in_place(gm.graph):
        return gm

    def run(*inputs: Any) -> Any:
        # A mode that is already there would take the operators before this one does.
        with ExcludeDispatchKeyGuard(DispatchKeySet(DispatchKey.Functionalize)), FunctionalTensorMode():
            given = [to_fun(x) for x in inputs]
            outputs = Interpreter(gm).run(*given)
            written = {
                number: from_fun(x)
                for number, x in enumerate(given)
                if isinstance(x, FunctionalTensor) and has_data_mutation(x)
            }
            same = {id(x): inputs[number] for number, x in enumerate(given)}
            outputs = tree_map_only(FunctionalTensor, lambda x: same[id(x)] if id(x) in same else from_fun(x), outputs)
        for number, new in written.items():
            inputs[number].copy_(new)
        return outputs

    mode = fake_mode_of(example_inputs)
    with inside(mode), patch.object(mode, "allow_non_fake_inputs", True), preserve_node_meta(), written_views_right:
        return make_fx(run)(*example_inputs)


def writes_to(gm: GraphModule, node: Node, values: Mapping[Node, Any]) -> list[Node]:
    """The arguments of `node`, a call in `gm`, whose memory it writes: found by calling it with functional tensors. `values`: fake tensors,
    numbers and modules, of each argument; they stay as they are.

    All arguments of a call that cannot be made by itself, or one of whose arguments has no value, unless it only begins or ends a function
    transform.
    """
    mode = fake_mode_of([values.get(x) for x in node.all_input_nodes])
    given: dict[Node, Any] = {}

    def functional_of(x: Node) -> Any:
        if x not in given:
            given[x] = tree_map_only(torch.Tensor, _functional_like, values[x])
        return given[x]

    fresh = nullcontext() if mode.shape_env is None else mode.shape_env.ignore_fresh_unbacked_symbols()
    functionalized = ExcludeDispatchKeyGuard(DispatchKeySet(DispatchKey.Functionalize))
    allowed = patch.object(mode, "allow_non_fake_inputs", True)
    with torch.no_grad(), inside(mode), allowed, fresh, functionalized, FunctionalTensorMode():
        try:
            args, kwargs = map_arg((node.args, node.kwargs), functional_of)
            getattr(Interpreter(gm), node.op)(node.target, args, kwargs)
        except Exception as error:  # of any kind: what the call does is not known
            pass_on(error)
            return [] if is_of_transforms(node.target) or _only_reads(node) else node.all_input_nodes
    leaves = {
        x: [leaf for leaf in tree_leaves(value) if isinstance(leaf, FunctionalTensor)] for x, value in given.items()
    }
    return [x for x, tensors in leaves.items() if any(map(has_data_mutation, tensors))]


def _functional_like(x: torch.Tensor) -> torch.Tensor:
    """Over the memory of `x`; for one inside a function transform, whose level is gone, like it."""
    if unwrapped(x) is x:
        return to_fun(x.detach())
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)  # functional, as the mode that is on makes it


def _only_reads(node: Node) -> bool:
    """Whether a call is of a function of `torch` that stands for an ATen operator, no overload of which writes the arguments given."""
    name = str(getattr(node.target, "__name__", ""))
    packet = getattr(aten, name, None)
    if packet is None or getattr(torch, name, None) is not node.target:
        return False
    parameters = (x for overload in packet.overloads() for x in getattr(packet, overload)._schema.arguments)
    return not any(is_written(x) and (not x.kwarg_only or x.name in node.kwargs) for x in parameters)

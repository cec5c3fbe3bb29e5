"""Higher-order operators that are plain tensor operators too (`flex_attention`), or only call their graph (`foreach_map`), traced to a graph
of these, which can be compiled."""

from collections.abc import Callable, Sequence
from operator import getitem
from typing import Any

import torch
from torch.func import functionalize
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.node import map_arg

from bascule.compat.operators.dispatch import DispatchKey
from bascule.compat.operators.schemas import BaseHOP, HigherOrderOperator
from bascule.compat.tensors.fake_tensors import FakeTensorMode
from bascule.compat.tensors.pytree import TreeSpec, tree_flatten, tree_leaves, tree_map

from ..fx.fused_products import mark_products
from ..fx.node_calls import is_object
from ..fx.output_strides import laid_out
from ..fx.trace_context import fake_mode_of, inside
from .captured_gradients import DECOMPOSITIONS, drop_whole_scatters
from .flex_attention import Change, attention, gradients
from .listed_keys import ListedKeys

BACKWARD = "flex_attention_backward"
_DENSE = DispatchKey.CompositeExplicitAutograd
DENSE = ("flex_attention", BACKWARD, "flex_gemm", "associative_scan")


def has_dense_form(node: Node) -> bool:
    return isinstance(node.target, BaseHOP) or (
        isinstance(node.target, HigherOrderOperator) and node.target.name() in DENSE
    )


def operands(node: Node) -> list[Node]:
    """The tensors and numbers that `node` is called with."""
    return [x for x in node.all_input_nodes if x.op != "get_attr" and not is_object(x)]


def dense_form(gm: GraphModule, node: Node, decompositions: dict[Any, Callable]) -> tuple[GraphModule, TreeSpec]:
    """`node` of `gm` as a graph of its `operands`, with their fake values; the graph returns the leaves of what the node does, of which the
    structure is returned too."""
    given = operands(node)
    values = [x.meta["val"] for x in given]
    name = node.target.name()
    dense = _called if isinstance(node.target, BaseHOP) else _FORMS.get(name) or node.target.py_kernels[_DENSE]
    structure: list[TreeSpec] = []

    def function(*arguments: Any) -> list[Any]:
        known = dict(zip(given, arguments))
        known |= {x: attribute(gm, x.target) for x in node.all_input_nodes if x.op == "get_attr"}
        args, kwargs = map_arg((node.args, node.kwargs), known.get)
        results = dense(*args, **kwargs)
        if name == BACKWARD:
            results = _with_zeros(node, args[-2], results)
        if name in _FORMS and all(user.target is getitem for user in node.users):
            read = {user.args[1] for user in node.users}
            results = tuple(x if number in read else tree_map(lambda _: None, x) for number, x in enumerate(results))
        leaves, spec = tree_flatten(results)
        structure.append(spec)
        return leaves if name not in _FORMS else [*map(laid_out, leaves, tree_leaves(node.meta["val"]))]

    if name == BACKWARD:
        decompositions = {**decompositions, **DECOMPOSITIONS}
    traced = traced_function(function, values, fake_mode_of(values), decompositions, node)
    if name in _FORMS:
        drop_whole_scatters(traced.graph)
        mark_products(traced.graph)
    return traced, structure[-1]


def _called(graph: GraphModule, *arguments: Any, **options: Any) -> Any:
    """An operator of PyTorch's base class, for which its graph says all; `options` ask for a way to compile that."""
    return graph(*arguments)


def _attention(*args: Any) -> Any:
    query, key, value, score, mask, scale, _, captured, of_mask = args
    changes = Change(score, captured), Change(mask[-1], of_mask)
    listed = ListedKeys.of(query, key, value, mask, of_mask)
    if listed is None:
        return attention(query, key, value, *changes, scale)
    score, mask = (listed.change(change) for change in changes)
    return attention(query, listed.read(key), listed.read(value), score, mask, scale, listed.hidden())


def _gradients(*args: Any) -> Any:
    query, key, value, out, logarithm, seed, of_logarithm, score, joint, mask, scale, _, captured, of_mask = args
    seeds = seed, of_logarithm
    changes = Change(score, captured), Change(joint, captured), Change(mask[-1], of_mask)
    return gradients(query, key, value, out, logarithm, seeds, *changes, scale)


_FORMS: dict[str, Callable[..., Any]] = {"flex_attention": _attention, BACKWARD: _gradients}


def traced_function(
    function: Callable[..., list[Any]],
    values: Sequence[Any],
    mode: FakeTensorMode,
    decompositions: dict[Any, Callable],
    node: Node,
) -> GraphModule:
    """`function` of fake `values` of `mode` as a graph, whose nodes have the user's line of `node`."""
    with inside(mode), torch.no_grad():
        traced = make_fx(functionalize(function), decompositions, _allow_non_fake_inputs=True)(*values)
    for traced_node in traced.graph.nodes:
        traced_node.meta.setdefault("stack_trace", node.meta.get("stack_trace"))
    return traced


def _with_zeros(node: Node, captured: Sequence[Any], results: Any) -> Any:
    """The results of a gradient: zeros for a captured tensor on which no score depends, where its gradient is read."""
    *others, gradients = results
    read = {user.args[1] for of in node.users if of.args[1] == len(others) for user in of.users}
    made = (
        torch.zeros_like(x) if gradient is None and number in read else gradient
        for number, (x, gradient) in enumerate(zip(captured, gradients, strict=True))
    )
    return (*others, tuple(made))


def attribute(gm: GraphModule, target: str) -> Any:
    """The attribute of `gm` that `get_attr` of `target` reads."""
    value: Any = gm
    for name in target.split("."):
        value = getattr(value, name)
    return value

"""Higher-order operators that PyTorch also has as plain tensor operators (`flex_attention`), traced to a graph of these, which can be compiled.

`flex_attention` in this form makes all scores of a head: memory grows with the product of the two lengths.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.func import functionalize
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.node import map_arg

from bascule.compat.operators.dispatch import DispatchKey, enable_python_dispatcher
from bascule.compat.operators.schemas import HigherOrderOperator
from bascule.compat.tensors.fake_tensors import FakeTensorMode
from bascule.compat.tensors.functorch import enable_inplace_requires_grad
from bascule.compat.tensors.pytree import TreeSpec, tree_flatten

from ..fx.graph_ends import outputs_of
from ..fx.trace_context import fake_mode_of

BACKWARD = "flex_attention_backward"
DENSE = ("flex_attention", BACKWARD, "associative_scan")


def has_dense_form(node: Node) -> bool:
    return isinstance(node.target, HigherOrderOperator) and node.target.name() in DENSE


def operands(node: Node) -> list[Node]:
    """The tensors and numbers that `node` is called with."""
    return [x for x in node.all_input_nodes if x.op != "get_attr"]


def dense_form(gm: GraphModule, node: Node, decompositions: dict[Any, Callable]) -> tuple[GraphModule, TreeSpec]:
    """`node` of `gm` as a graph of its `operands`, with their fake values; the graph returns the leaves of what the node does, of which the
    structure is returned too."""
    given = operands(node)
    values = [x.meta["val"] for x in given]
    dense = node.target.py_kernels[DispatchKey.CompositeExplicitAutograd]
    structure: list[TreeSpec] = []

    def function(*arguments: Any) -> list[Any]:
        known = dict(zip(given, arguments))
        with enable_inplace_requires_grad(True):
            known |= {x: known[x].detach().requires_grad_() for x in _differentiated(gm, node)}
        args, kwargs = map_arg((node.args, node.kwargs), lambda x: known[x] if x in known else attribute(gm, x.target))
        results = dense(*args, **kwargs)
        if node.target.name() == BACKWARD:
            results = _with_zeros(node, args[-2], results)
        leaves, spec = tree_flatten(results)
        structure.append(spec)
        return leaves

    mode = fake_mode_of(values)
    return traced_function(function, values, mode, decompositions, node), structure[-1]


def traced_function(
    function: Callable[..., list[Any]],
    values: Sequence[Any],
    mode: FakeTensorMode,
    decompositions: dict[Any, Callable],
    node: Node,
) -> GraphModule:
    """`function` of fake `values` of `mode` as a graph, whose nodes have the user's line of `node`."""
    with mode, enable_python_dispatcher(), torch.no_grad():
        traced = make_fx(functionalize(function), decompositions, _allow_non_fake_inputs=True)(*values)
    for traced_node in traced.graph.nodes:
        traced_node.meta.setdefault("stack_trace", node.meta.get("stack_trace"))
    return traced


def _differentiated(gm: GraphModule, node: Node) -> list[Node]:
    """The tensors, captured by a score's function, of which its gradient has a gradient: the dense form asks the tensors themselves.

    That the value of `node` has one for each says nothing. What the gradient's graph returns does: those of the score and of four indices first.
    """
    if node.target.name() != BACKWARD:
        return []
    captured, gradients = node.args[-2], outputs_of(attribute(gm, node.args[8].target).graph)[5:]
    return [x for x, gradient in zip(captured, gradients, strict=True) if gradient is not None]


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

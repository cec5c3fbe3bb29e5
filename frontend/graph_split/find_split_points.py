"""Which nodes of a graph are no part of what can be compiled as one, and why.

A graph is cut at such a node: it runs by itself, between the compiled parts before and after it (`split_module.py`).
"""

from collections.abc import Mapping
from operator import getitem
from types import MappingProxyType
from typing import Any

import torch
from bascule.dialect.errors import UnsupportedError
from torch.fx import Graph, Node

from bascule.compat.operators.schemas import HigherOrderOperator
from bascule.compat.tensors.pytree import tree_leaves

from ..fx.node_calls import is_object
from ..fx.stack_traces import location_of
from ..importer.nodes import TAKEN, TOKENS, auto_functionalized, with_effects
from ..importer.symbolic_numbers import is_number
from ..importer.tensor_types import refusal
from .split_point import called_by, operator_of

_BODIES = "a higher-order operator, which calls graphs of its own"
_WRITING_BODIES = "a higher-order operator, whose graphs write to what they are given"
_OTHERS = {
    "flex_attention": "attention with a graph for its scores",
    "flex_attention_backward": "attention with a graph for its scores",
    "print": "the host prints where the program does",
    "call_torchbind": "a method of an object of TorchScript's",
    "invoke_leaf_function": "a function of the user's that is not traced",
    "run_and_save_rng_state": "the state of the random generator is saved before it",
    "run_with_rng_state": "the state of the random generator is set before it",
    "triton_kernel_wrapper_functional": "a Triton kernel of the user's",
}
_ORDER = "the graph is cut, and the order of effects goes through all of it"
_OBJECT = "an object, which is no tensor or number"
_SIZES = "sizes and numbers that it makes are only known when it has run"


def is_check(node: Node) -> bool:
    """Whether `node` looks at numbers only and makes nothing: an assertion about sizes. It runs by itself wherever a graph is cut."""
    makes_nothing = node.meta.get("val") is None and not is_object(node)
    return makes_nothing and all(is_number(x.meta.get("val")) for x in node.all_input_nodes)


def known_cuts(graph: Graph, apart: Mapping[Node, str] = MappingProxyType({})) -> dict[Node, str]:
    """The nodes of which it is known beforehand, with the reason; those of `apart` among them."""
    found: dict[Node, str] = dict(apart)
    tokens: dict[Node, str] = {}
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        if node.meta.get("unbacked_bindings"):
            found[node] = _SIZES
        elif isinstance(node.target, HigherOrderOperator) and node.target not in TAKEN:
            found[node] = _OTHERS.get(node.target.name(), _BODIES)
        elif node.target is auto_functionalized and isinstance(node.args[0], HigherOrderOperator):
            found[node] = _WRITING_BODIES
        elif node.target is with_effects and isinstance(called_by(node), HigherOrderOperator):
            found[node] = _OTHERS.get(called_by(node).name(), _BODIES)
        elif node.target is not getitem and (reason := _not_taken(node)) is not None:
            found[node] = reason
        elif node.target in TOKENS or node.target is with_effects:
            tokens[node] = _ORDER
    kept = any(_is_token(x) for x in graph.output_node().all_input_nodes)
    return {**found, **tokens} if found or kept else {}


def _is_token(node: Node) -> bool:
    """Whether `node` orders effects: a forward keeps it for a backward that repeats some of its operators."""
    if node.target is getitem:
        return node.args[0].target is with_effects and node.args[1] == 0
    return node.target in TOKENS


def _not_taken(node: Node) -> str | None:
    """Why no compiled part can have `node`, because of a tensor or an object that it takes or makes; None if one may."""
    reasons = (
        refusal(x) or _of_object(x) for near in (node, *node.all_input_nodes) for x in tree_leaves(near.meta.get("val"))
    )
    return next(filter(None, reasons), None)


def _of_object(x: Any) -> str | None:
    """Why `x`, a value of a node, is none that the IR has; None for a tensor, a number, or nothing."""
    return None if x is None or isinstance(x, torch.Tensor | complex | str) or is_number(x) else _OBJECT


def refused(graph: Graph, error: UnsupportedError) -> list[Node]:
    """The nodes of `graph` that `error` is about: the one it names, or those of its operator and the user's line. Empty if it names none."""
    calls = [node for node in graph.nodes if node.op == "call_function" and not is_check(node)]
    named = [node for node in calls if node.name == error.node]
    if named:
        return named
    same = [node for node in calls if operator_of(node) == error.operator]
    if error.location is None:
        return same
    return [node for node in same if error.location.startswith(location_of(node) or "\0")] or same

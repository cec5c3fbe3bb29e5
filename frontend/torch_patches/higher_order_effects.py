"""Ordered effects inside of graphs that higher-order operators call: `cond`, `switch`, loops, `map`, `scan`.

The token of an effect in such a graph is no result of its operator, so that PyTorch's trace keeps it as a constant, in what comes after the
operator too: calls are lost, or the graph has inputs that nobody gives. Inside `body_effects` such calls are traced without tokens: the order
of a graph's nodes is theirs, and an operator whose graphs have effects is kept as one that has effects itself.

How tokens are threaded is private to PyTorch. Checked on torch 2.11 to 2.14.
"""

from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from bascule.compat.operators.custom_operators import effects
from bascule.compat.operators.schemas import HigherOrderOperator, OpOverload
from bascule.compat.tensors.functional_tensors import FunctionalTensorMode, PythonFunctionalizeAPI

from ..fx.operator_effects import draws, registered_effect
from .patch import Patch

higher_order = torch.ops.higher_order

# Those whose graphs may have effects.
OPERATORS = (
    higher_order.cond,
    *([higher_order.switch] if hasattr(higher_order, "switch") else []),  # as of PyTorch 2.14
    higher_order.while_loop,
    higher_order.while_loop_stack_output,
    higher_order.map_impl,
    higher_order.scan,
    higher_order.associative_scan,
    higher_order.invoke_subgraph,
)

TAG, FORWARD, BACKWARD = "partitioner_tag", "must_be_in_forward", "is_backward"  # the partitioner's
_within = ContextVar("_within", default=False)
_theirs: dict[Any, Callable[..., Any]] = {}


def keep_in_forward(graph: Graph) -> int:
    """Notes for the partitioner of the joint `graph` that what has effects in graphs that it calls runs where the program has it. Draws are such
    an effect where they are kept. Returns for how many operators."""
    from bascule.compat.inductor.settings import config

    noted = 0
    for node in graph.nodes:
        if not isinstance(node.target, HigherOrderOperator) or node.meta.get(TAG) == BACKWARD:
            continue
        if has_effects(node) or (config.fallback_random and _draws_inside(node)):
            node.meta[TAG] = FORWARD
            noted += 1
    return noted


def _kept(node: Node, impure_random: bool = True) -> bool:
    if _theirs[Node](node, impure_random) or node.meta.get(TAG) == FORWARD or has_effects(node):
        return True
    return impure_random and _draws_inside(node)


def has_effects(node: Node) -> bool:
    """Whether `node` calls an operator with ordered effects, itself or by its graphs."""
    if node.op != "call_function":
        return False
    if isinstance(node.target, OpOverload | HigherOrderOperator) and registered_effect(node.target) is not None:
        return True
    return any(has_effects(x) or x.target is higher_order.with_effects for x in _inside(node))


def _draws_inside(node: Node) -> bool:
    """Whether a graph that `node` calls may draw numbers from a generator."""
    return any((isinstance(x.target, OpOverload) and draws(x.target)) or _draws_inside(x) for x in _inside(node))


def _inside(node: Node) -> Iterator[Node]:
    """The nodes of the graphs that a higher-order operator calls."""
    owner = node.graph.owning_module
    if not isinstance(node.target, HigherOrderOperator) or owner is None:
        return
    for given in node.all_input_nodes:
        if given.op == "get_attr" and isinstance(body := getattr(owner, str(given.target), None), GraphModule):
            yield from body.graph.nodes


def _without_token(discovers: bool, tokens: dict, op: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    if not _within.get():
        return _theirs[effects](discovers, tokens, op, args, kwargs)
    context = PythonFunctionalizeAPI()
    given, named = context.unwrap_tensors(args), context.unwrap_tensors(kwargs)
    with context.redispatch_to_next():
        return context.wrap_tensors(op(*given, **named))


def _marking(kernel: Callable[..., Any]) -> Callable[..., Any]:
    def marked(*args: Any, **kwargs: Any) -> Any:
        before = _within.set(True)
        try:
            return kernel(*args, **kwargs)
        finally:
            _within.reset(before)

    return marked


def _make() -> None:
    if _theirs:
        return
    _theirs[Node], _theirs[effects] = Node.is_impure, effects.handle_effects
    Node.is_impure, effects.handle_effects = _kept, _without_token  # type: ignore[method-assign]
    for operator in OPERATORS:
        if (kernel := operator.python_key_table.get(FunctionalTensorMode)) is not None:
            _theirs[operator] = kernel
            operator.python_key_table[FunctionalTensorMode] = _marking(kernel)


def _undo() -> None:
    Node.is_impure, effects.handle_effects = _theirs.pop(Node), _theirs.pop(effects)  # type: ignore[method-assign]
    for operator, kernel in _theirs.items():
        operator.python_key_table[FunctionalTensorMode] = kernel
    _theirs.clear()


body_effects = Patch(_make, _undo)

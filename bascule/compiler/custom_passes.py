"""Passes of the user's own over FX graphs, at the places and under the names where Inductor takes them.

`pre_grad_custom_pass` sees the graph of PyTorch functions that Dynamo captured; `joint_custom_pre_pass` and `joint_custom_post_pass` the joint
graph of ATen operators before it is split (or the inference graph); `post_grad_custom_pre_pass` and `post_grad_custom_post_pass` each graph that
is compiled, in this order. Each is called with a `torch.fx.Graph` and changes it in place, or returns another; an option takes several, too.
The graphs that `cond` and its like call meet each pass before the graph around them does.
Values of nodes follow what a pass changed, and outputs keep the strides that they were traced with. `custom_partitioner_fn` splits the joint
graph.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from traceback import extract_tb
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from bascule.frontend.aot.retrace import functional
from bascule.frontend.fx.node_values import calls_of, complete_values
from bascule.frontend.fx.output_strides import promised_strides, restore_strides
from bascule.frontend.fx_pipeline.pipeline import FxPipeline
from bascule.frontend.graph_split.split_point import called_by
from bascule.frontend.partitioner.min_cut import min_cut

from ..compat.inductor.settings import custom_graph_pass
from ..compat.operators.schemas import HigherOrderOperator, OpOverload, OpOverloadPacket
from ..dialect.interrupts import pass_on
from ..errors import UserError
from ..options import JOINT, PARTITIONER, PRE_GRAD, InTurn, Options
from ..reporting.raise_through_dynamo import raised_as_is

GraphPass = Callable[[Graph], Any]
_TORCH = str(Path(torch.__file__).parent)
# Modules of functions of numbers, which graphs of ATen operators call too.
_NUMBERS = ("_operator", "builtins", "math")
_SOURCE = "_dynamo_source"  # of an input that Dynamo captured: where it comes from


def apply(gm: GraphModule, options: Options, names: tuple[str, ...], *, is_inference: bool = False) -> bool:
    """Runs the passes that `options` has under `names` on the graphs that `gm` calls, the innermost first, and on `gm`; returns whether it has
    any.

    `is_inference`: whether `gm` has no backward, which one of Inductor's kinds of passes is told. Raises `UserError`, which names the pass,
    where one fails or leaves a graph that is not valid.
    """
    passes = [(name, function) for name in names for function in _each(getattr(options, name))]
    if not passes:
        return False
    for called in _called_graphs(gm, split=names == JOINT and not is_inference):
        apply(called, options, names, is_inference=is_inference)
    captured = names == PRE_GRAD
    promised = [] if captured else promised_strides(gm.graph)
    for name, function in passes:
        try:
            _run(gm, _called(function, is_inference), captured)
        except _Invalid as error:
            raise UserError(f"left a graph that is not valid: {error}", location=f"option '{name}'") from error
        except Exception as error:
            pass_on(error)
            told = f"raised {type(error).__name__}: {error}\n  at {_place(error)}"
            raise UserError(told, location=f"option '{name}'") from error
    if not captured:
        restore_strides(gm.graph, promised)
    gm.recompile()
    return True


def _called_graphs(gm: GraphModule, *, split: bool) -> list[GraphModule]:
    """The graphs that operators of `gm` are given, each once. `split`: without regions, whose joint graphs are split apart, and have met the
    passes then."""
    found = dict[str, GraphModule]()
    for node in gm.graph.find_nodes(op="get_attr"):
        value = getattr(gm, str(node.target), None)
        regions = split and all(called_by(user) is torch.ops.higher_order.invoke_subgraph for user in node.users)
        if isinstance(value, GraphModule) and not regions:
            found[str(node.target)] = value
    return [*found.values()]


def made_functional(gm: GraphModule) -> GraphModule:
    """`gm`, a graph that is compiled, which passes changed: what they let it write in place it writes at its end, or not."""
    old = gm.graph.find_nodes(op="placeholder")
    new = functional(gm, [node.meta["val"] for node in old])
    if new is not gm:
        for node, other in zip(old, new.graph.find_nodes(op="placeholder"), strict=True):
            other.meta = {**other.meta, **node.meta}
    return new


def partitioner(options: Options, passes: FxPipeline, cut: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """`cut`, the min-cut partitioner if it is None, or the user's, after the user's passes over the joint graph, then `passes`. Raises
    `UserError` where the user's fails."""
    own = options.custom_partitioner_fn
    cut = cut or partial(min_cut, passes=passes)
    if own is not None:
        cut = partial(cut, split=partial(_split_by, own))

    def split(joint: GraphModule, inputs: Any, **kwargs: Any) -> Any:
        apply(joint, options, JOINT)
        return cut(joint, inputs, **kwargs)

    return split if any(getattr(options, name) is not None for name in JOINT) else cut


def _split_by(
    own: Callable[..., Any], joint: GraphModule, inputs: Any, **kwargs: Any
) -> tuple[GraphModule, GraphModule]:
    with raised_as_is():
        try:
            made = own(joint, inputs, compiler="inductor", **kwargs)
        except Exception as error:
            pass_on(error)
            told = f"raised {type(error).__name__}: {error}\n  at {_place(error)}"
            raise UserError(told, location=f"option '{PARTITIONER}'") from error
        if not (isinstance(made, tuple) and len(made) == 2 and all(isinstance(gm, GraphModule) for gm in made)):
            raise UserError(f"returned no pair of graphs, but {made!r}", location=f"option '{PARTITIONER}'")
        return made


def _each(function: GraphPass | None) -> tuple[GraphPass, ...]:
    return function.passes if isinstance(function, InTurn) else () if function is None else (function,)


def _called(function: GraphPass, is_inference: bool) -> GraphPass:
    """`function` as one of a graph alone."""
    aware = getattr(custom_graph_pass, "CustomInferenceAwareGraphPass", ())
    return partial(function, is_inference=is_inference) if isinstance(function, aware) else function


class _Invalid(Exception):
    """A graph that a pass left is not valid: the message says why."""


def _run(gm: GraphModule, function: GraphPass, captured: bool) -> None:
    """Runs one pass on `gm`: as Dynamo `captured` it, or one of ATen operators."""
    inputs, outputs = gm.graph.find_nodes(op="placeholder"), _outputs(gm.graph)
    calls = calls_of(gm.graph)
    returned = function(gm.graph)
    if isinstance(returned, Graph) and returned is not gm.graph:
        gm.graph = returned
    try:
        gm.graph.lint()
    except RuntimeError as error:
        raise _Invalid(error) from error
    now = gm.graph.find_nodes(op="placeholder")
    for what, before, after in (("inputs", len(inputs), len(now)), ("outputs", outputs, _outputs(gm.graph))):
        if before != after:
            raise _Invalid(f"it has {after} {what} where there were {before}")
    for old, new in zip(inputs, now):
        new.meta = {**old.meta, **new.meta}
        if hasattr(old, _SOURCE):
            setattr(new, _SOURCE, getattr(old, _SOURCE))
    if captured:
        return
    known = {target for target, *_ in calls.values()}
    for node in gm.graph.nodes:
        if _is_foreign(node, known):
            called = getattr(node.target, "__name__", node.target)
            raise _Invalid(f"'{node.name}' calls '{called}', which is no operator of ATen")
    try:
        complete_values(gm.graph, calls)
    except Exception as error:
        pass_on(error)
        raise _Invalid(f"{type(error).__name__}: {error}") from error


def _place(error: Exception) -> str:
    """The line where `error` was raised, or which called what of PyTorch's raised it: Dynamo does not show the traceback."""
    frames = extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(_TORCH)]
    return f"{own[-1].filename}:{own[-1].lineno}"


def _outputs(graph: Graph) -> int | None:
    """How many there are; None for a graph that returns one value."""
    (returned,) = graph.output_node().args
    return len(returned) if isinstance(returned, list | tuple) else None


def _is_foreign(node: Node, known: set[Any]) -> bool:
    """Whether a pass put `node` into a graph of ATen operators, where it is nothing that these graphs consist of. `known`: what there was."""
    if node.op in ("call_method", "call_module"):
        return True
    if node.op != "call_function" or node.target in known:
        return False
    if isinstance(node.target, OpOverload | OpOverloadPacket | HigherOrderOperator):
        return False
    name = getattr(node.target, "__name__", "")
    return getattr(node.target, "__module__", None) not in _NUMBERS and not name.lstrip("_").startswith("sym_")

"""The trace of a region: what AOTAutograd makes of one graph, forward and backward, to be put in wherever a region like it was."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import torch
from bascule.dialect.interrupts import pass_on
from torch.fx import Graph, GraphModule, Node

from bascule.compat.graphs.aot_autograd import aot_module_simplified
from bascule.compat.graphs.tracing import TracingContext, tracing
from bascule.compat.tensors.pytree import tree_leaves

from ..fx.graph_ends import inputs_of, outputs_of
from ..fx.storages import changes_input
from ..fx.trace_context import fake_mode_of
from .find import Region, is_plain, wiring

PLACE = "stack_trace"  # in the metadata of a node while it is traced: the number of the region's node; AOTAutograd hands it on, to backwards too
_SYMBOLIC = torch.SymInt | torch.SymFloat | torch.SymBool


class NotATemplate(Exception):
    """The region is traced wherever it is; the text says why."""


@dataclass(frozen=True)
class Template:
    """Graphs of ATen operators. `forward`: of the operands; gives the results, then what is saved. `backward`, of a region that needs gradients:
    of the operands, what is saved, and gradients of the results in `differentiable`; gives those of the operands, or None, which it makes in
    `order`."""

    forward: Graph
    results: int
    backward: Graph | None = None
    differentiable: tuple[int, ...] = ()
    saved: tuple[int, ...] = ()  # of the forward's outputs, which the backward is given
    order: tuple[int, ...] = ()  # of the operands


class _Traced(Exception):
    def __init__(self, gm: GraphModule, joint: bool):
        self.gm, self.joint = gm, joint


def template(region: Region, decompositions: dict[Any, Callable]) -> Template:
    """Traces `region` alone, of leaves like its operands. Raises `NotATemplate`."""
    given = [_leaf(x.meta["example_value"]) for x in region.operands]
    with tracing(TracingContext(fake_mode_of(given))):
        try:
            aot_module_simplified(
                _module(region),
                given,
                fw_compiler=_unreached,
                bw_compiler=_unreached,
                inference_compiler=lambda gm, _: _stop(gm, False),
                partition_fn=lambda gm, *_, **__: _stop(gm, True),
                decompositions=decompositions,
                keep_inference_input_mutations=True,
            )
        except _Traced as traced:
            found = traced
        except Exception as error:  # of any kind: what it is, the trace of the whole graph says
            pass_on(error)
            raise NotATemplate(
                f"it cannot be traced alone: {type(error).__name__}: {str(error).partition(chr(10))[0]}"
            ) from error
        else:
            raise NotATemplate("it was not traced")
    graph = found.gm.graph
    if any(node.op not in ("placeholder", "call_function", "output") for node in graph.nodes):
        raise NotATemplate("its trace holds tensors")
    if any(changes_input(node) for node in graph.nodes):
        raise NotATemplate("it writes to its operands")
    if not all(
        is_plain(x) for node in graph.nodes for x in tree_leaves(node.meta.get("val")) if isinstance(x, torch.Tensor)
    ):
        raise NotATemplate("its trace has tensors of other kinds than strided ones")
    if any("unbacked_bindings" in node.meta for node in graph.nodes):
        raise NotATemplate("a size in it is only known when it runs")
    return _split(graph, region) if found.joint else _whole(graph, region)


def _stop(gm: GraphModule, joint: bool) -> NoReturn:
    raise _Traced(gm, joint)


def _unreached(*_: Any) -> NoReturn:
    raise AssertionError("a region is traced, not compiled")


def _leaf(value: Any) -> Any:
    return value.detach().requires_grad_(value.requires_grad) if isinstance(value, torch.Tensor) else value


def _module(region: Region) -> GraphModule:
    """The region as a graph of Dynamo's, whose nodes tell their places."""
    graph = Graph()
    made: dict[Any, Node] = {use: graph.placeholder(f"operand_{at}") for at, use in enumerate(region.uses)}
    for at, (node, of) in enumerate(zip(region.nodes, wiring(region, made), strict=True)):
        made[node] = graph.node_copy(node, of)
        made[node].meta = {PLACE: f"{at}\n"}
    graph.output(tuple(made[x] for x in region.results))
    return GraphModule({}, graph)


def _whole(graph: Graph, region: Region) -> Template:
    if len(inputs_of(graph)) != len(region.operands) or len(outputs_of(graph)) != len(region.results):
        raise NotATemplate("its trace has other ends")
    return Template(graph, len(region.results))


def _split(joint: Graph, region: Region) -> Template:
    """The forward up to its last result, in its order; the backward is the rest, which is given all of the forward that it reads."""
    placeholders, outputs = inputs_of(joint), outputs_of(joint)
    operands, tangents = placeholders[: len(region.operands)], placeholders[len(region.operands) :]
    differentiable = tuple(at for at, x in enumerate(region.results) if x.meta["example_value"].requires_grad)
    results, gradients = outputs[: len(region.results)], outputs[len(region.results) :]
    if len(tangents) != len(differentiable) or len(gradients) != len(operands):
        raise NotATemplate("its trace has other ends")
    nodes = [node for node in joint.nodes if node.op == "call_function"]
    place = {node: at for at, node in enumerate(nodes)}
    end = 1 + max((place.get(x, -1) for x in results), default=-1)
    first, second = nodes[:end], nodes[end:]
    numbers = _numbers_again(first, second, gradients)
    read = {x for node in (*second, *numbers) for x in node.all_input_nodes} | {
        x for x in gradients if isinstance(x, Node)
    }
    saved = [x for x in first if x in read and x not in numbers]
    if not all(isinstance(x.meta.get("val"), torch.Tensor) for x in saved):
        raise NotATemplate("its backward reads several tensors as one")
    if not all(isinstance(x, Node) and isinstance(x.meta.get("val"), torch.Tensor) for x in results):
        raise NotATemplate("a result is no tensor")
    more = [x for x in saved if x not in results]
    forward = _graph(operands, first, [*results, *more])
    backward = _graph([*operands, *saved, *tangents], [*numbers, *second], gradients)
    given = [*results, *more]
    order = sorted(range(len(operands)), key=lambda at: place.get(gradients[at], -1))
    return Template(forward, len(results), backward, differentiable, tuple(map(given.index, saved)), tuple(order))


def _numbers_again(first: Sequence[Node], second: Sequence[Node], gradients: Sequence[Any]) -> list[Node]:
    """Sizes of the forward's that the backward reads: they cost nothing there, and are no tensors to be saved."""
    needed = {x for node in second for x in node.all_input_nodes} | {x for x in gradients if isinstance(x, Node)}
    found = []
    for node in reversed(first):
        if node in needed and isinstance(node.meta.get("val"), _SYMBOLIC):
            found.append(node)
            needed.update(node.all_input_nodes)
    return found[::-1]


def _graph(inputs: Sequence[Node], nodes: Sequence[Node], outputs: Sequence[Any]) -> Graph:
    graph = Graph()
    made: dict[Node, Node] = {}
    for at, x in enumerate(inputs):
        made[x] = graph.placeholder(f"given_{at}")
        made[x].meta = x.meta
    for node in nodes:
        made[node] = graph.node_copy(node, made.__getitem__)
    graph.output([made[x] if isinstance(x, Node) else x for x in outputs])
    return graph

"""A graph that PyTorch runs operator by operator, with the random numbers of the compiled one."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from bascule.frontend.fx.graph_ends import outputs_of
from bascule.frontend.fx.node_calls import arguments_of
from bascule.runtime.boxed import Boxed

from ..compiled.eager import operator_by_operator
from ..options import Options
from .draws import DRAWS, KEEPS, draw, dropped, seeded, seeded_integers, seeds

prims = torch.ops.prims
BEGIN = "bascule.begin_draws.default"  # between it and its end a gradient draws again, by PyTorch's generators
SEEDED = {prims.inductor_random.default, prims.inductor_randint.default}
SEEDS = {prims.inductor_seed.default, prims.inductor_seeds.default}


def as_operators(gm: GraphModule, options: Options, device: torch.device) -> Boxed:
    """`gm`, a graph as it goes to the compiler, with the boxed calling convention. `device`: where its program runs."""
    if not any(str(node.target) in DRAWS or node.target in SEEDED | SEEDS for node in gm.graph.nodes):
        return operator_by_operator(gm)
    streams = [] if options.random == "eager" else list(_streams(gm.graph))
    copied: dict[Node, Node] = {}
    graph = Graph()
    graph.output(graph.graph_copy(gm.graph, copied))
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten.native_dropout.default):
        _, p, train = arguments_of(node)
        if train is not False and p >= 1:
            node.target = dropped
    _draw_from(graph, [(copied[node], number) for node, number in streams], _count(gm.graph), device)
    for node in list(graph.nodes):
        if node.target in SEEDED | SEEDS:
            _give_seeds(graph, node)
    return operator_by_operator(GraphModule(gm, graph))


def _count(graph: Graph) -> int:
    """How many seeds the compiled graph draws: one for each operator that may take one."""
    return sum(str(node.target) in DRAWS for node in graph.nodes if node.op == "call_function")


def _streams(graph: Graph) -> Iterator[tuple[Node, int]]:
    """The operators that draw from a stream of their own, each with its number."""
    if any(str(node.target) == BEGIN for node in graph.nodes):
        return
    live, number = _live(graph), 0
    for node in graph.nodes:
        name = str(node.target)
        if node.op != "call_function" or name not in DRAWS or node not in live:
            continue
        if KEEPS[name](*map(_number, arguments_of(node))):
            yield node, number
            number += 1


def _live(graph: Graph) -> set[Node]:
    """Nodes that are converted: what the outputs need, and what has effects."""
    todo = [x for x in outputs_of(graph) if isinstance(x, Node)]
    todo += [node for node in graph.nodes if not node.users and str(node.target) not in DRAWS]
    live = set[Node]()
    while todo:
        node = todo.pop()
        if node not in live:
            live.add(node)
            todo += node.all_input_nodes
    return live


def _number(argument: Any) -> Any:
    """An argument as a condition compares it: a number that is a symbol is in every range."""
    value = argument.meta.get("val") if isinstance(argument, Node) else argument
    return 0.5 if isinstance(value, torch.SymInt | torch.SymFloat) else value


def _draw_from(graph: Graph, streams: Sequence[tuple[Node, int]], count: int, device: torch.device) -> None:
    """Lets the nodes draw from streams, by number, of `count` seeds that are drawn after the inputs."""
    if not streams:
        return
    *_, last = graph.find_nodes(op="placeholder") or [None]
    first = next(iter(graph.nodes))
    with graph.inserting_after(last) if last is not None else graph.inserting_before(first):
        drawn = graph.call_function(seeds, ([count], device))
    for node, number in streams:
        value = node.meta["val"]
        dtype = (value[0] if isinstance(value, list | tuple) else value).dtype
        args = arguments_of(node)
        known = all(
            isinstance(x, int | float | None) for x in args[:3] if not _is_tensor(x) and not isinstance(x, list)
        )
        with graph.inserting_before(node):
            seed = graph.call_function(torch.select, (drawn, 0, number))
            made = graph.call_function(draw, (str(node.target), seed, dtype, known, *args))
        made.meta = dict(node.meta)
        node.replace_all_uses_with(made)
        graph.erase_node(node)


def _is_tensor(x: Any) -> bool:
    return isinstance(x, Node) and isinstance(x.meta.get("val"), torch.Tensor)


def _give_seeds(graph: Graph, node: Node) -> None:
    """Replaces an operator of Inductor's, which PyTorch itself runs with other numbers at each call."""
    args, value = arguments_of(node), node.meta["val"]
    known = all(isinstance(x, int) for x in args[:2])
    call: tuple[Any, tuple[Any, ...]]
    match node.target:
        case prims.inductor_random.default:
            call = (seeded, (*args[:3], value.dtype))
        case prims.inductor_randint.default:
            call = (seeded_integers, (*args[:4], value.dtype, known))
        case _:
            call = (seeds, (list(value.shape), args[-1]))
    with graph.inserting_before(node):
        made = graph.call_function(*call)
    made.meta = dict(node.meta)
    node.replace_all_uses_with(made)
    graph.erase_node(node)

"""Dynamo's graph while it is traced: each region that repeats is a call."""

from collections.abc import Callable
from operator import getitem
from typing import Any

from torch.fx import Graph, GraphModule, Node

from ..fx_pipeline.pipeline import note
from .calls import Call, call, register_fake
from .find import repeated
from .templates import NotATemplate, template

CALL = "bascule_region"  # in the metadata of a node: what it calls, which lives as long as the graph that is traced


def outline(gm: GraphModule, decompositions: dict[Any, Callable]) -> int:
    """Gives `gm` a graph in which regions that repeat are calls, of which one of each kind is traced. Returns how many."""
    calls: list[Call] = []
    for group in repeated(gm.graph):
        try:
            found = template(group[0], decompositions)
        except NotATemplate as refusal:
            note(f"{len(group)} regions of {len(group[0].nodes)} nodes are traced each: {refusal}")
            continue
        calls += [Call(region, found) for region in group]
    if calls:
        register_fake()
        gm.graph = _with_calls(gm.graph, calls)
    return len(calls)


def _with_calls(graph: Graph, calls: list[Call]) -> Graph:
    last = {each.region.nodes[-1]: each for each in calls}
    inside = {node for each in calls for node in each.region.nodes}
    made: dict[Node, Node] = {}
    new = Graph()
    for node in graph.nodes:
        if node not in inside:
            made[node] = _copied(new, node, made)
        elif node in last:
            _call(new, last[node], made)
    return new


def _copied(graph: Graph, node: Node, made: dict[Node, Node]) -> Node:
    """With what Dynamo notes on it: where an input comes from."""
    new = graph.node_copy(node, made.__getitem__)
    vars(new).update({name: value for name, value in vars(node).items() if name not in vars(new)})
    return new


def _call(graph: Graph, this: Call, made: dict[Node, Node]) -> None:
    region = this.region
    node = graph.call_function(call, (this.number, *(made[x] for x in region.operands)))
    for at, result in enumerate(region.results):
        made[result] = graph.call_function(getitem, (node, at))
        made[result].meta = result.meta
    node.meta = {key: value for key, value in region.nodes[-1].meta.items() if key != "example_value"} | {CALL: this}

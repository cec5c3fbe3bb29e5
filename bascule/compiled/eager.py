"""A graph as it is, run by PyTorch with the boxed calling convention."""

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from bascule.runtime.boxed import Boxed, boxed
from bascule.runtime.memory.allocation import begun_at

BASES = "_all_bases"  # of an operator that writes to views of these, which it is told by their places in memory


def in_sequence(results: Any) -> Sequence[Any]:
    """The results of a graph as a sequence: those of branches and loops may return one value as it is, a boxed function does not."""
    return results if isinstance(results, list | tuple) else (results,)


def operator_by_operator(gm: GraphModule) -> Boxed:
    """The graph as it is, with the boxed calling convention."""
    module = _with_bases_placed(gm)

    @boxed
    def run(args: list[Any]) -> Sequence[Any]:
        values = list(args)
        args.clear()
        return in_sequence(module(*values))

    return run


def _with_bases_placed(gm: GraphModule) -> GraphModule:
    """`gm`, whose operators that write to views have bases that begin where the trace has them. `slice_scatter` and its like keep the place of
    what they are given in its storage, but not when they are traced."""
    if not any(BASES in node.kwargs for node in gm.graph.nodes):
        return gm
    graph = Graph()
    graph.output(graph.graph_copy(gm.graph, {}))
    for node in graph.nodes:
        if BASES in node.kwargs:
            with graph.inserting_before(node):
                node.update_kwarg(BASES, [_placed(graph, base) for base in node.kwargs[BASES]])
    return GraphModule(gm, graph)


def _placed(graph: Graph, base: Node) -> Node:
    value = base.meta.get("val")
    offset = value.storage_offset() if isinstance(value, torch.Tensor) else None
    return graph.call_function(begun_at, (base, offset)) if isinstance(offset, int) else base

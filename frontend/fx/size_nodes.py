"""Sizes that are symbols, as nodes of a graph: a call takes numbers, and what the graph computes."""

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Graph, Node

from .graph_ends import is_tangent

aten = torch.ops.aten


class SizeNodes:
    """Of the symbolic sizes in `graph`, as it is now, the node that first has each: a number, or else a tensor of such a dim. It is none of the
    gradients that a joint graph is given, which its forward does not have, where there is another."""

    def __init__(self, graph: Graph):
        self.graph = graph
        self._first: dict[Any, tuple[Node, int | None]] = {}  # None: the node is a number
        for node in sorted(graph.nodes, key=is_tangent):
            value = node.meta.get("val")
            if isinstance(value, torch.SymInt):
                self._first.setdefault(value.node.expr, (node, None))
            elif isinstance(value, torch.Tensor) and value.layout == torch.strided:
                for dim, size in enumerate(value.shape):
                    if isinstance(size, torch.SymInt):
                        self._first.setdefault(size.node.expr, (node, dim))

    def __call__(self, sizes: Sequence[int | torch.SymInt]) -> list[int | Node]:
        """`sizes` as arguments of a call at the insertion point, which comes after what has them first."""
        return [self._node(size) if isinstance(size, torch.SymInt) else size for size in sizes]

    def _node(self, size: torch.SymInt) -> Node:
        node, dim = self._first[size.node.expr]
        if dim is None:
            return node
        made = self.graph.call_function(aten.sym_size.int, (node, dim))
        made.meta["val"] = size
        return made

"""Sizes that are symbols, as nodes of a graph: a call takes numbers, and what the graph computes."""

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Graph, Node

aten = torch.ops.aten


class SizeNodes:
    """Of the symbolic sizes in `graph`, as it is now, the nodes that first have them: numbers, or else tensors of such a dim."""

    def __init__(self, graph: Graph):
        self.graph = graph
        self._numbers, self._dims = dict[Any, Node](), dict[Any, tuple[Node, int]]()
        for node in graph.nodes:
            value = node.meta.get("val")
            if isinstance(value, torch.SymInt):
                self._numbers.setdefault(value.node.expr, node)
            elif isinstance(value, torch.Tensor) and value.layout == torch.strided:
                for dim, size in enumerate(value.shape):
                    if isinstance(size, torch.SymInt):
                        self._dims.setdefault(size.node.expr, (node, dim))

    def __call__(self, sizes: Sequence[int | torch.SymInt]) -> list[int | Node]:
        """`sizes` as arguments of a call at the insertion point, which comes after all that has them first."""
        return [self._node(size) if isinstance(size, torch.SymInt) else size for size in sizes]

    def _node(self, size: torch.SymInt) -> Node:
        expression = size.node.expr
        if expression in self._numbers:
            return self._numbers[expression]
        made = self.graph.call_function(aten.sym_size.int, self._dims[expression])
        made.meta["val"] = size
        return made

"""Splits of a joint graph into forward and backward, by what is saved. Each is made once, of a copy of the graph.

Splits that save what a memory budget chooses are of a graph in which more can be computed again: see `results_from_masks`.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any
from unittest.mock import patch

from torch.fx import Graph, GraphModule, Node

from bascule.compat.graphs.partitioners import make_graph_module, partitioners, use_lazy_graph_module

from .dropout_masks import results_from_masks
from .lowered_values import SUFFIX, lower
from .training_step import Step

Names = tuple[str, ...]
Pair = tuple[GraphModule, GraphModule]
Saved = tuple[Step, tuple[Node, ...]]


class _Enough(Exception):
    """All that was asked for is known; the split itself is not."""


class Splits:
    """The splits of `joint`. `how`: what the partitioner is given beside it. Of pairs that are returned a caller changes copies."""

    def __init__(self, joint: GraphModule, inputs: Any, how: dict[str, Any]):
        self.joint, self.inputs, self.how = joint, inputs, how
        self._pairs: dict[tuple[Names, Names], Pair] = {}

    @cached_property
    def _usual(self) -> tuple[Pair, Saved | None]:
        found = list[Saved]()

        def chosen(graph: Graph, info: Any, memory_budget: float = 1) -> list[Node]:
            nodes = choose(graph, info, memory_budget)
            found.append((Step.of(graph, info), tuple(nodes)))
            return nodes

        with _choosing(chosen) as choose:
            pair = self._split(copy_of(self.joint))
        return pair, found[0] if found else None

    @property
    def usual(self) -> Pair:
        """Min-cut's forward and backward, of the graph as it is."""
        return self._usual[0]

    @property
    def usually_saved(self) -> Saved | None:
        """The step, and what min-cut saves of it; None where nothing is differentiated: there is no backward to save for."""
        return self._usual[1]

    @cached_property
    def prepared(self) -> Saved | None:
        """The step in which more can be computed again, and what min-cut saves of that; None as above."""
        found = list[Saved]()

        def chosen(graph: Graph, info: Any, memory_budget: float = 1) -> list[Node]:
            found.append((Step.of(graph, info), tuple(choose(graph, info, memory_budget))))
            raise _Enough

        with _choosing(chosen) as choose, suppress(_Enough):
            self._split(self._prepared_copy())
        return found[0] if found else None

    def saving(self, names: Names, lowered: Names = (), precision: str = "") -> Pair:
        """Forward and backward that save the values of the prepared step that have these names; `lowered`: others in a `precision`."""
        key = (names, lowered)
        if key not in self._pairs:
            kept = [*names, *(f"{name}{SUFFIX}" for name in lowered)]

            def chosen(graph: Graph, info: Any, memory_budget: float = 1) -> list[Node]:
                nodes = {node.name: node for node in graph.nodes}
                return [nodes[name] for name in kept]

            joint = self._prepared_copy()
            if lowered:
                assert self.prepared is not None
                lower(joint.graph, lowered, [node.name for node in self.prepared[0].backward], precision)
            with _choosing(chosen):
                self._pairs[key] = self._split(joint)
        return self._pairs[key]

    def _prepared_copy(self) -> GraphModule:
        joint = copy_of(self.joint)
        results_from_masks(joint.graph)
        return joint

    def _split(self, joint: GraphModule) -> Pair:
        with use_lazy_graph_module(True):  # most of these graphs are never run
            return partitioners.min_cut_rematerialization_partition(joint, self.inputs, **self.how)


@contextmanager
def _choosing(chosen: Any) -> Iterator[Any]:
    """PyTorch's partitioner asks `chosen` what to save meanwhile; gives what it would ask."""
    choose = partitioners.choose_saved_values_set
    with patch.object(partitioners, "choose_saved_values_set", chosen):
        yield choose


def copied(pair: Pair) -> Pair:
    """Graphs that can be changed."""
    return copy_of(pair[0]), copy_of(pair[1])


def copy_of(gm: GraphModule) -> GraphModule:
    graph, copies = Graph(), dict[Node, Node]()
    for node in gm.graph.nodes:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    with use_lazy_graph_module(True):
        made = make_graph_module(gm, graph)
    made.meta.update(gm.meta)
    return made

"""The cheapest cut through a graph whose edges mostly cannot be cut, as the partitioner's: few ends are left once those edges are contracted.

What an uncuttable edge leads to from the source is on the source's side, what one leads from to the sink on the sink's. Between them the largest
flow is found by shortest paths, a length at a time (Dinitz, 1970).
"""

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Any

Edges = Iterable[tuple[Any, Mapping[Any, Mapping[str, Any]]]]
_SOURCE, _SINK = 0, 1  # numbers of the contracted ends


class Unbounded(Exception):
    """Only uncuttable edges lie on some way from source to sink."""


def minimum_cut(edges: Edges, source: Any, sink: Any) -> tuple[float, tuple[set[Any], set[Any]]]:
    """The value of the cheapest cut, and its sides: on the sink's are the nodes that reach it when the flow is largest.

    `edges`: for each node those that it has an edge to, with its "capacity"; without one it cannot be cut. Raises `Unbounded`.
    """
    uncuttable: dict[Any, list[Any]] = {}
    cuttable: list[tuple[Any, Any, float]] = []
    nodes: dict[Any, None] = {source: None, sink: None}
    for start, ends in edges:
        nodes[start] = None
        for end, data in ends.items():
            nodes[end] = None
            capacity = data.get("capacity", inf)
            if capacity == inf:
                uncuttable.setdefault(start, []).append(end)
            elif capacity > 0:
                cuttable.append((start, end, capacity))
    flow = _Flow(nodes, uncuttable, cuttable, source, sink)
    value = flow.largest()
    near = flow.reaching_sink()
    far = {node for node, number in flow.numbers.items() if near[number]}
    return value, (nodes.keys() - far, far)


def _reached(start: Any, ways: Mapping[Any, Sequence[Any]]) -> set[Any]:
    found, rest = {start}, [start]
    while rest:
        for node in ways.get(rest.pop(), ()):
            if node not in found:
                found.add(node)
                rest.append(node)
    return found


class _Flow:
    """Edge `2 n` and its opposite `2 n + 1`: where they lead, and what they can take yet."""

    def __init__(
        self,
        nodes: Iterable[Any],
        uncuttable: Mapping[Any, Sequence[Any]],
        cuttable: Iterable[tuple[Any, Any, float]],
        source: Any,
        sink: Any,
    ):
        backwards: dict[Any, list[Any]] = {}
        for start, ends in uncuttable.items():
            for end in ends:
                backwards.setdefault(end, []).append(start)
        near, far = _reached(source, uncuttable), _reached(sink, backwards)
        if not near.isdisjoint(far):
            raise Unbounded
        free = [node for node in nodes if node not in near and node not in far]
        self.numbers = dict.fromkeys(near, _SOURCE) | dict.fromkeys(far, _SINK)
        self.numbers |= {node: number for number, node in enumerate(free, _SINK + 1)}
        self.edges: list[list[int]] = [[] for _ in range(len(free) + 2)]  # of each node
        self.ends: list[int] = []
        self.rest: list[float] = []
        self.value: float = 0
        for start, ends in uncuttable.items():
            for end in ends:
                self._add(start, end, inf)
        for start, end, capacity in cuttable:
            self._add(start, end, capacity)

    def _add(self, start: Any, end: Any, capacity: float) -> None:
        first, last = self.numbers[start], self.numbers[end]
        if first in (last, _SINK) or last == _SOURCE:  # carries nothing
            return
        if first == _SOURCE and last == _SINK:
            self.value += capacity
            return
        self.edges[first].append(len(self.ends))
        self.edges[last].append(len(self.ends) + 1)
        self.ends += (last, first)
        self.rest += (capacity, 0)

    def largest(self) -> float:
        """The value of the largest flow, which flows after."""
        while True:
            levels = self._levels()
            if levels[_SOURCE] < 0:
                return self.value
            self._fill(levels)

    def reaching_sink(self) -> list[bool]:
        """Of each node, whether more could flow from it to the sink."""
        return [level >= 0 for level in self._levels()]

    def _levels(self) -> list[int]:
        """How many edges that take more lie between each node and the sink; -1: no way."""
        levels = [-1] * len(self.edges)
        levels[_SINK] = 0
        order = [_SINK]
        for node in order:
            for edge in self.edges[node]:
                start = self.ends[edge]
                if levels[start] < 0 and self.rest[edge ^ 1] > 0:
                    levels[start] = levels[node] + 1
                    order.append(start)
        return levels

    def _fill(self, levels: list[int]) -> None:
        """Has flow take every shortest way until each has an edge that takes no more."""
        ends, rest, untried = self.ends, self.rest, [[*edges] for edges in self.edges]
        way: list[int] = []
        node = _SOURCE
        while True:
            if node == _SINK:
                amount = min(rest[edge] for edge in way)
                self.value += amount
                for edge in way:
                    rest[edge] -= amount
                    rest[edge ^ 1] += amount
                full = next(at for at, edge in enumerate(way) if rest[edge] == 0)
                node = ends[way[full] ^ 1]
                del way[full:]
                continue
            edges = untried[node]
            while edges and not (rest[edges[-1]] > 0 and levels[ends[edges[-1]]] == levels[node] - 1):
                edges.pop()
            if edges:
                way.append(edges[-1])
                node = ends[edges[-1]]
            elif way:
                node = ends[way[-1] ^ 1]
                way.pop()
                untried[node].pop()
            else:
                return

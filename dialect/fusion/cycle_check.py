"""Which nodes of a growing graph depend on which: asked where a fusion must not close a cycle.

A topological order is kept while edges are added, by the algorithm of Pearce and Kelly ("A dynamic topological sort algorithm for
directed acyclic graphs", 2006). A question then looks only at nodes between the two it is about. Nodes of programs are added about in
order, so there are few: the work grows with the graph, where a transitive closure grows with its square.
"""

from collections.abc import Iterable, Iterator


class Dependencies:
    """Nodes 0, 1, ...; nodes may be merged, then either number stands for both."""

    def __init__(self) -> None:
        self._needs: list[set[int]] = []
        self._followers: list[set[int]] = []
        self._place: list[int] = []  # of a node in the topological order; all different
        self._merged: dict[int, int] = {}

    def add(self) -> int:
        """A new node, that nothing depends on."""
        self._needs.append(set())
        self._followers.append(set())
        self._place.append(len(self._place))
        return len(self._place) - 1

    def find(self, node: int) -> int:
        """The number that now stands for a node."""
        while node in self._merged:
            node = self._merged[node]
        return node

    def depend(self, node: int, needed: Iterable[int]) -> None:
        """Adds that `node` depends on `needed`. None of those may depend on it."""
        node = self.find(node)
        for other in map(self.find, needed):
            if other == node or other in self._needs[node]:
                continue
            if self._place[other] > self._place[node]:
                self._reorder(other, node)
            self._needs[node].add(other)
            self._followers[other].add(node)

    def depends(self, node: int, on: int) -> bool:
        """Whether a path of one edge or more leads from `node` to `on`."""
        node, on = self.find(node), self.find(on)
        return node != on and self._reaches([node], on)

    def between(self, a: int, b: int) -> bool:
        """Whether a third node depends on one of `a` and `b`, and the other depends on it: merging the two would close a cycle."""
        a, b = self.find(a), self.find(b)
        return self._indirectly(a, b) or self._indirectly(b, a)

    def merge(self, node: int, other: int) -> None:
        """One node of two, where nothing is `between` them; `find` then gives that of `node`."""
        node, other = self.find(node), self.find(other)
        needs, followers = self._needs[other] - {node}, self._followers[other] - {node}
        for n in self._needs[other]:
            self._followers[n].discard(other)
        for f in self._followers[other]:
            self._needs[f].discard(other)
        self._needs[other], self._followers[other] = set(), set()
        self._merged[other] = node
        self.depend(node, needs)
        for follower in followers:
            self.depend(follower, [node])

    def _indirectly(self, node: int, on: int) -> bool:
        return self._reaches([n for n in self._needs[node] if n != on], on)

    def _reaches(self, nodes: Iterable[int], on: int) -> bool:
        """Whether `on` is among `nodes` or what they need."""
        return any(n == on for n in self._reached(nodes, self._needs, lambda n: self._place[n] >= self._place[on]))

    def _reached(self, nodes: Iterable[int], edges: list[set[int]], within) -> Iterator[int]:
        todo = [n for n in nodes if within(n)]
        seen = set(todo)
        while todo:
            n = todo.pop()
            yield n
            for m in edges[n]:
                if m not in seen and within(m):
                    seen.add(m)
                    todo.append(m)

    def _reorder(self, first: int, then: int) -> None:
        """Moves `first` and what it needs before `then` and what follows it; only nodes from `then` to `first` in the order move."""
        place = self._place
        low, high = place[then], place[first]
        later = sorted(self._reached([then], self._followers, lambda n: place[n] <= high), key=place.__getitem__)
        sooner = sorted(self._reached([first], self._needs, lambda n: place[n] >= low), key=place.__getitem__)
        moved = [*sooner, *later]
        for node, at in zip(moved, sorted(place[n] for n in moved)):
            place[node] = at

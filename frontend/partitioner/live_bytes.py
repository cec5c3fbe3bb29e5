"""Bytes that a training step holds while its forward and its backward run, for a set of saved values: what the user gave, what is saved, what is
under way, the gradients.

A view has the bytes of what it views. A value that only operators take that compute where they read, and few of them, is part of their kernels
and has none. What the backward computes again it computes right before its first user.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch.fx import Graph, Node

from ..fx.storages import is_view
from ..fx.trace_context import hint

INLINED = 2  # readers of a value that compute it each for themselves, at most
UNKNOWN = 4096  # elements of a tensor of which no size is known


@dataclass(frozen=True)
class Peak:
    """The most bytes at one time, and where: before a node, and which values they are of."""

    bytes: int
    at: Node | None
    live: tuple[Node, ...] = ()


@dataclass(frozen=True, eq=False)
class Step:
    """A joint graph as a training step. `forward` and `backward`: the nodes that these have to compute, in order; `given`: inputs of both;
    `fuses`: whether a node computes where it reads and is computed where it is read."""

    graph: Graph
    forward: tuple[Node, ...]
    backward: tuple[Node, ...]
    given: frozenset[Node]
    forward_outputs: frozenset[Node]
    backward_outputs: frozenset[Node]
    fuses: Callable[[Node], bool]

    @cached_property
    def standing(self) -> int:
        """Bytes of what is given, all the time."""
        return sum(self.size(root) for root in {self.root(node) for node in self.given})

    @cached_property
    def _sizes(self) -> dict[Node, int]:
        return {}

    def size(self, node: Node) -> int:
        """Bytes of the tensors that a node gives."""
        if node not in self._sizes:
            self._sizes[node] = tensor_bytes(node.meta.get("val"))
        return self._sizes[node]

    @cached_property
    def _roots(self) -> dict[Node, Node]:
        found: dict[Node, Node] = {}
        for node in self.graph.nodes:
            found[node] = found[node.args[0]] if node.op == "call_function" and is_view(node) else node  # type: ignore[index]
        return found

    def root(self, node: Node) -> Node:
        """The node whose memory `node` has."""
        return self._roots[node]

    # Peaks

    def peak(self, saved: Collection[Node]) -> Peak:
        """The peak of the step where the forward leaves `saved` to the backward, beside what is given."""
        kept = {self.root(node) for node in saved}
        forward = self._walk(self.forward, set(), kept | {self.root(node) for node in self.forward_outputs})
        again = tuple(self.computed_again(saved))
        tangents = {node for node in self.graph.nodes if node.op == "placeholder" and node not in self.given}
        backward = self._walk(again, kept | tangents, {self.root(node) for node in self.backward_outputs})
        return max(forward, backward, key=lambda peak: peak.bytes)

    def computed_again(self, saved: Collection[Node]) -> Iterator[Node]:
        """The nodes of the backward with those that it computes again, each right before its first user."""
        done, have = set[Node](), {*saved, *self.given}
        for node in self.backward:
            todo = [(node, iter(node.all_input_nodes))]
            if node in done:
                continue
            while todo:
                current, operands = todo[-1]
                needed = next((n for n in operands if n.op == "call_function" and n not in done and n not in have), None)
                if needed is not None:
                    todo.append((needed, iter(needed.all_input_nodes)))
                    continue
                todo.pop()
                if current not in done:
                    done.add(current)
                    yield current

    def _walk(self, order: Iterable[Node], entering: set[Node], staying: set[Node]) -> Peak:
        """The peak of `order`, at whose begin `entering` is there, and `staying` at the end."""
        order = tuple(order)
        standing = {self.root(node) for node in self.given}
        last, held = dict[Node, int](), self._held(order, staying) | entering
        for number, node in enumerate(order):
            for operand in self._reaches(node, held):
                last[operand] = number
        live = {node for node in entering if node not in standing}
        ends: dict[int, list[Node]] = {}
        for node, number in last.items():
            ends.setdefault(number, []).append(node)
        total = sum(map(self.size, live))
        best, most, where = frozenset(live), total, None
        for number, node in enumerate(order):
            root = self.root(node)
            if root in held and root not in live and root not in standing:
                live.add(root)
                total += self.size(root)
            if total > most:
                most, where, best = total, node, frozenset(live)
            for operand in ends.get(number, ()):
                if operand in live and operand not in staying:
                    live.remove(operand)
                    total -= self.size(operand)
        return Peak(most + self.standing, where, tuple(best))

    def _held(self, order: tuple[Node, ...], staying: set[Node]) -> set[Node]:
        """The values of `order` that get memory."""
        here = set(order)
        readers: dict[Node, list[Node]] = {}
        for node in order:
            for operand in node.all_input_nodes:
                readers.setdefault(self.root(operand), []).extend([] if self.root(node) is not node else [node])
        return {
            node
            for node in here
            if self.root(node) is node
            and (
                node in staying
                or not self.fuses(node)
                or len(readers.get(node, ())) > INLINED
                or not all(map(self.fuses, readers.get(node, ())))
            )
        }

    def _reaches(self, node: Node, held: set[Node]) -> set[Node]:
        """What has memory among what `node` reads, itself or by what is computed where it is read."""
        found, todo, seen = set[Node](), [node], set[Node]()
        if self.root(node) is not node or node not in held:
            return found if node in held else {self.root(o) for o in node.all_input_nodes if self.root(o) in held}
        while todo:
            for operand in todo.pop().all_input_nodes:
                root = self.root(operand)
                if root in seen:
                    continue
                seen.add(root)
                if root in held or root.op != "call_function":
                    found.add(root)
                else:
                    todo.append(root)
        return found


def tensor_bytes(value: object) -> int:
    """Bytes of a fake tensor, or of all in a list of them."""
    if isinstance(value, list | tuple):
        return sum(map(tensor_bytes, value))
    if not isinstance(value, torch.Tensor):
        return 0
    elements = hint(value.numel())
    return (UNKNOWN if elements is None else elements) * value.dtype.itemsize

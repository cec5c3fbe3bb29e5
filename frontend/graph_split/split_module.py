"""A graph cut at some of its nodes: parts that are compiled, and what runs between them.

Each node has a level. Parts are numbered from 0; what runs by itself after part k has level k (-1: before all parts). Nodes stand at the lowest
level at which what they read is there, so parts are as few as the chains of cuts allow. Operators with effects keep their order, and writes to
inputs come last. An operator that makes a tensor out of numbers is repeated in each part that reads the tensor.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import getitem
from typing import Any

import sympy
import torch
from bascule.dialect.errors import UnsupportedError
from bascule.dialect.ir.symbol_sources import Source
from torch.fx import Graph, GraphModule, Node

from bascule.compat.operators.schemas import HigherOrderOperator, OpOverload

from ..fx.graph_ends import RESTRIDED
from ..fx.node_calls import is_object
from ..fx.operator_effects import keeps_order
from ..fx.storages import changes_input
from ..importer.symbol_sources import symbol_sources
from ..importer.symbolic_numbers import ComputedNumbers, checked_equalities, is_number, number_of, symbols_in
from .find_split_points import is_check


@dataclass(frozen=True)
class Submodule:
    """A part that is compiled: `gm` takes the values of `inputs`, nodes and symbols of the whole graph, and returns those of `outputs`."""

    gm: GraphModule
    inputs: tuple[Node | sympy.Symbol, ...]
    outputs: tuple[Node, ...]


@dataclass(frozen=True)
class Alone:
    """A node that runs by itself: one of the cuts, or a number computed from numbers."""

    node: Node


@dataclass(frozen=True)
class Solved:
    """The value of a symbol, read from the value of a node."""

    symbol: sympy.Symbol
    node: Node
    source: Source


Step = Submodule | Alone | Solved


def split_module(gm: GraphModule, cuts: Mapping[Node, Any]) -> list[Step]:
    """`gm` as steps, in the order in which they run. Its constants and subgraphs (`get_attr` nodes) are there for every step.

    Raises `UnsupportedError` for a symbol whose value nothing gives.
    """
    levels = _Levels(gm.graph, cuts)
    return _without_unused([*_steps(gm, levels)], gm.graph)


def reads(step: Step) -> Sequence[Node | sympy.Symbol]:
    """The values that a step reads."""
    match step:
        case Submodule():
            return step.inputs
        case Alone():
            return step.node.all_input_nodes
        case Solved():
            return [step.node]


def makes(step: Step) -> Sequence[Node | sympy.Symbol]:
    """The values that a step makes."""
    match step:
        case Submodule():
            return step.outputs
        case Alone():
            return [step.node]
        case Solved():
            return [step.symbol]


class _Levels:
    """Where each node of a graph runs."""

    def __init__(self, graph: Graph, cuts: Mapping[Node, Any]):
        self.alone: dict[Node, int] = {}  # node -> level
        self.parts: dict[Node, int] = {}  # node -> number of its part
        self.nodes = [node for node in graph.nodes if node.op == "call_function"]
        self.cuts = cuts
        self.givers = _givers(graph, cuts)
        # Of the last operator with an effect: its level, whether it runs alone.
        self._effect: tuple[int, bool] = (-1, True)
        created, writes = [], []
        for node in self.nodes:
            if changes_input(node):
                writes.append(node)
            elif self._place(node):
                created.append(node)
        last = max([0, *self.parts.values(), *(level + 1 for level in self.alone.values())])
        for node in writes:
            (self.alone if node in cuts else self.parts)[node] = last
        self.count = last + 1
        self.repeated = {node for node in created if all(user in self.parts for user in node.users)}
        for node in self.repeated:
            del self.parts[node]

    def _place(self, node: Node) -> bool:
        """Gives `node` its level; whether it makes a tensor from numbers."""
        inputs, value, effect = node.all_input_nodes, node.meta.get("val"), _has_effect(node)
        last, last_alone = self._effect
        if self._runs_alone(node):
            level = max([-1, *(self.parts.get(x, self.alone.get(x, -1)) for x in inputs)])
            if effect:
                level = max(level, last)
                self._effect = (level, True)
            self.alone[node] = level
            return False
        tensors = [x for x in inputs if not is_number(x.meta.get("val"))]
        symbols = symbols_in([value, *(x.meta.get("val") for x in inputs)])
        level = max([0, *map(self._ready, tensors), *(self._ready(self.giver(symbol)[0]) for symbol in symbols)])
        if effect:
            level = max(level, last + 1 if last_alone else last)
            self._effect = (level, False)
        self.parts[node] = level
        return not effect and not tensors

    def _runs_alone(self, node: Node) -> bool:
        """Whether `node` is a cut, one result of a cut, a number, a check of numbers, or an object."""
        if node in self.cuts or is_number(node.meta.get("val")) or is_check(node) or is_object(node):
            return True
        return node.target is getitem and node.args[0] in self.alone

    def _ready(self, node: Node) -> int:
        """The first part that may read `node`."""
        if node in self.alone:
            return self.alone[node] + 1
        return self.parts.get(node, 0)

    def giver(self, symbol: sympy.Symbol) -> tuple[Node, Source]:
        """The node whose value gives that of `symbol`, and how."""
        if symbol not in self.givers:
            raise UnsupportedError(f"nothing gives the value of the symbol {symbol}")
        return self.givers[symbol]


def _has_effect(node: Node) -> bool:
    """Whether a node does what its results do not show: its operator does, or it calls a graph that may."""
    target = node.target
    if isinstance(target, OpOverload):
        return keeps_order(target)
    return isinstance(target, HigherOrderOperator)


def _givers(graph: Graph, cuts: Mapping[Node, Any]) -> dict[sympy.Symbol, tuple[Node, Source]]:
    """Symbol -> the node whose value gives it, and how: a placeholder, a cut, one result of a cut, or else what is asked of a placeholder, as
    where it begins in its storage."""
    seen: dict[Node, Any] = {}
    asked: dict[Node, Any] = {}
    for node in graph.nodes:
        value = node.meta.get("val")
        if node.op == "placeholder" or node in cuts or (node.target is getitem and node.args[0] in seen):
            seen[node] = value
        elif is_number(value) and [x.op for x in node.all_input_nodes] == ["placeholder"]:
            asked[node] = value
    seen |= asked
    nodes, sources = list(seen), symbol_sources(list(seen.values()))
    givers = {symbol: (nodes[source.input], source) for symbol, source in sources.items()}
    for i, value in enumerate(seen.values()):
        if isinstance(value, torch.SymFloat) and value.node.expr.is_Symbol:
            givers[value.node.expr] = (nodes[i], Source(i, "value"))
    for a, b in checked_equalities(graph):
        for symbol, other in ((a, b), (b, a)):
            if other in givers:
                givers.setdefault(symbol, givers[other])
    return givers


def _steps(gm: GraphModule, levels: _Levels) -> Iterator[Step]:
    solved: dict[Node, list[Solved]] = {}
    for symbol, (node, source) in levels.givers.items():
        if not source.is_exact:
            solved.setdefault(node, []).append(Solved(symbol, node, source))
    for node in gm.graph.nodes:
        if node.op == "placeholder":
            yield from solved.get(node, ())
    for level in range(-1, levels.count):
        nodes = [node for node in levels.nodes if levels.parts.get(node) == level]
        if nodes:
            yield _PartBuilder(gm, levels, nodes).build()
        for node in levels.nodes:
            if levels.alone.get(node) == level:
                yield Alone(node)
                yield from solved.get(node, ())


class _PartBuilder:
    """Builds the graph of the part that consists of `nodes`."""

    def __init__(self, gm: GraphModule, levels: _Levels, nodes: list[Node]):
        self.gm, self.levels = gm, levels
        self.nodes = self._with_repeated(nodes)
        self.graph = Graph()
        self.copies: dict[Node, Node] = {}  # node of the whole graph -> node of the part
        self.inputs: list[Node | sympy.Symbol] = []
        self.numbers = self._symbols()

    def _with_repeated(self, nodes: list[Node]) -> list[Node]:
        """`nodes`, after what they read that each part makes for itself."""
        repeated = {x for node in nodes for x in node.all_input_nodes if x in self.levels.repeated}
        return [*(node for node in self.levels.nodes if node in repeated), *nodes]

    def _symbols(self) -> ComputedNumbers:
        """Placeholders for the symbols that the part's sizes and numbers name."""
        values = [x.meta.get("val") for node in self.nodes for x in (node, *node.all_input_nodes)]
        placeholders = {}
        for symbol in sorted(symbols_in(values), key=str):
            node, source = self.levels.giver(symbol)
            self.inputs.append(node if source.is_exact else symbol)
            placeholders[symbol] = self.graph.placeholder(str(symbol))
            placeholders[symbol].meta["val"] = number_of(symbol, values)
        return ComputedNumbers(self.graph, placeholders)

    def build(self) -> Submodule:
        present = set(self.nodes)
        for node in self.nodes:
            for x in node.all_input_nodes:
                if x in present or x in self.copies or x.op == "get_attr" or is_number(x.meta.get("val")):
                    continue
                self.inputs.append(x)
                self.copies[x] = self.graph.placeholder(x.name)
                self.copies[x].meta = dict(x.meta)
                if x in self.levels.alone:
                    self.copies[x].meta[RESTRIDED] = True
        for node in self.nodes:
            self.copies[node] = self.graph.node_copy(node, self._copied)
        outputs = tuple(
            node
            for node in self.nodes
            if node not in self.levels.repeated and any(user not in present for user in node.users)
        )
        self.graph.output(tuple(self.copies[node] for node in outputs))
        return Submodule(GraphModule(self.gm, self.graph), tuple(self.inputs), outputs)

    def _copied(self, x: Node) -> Any:
        """The node that stands for `x` among the arguments of the subgraph's nodes."""
        value = x.meta.get("val")
        if is_number(value):
            return self.numbers.of(value)
        if x not in self.copies:
            self.copies[x] = self.graph.node_copy(x)
        return self.copies[x]


def _without_unused(steps: list[Step], graph: Graph) -> list[Step]:
    """`steps` without numbers that nothing reads."""
    needed: set[Node | sympy.Symbol] = set(graph.output_node().all_input_nodes)
    kept = []
    for step in reversed(steps):
        pure = isinstance(step, Solved) or (
            isinstance(step, Alone)
            and is_number(step.node.meta.get("val"))
            and not step.node.meta.get("unbacked_bindings")
        )
        if not pure or any(value in needed for value in makes(step)):
            needed.update(reads(step))
            kept.append(step)
    return kept[::-1]

"""The pass `delay-weight-gradients`: a large reduction at the end of a backward runs beside gradients that only smaller ones wait for."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...analysis.memory.call_order import Step
from ...collectives.calls import GATHERS, Collectives, Start
from ...collectives.dependences import Dependences, reordered, sequence_of
from ...ir.functions import graph_functions
from ...mlir import ir
from ..base import VALUES, Pass


@dataclass(frozen=True)
class DelayWeightGradients(Pass):
    """Takes and leaves the tensor stage. The last reduction of a graph, as that of an embedding's gradient, comes before those before it that it
    does not need and that have at most half of its bytes, until they have as many together. What only they need, as the products that make
    the gradients of a layer's weights, comes after it: nothing would be left to compute beside it.

    It looks at what all ranks have alike only (see `bucket-collectives`): the order of the collectives, their kinds and static sizes, and
    which needs which.
    """

    name: ClassVar[str] = "delay-weight-gradients"
    takes: ClassVar[str] = VALUES

    def run(self, module: ir.Module) -> None:
        with module.context:
            table = ir.SymbolTable(module.operation)
            for graph in graph_functions(module):
                self._delay(graph, table)

    def _delay(self, graph: ir.Operation, table: ir.SymbolTable) -> None:
        known = Dependences.of(graph, table)
        if known is None:
            return
        sequence = sequence_of(known.found)
        passed = passed_by_last(sequence, known.found.starts, known.needs)
        if not passed:
            return
        *others, last = sequence
        first = min(needed_alone(known.steps, passed, known.found))
        place = others.index(passed[0])
        order = reordered(known.steps, [*others[:place], last, *others[place:]], {last: first - 0.5})
        known.move(order or ())


def passed_by_last(
    sequence: Sequence[int], starts: Mapping[int, Start], needs: Mapping[int, Collection[int]]
) -> list[int]:
    """The reductions before the last one of `sequence` that it passes, in their order."""
    last = starts.get(sequence[-1])
    if last is None or last.kind in GATHERS or not last.bytes:
        return []
    passed: list[int] = []
    total = 0
    for number in reversed(sequence[:-1]):
        start = starts.get(number)
        if start is None or start.kind in GATHERS or number in needs[last.number]:
            break
        if not start.bytes or 2 * start.bytes > last.bytes or total >= last.bytes:
            break  # the last that begins is not hidden either
        passed.insert(0, number)
        total += start.bytes
    return passed


def needed_alone(steps: Sequence[Step], passed: Sequence[int], found: Collectives) -> set[int]:
    """The numbers of `passed`, of their waits, and of the steps that nothing else needs."""
    needed: list[set[int]] = [set() for _ in steps]
    for number, step in enumerate(steps):
        for earlier in step.after:
            needed[earlier].add(number)
    alone = {number for start in passed for number in (start, *found.starts[start].waits)}
    for number in reversed(range(max(passed))):
        others = number not in found.starts and number not in found.waits and number not in found.others
        if others and needed[number] and needed[number] <= alone:
            alone.add(number)
    return alone

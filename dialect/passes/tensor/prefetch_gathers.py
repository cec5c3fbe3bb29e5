"""The pass `prefetch-gathers`: all-gathers of parameters begin before the reductions of the layer before."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...collectives.calls import GATHERS, Collectives
from ...collectives.dependences import Dependences, reordered, sequence_of
from ...ir.functions import graph_functions
from ...mlir import ir
from ..base import VALUES, Pass


@dataclass(frozen=True)
class PrefetchGathers(Pass):
    """Takes and leaves the tensor stage. An all-gather that needs no other collective, as that of a sharded parameter, comes before the
    `ahead` last reductions before it in the order of the collectives: in a backward the reductions wait for gradients, and the next layer's
    parameters would wait behind them.

    It looks at what all ranks have alike only (see `bucket-collectives`). No all-gather passes another, or another call with effects. When a
    gather really begins is for `overlap-collectives` to say, which keeps the order.
    """

    name: ClassVar[str] = "prefetch-gathers"
    takes: ClassVar[str] = VALUES
    ahead: int = 2

    def run(self, module: ir.Module) -> None:
        with module.context:
            table = ir.SymbolTable(module.operation)
            for graph in graph_functions(module):
                self._prefetch(graph, table)

    def _prefetch(self, graph: ir.Operation, table: ir.SymbolTable) -> None:
        known = Dependences.of(graph, table)
        if known is None:
            return
        found = known.found
        free = {n for n, start in found.starts.items() if start.kind in GATHERS and not known.needs[n]}
        sequence = prefetched(sequence_of(found), free, found, self.ahead)
        moved = _places(sequence)
        if moved:
            order = reordered(known.steps, sequence, moved)
            assert order is not None  # what moves needs no collective, and goes up
            known.move(order)


def prefetched(sequence: Sequence[int], free: set[int], found: Collectives, ahead: int) -> list[int]:
    """`sequence` with each of `free` before up to `ahead` of those before it, never past one of `free` or what is no collective."""
    made: list[int] = []
    for number in sequence:
        place = len(made)
        if number in free:
            while (
                place and len(made) - place < ahead and made[place - 1] in found.starts and made[place - 1] not in free
            ):
                place -= 1
        made.insert(place, number)
    return made


def _places(sequence: Sequence[int]) -> dict[int, float]:
    """The gathers that moved up -> their places, right before what they passed."""
    moved: dict[int, float] = {}
    least = None
    for number in reversed(sequence):
        if least is not None and number > least:
            moved[number] = least - 0.5
        else:
            least = number
    return moved

"""The pass `order-program`: an order of the calls that needs less memory."""

from dataclasses import dataclass
from typing import ClassVar

from ...analysis.memory.call_order import by_memory, peak
from ...analysis.memory.call_steps import steps_of
from ...ir.functions import graph_functions
from ...mlir import ir
from ...steering.asking import is_steered, order_of
from ...steering.hooks import Ordering
from ..base import VALUES, Pass, check_target


@dataclass(frozen=True)
class OrderProgram(Pass):
    """Takes the kernel stage; leaves each graph function's calls in an order in which fewer bytes are live at the peak.

    The order stays as it is where the new one gains less than `gain` percent. What operators of a CPU take while they run counts, for one
    thread. Effects keep their order: a write of an argument (`copy_into`)
    comes after what reads it before, and before what reads it later; so does an ATen function with effects that takes one. An ATen function
    that mutates returns the new contents and leaves its operands as they are, so it waits for nobody.
    """

    name: ClassVar[str] = "order-program"
    takes: ClassVar[str] = VALUES
    gain: int = 5
    target: str = "cpu"

    def run(self, module: ir.Module) -> None:
        check_target(self.name, self.target)
        with module.context:
            table = ir.SymbolTable(module.operation)
            for graph in graph_functions(module):
                self._order(graph, table)

    def _order(self, graph: ir.Operation, table: ir.SymbolTable) -> None:
        *ops, end = [op.operation for op in graph.regions[0].blocks[0].operations]
        steps, sizes, kept = steps_of(ops, end, table, threads=int(self.target == "cpu"))
        order = by_memory(steps, sizes, kept)
        before, after = (peak(steps, o, sizes, kept) for o in (range(len(steps)), order))
        if 100 * after > (100 - self.gain) * before:
            order, after = list(range(len(steps))), before
        if is_steered():
            needed = tuple(frozenset(step.after) for step in steps)
            order = list(order_of(Ordering(tuple(ops), needed, after, before, tuple(order))))
        if order != list(range(len(steps))):
            for number in order:
                ops[number].move_before(end)

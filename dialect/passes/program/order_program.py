"""The pass `order-program`: an order of the calls that needs less memory."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...analysis.memory.buffers import bytes_of, memref_type, root_of, substitute
from ...analysis.memory.call_order import Step, by_memory, peak
from ...ir.functions import EFFECTS, graph_functions
from ...ir.shapes import constant, expr, shape_of, symbol_count
from ...mlir import ir
from ...steering.asking import is_steered, order_of
from ...steering.hooks import Ordering
from ..base import VALUES, Pass

SYMBOL = 64  # the size assumed of a symbol: only the order depends on it


@dataclass(frozen=True)
class OrderProgram(Pass):
    """Takes the kernel stage; leaves each graph function's calls in an order in which fewer bytes are live at the peak.

    The order stays as it is where the new one gains less than `gain` percent. Effects keep their order: a write of an argument (`copy_into`)
    comes after what reads it before, and before what reads it later; so does an ATen function with effects that takes one. An ATen function
    that mutates returns the new contents and leaves its operands as they are, so it waits for nobody.
    """

    name: ClassVar[str] = "order-program"
    takes: ClassVar[str] = VALUES
    gain: int = 5

    def run(self, module: ir.Module) -> None:
        with module.context:
            table = ir.SymbolTable(module.operation)
            for graph in graph_functions(module):
                self._order(graph, table)

    def _order(self, graph: ir.Operation, table: ir.SymbolTable) -> None:
        *ops, end = [op.operation for op in graph.regions[0].blocks[0].operations]
        steps, sizes, kept = _steps(ops, end, table)
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


def _steps(
    ops: Sequence[ir.Operation], end: ir.Operation, table: ir.SymbolTable
) -> tuple[list[Step], list[int], set[int]]:
    """A step an op; the bytes of each buffer (a tensor that a call returns); the buffers that are returned."""
    steps, sizes = [Step() for _ in ops], list[int]()
    makers: dict[ir.Value, int] = {}  # value -> step
    buffers: dict[ir.Value, int] = {}
    writer: dict[ir.Value, int] = {}  # root -> the step that wrote it last
    readers: dict[ir.Value, list[int]] = {}  # root -> the steps that read it since
    effect: int | None = None
    for number, (op, step) in enumerate(zip(ops, steps)):
        operands, written = list(op.operands), []
        attributes = table[op.attributes["callee"].value].operation.attributes if op.name == "func.call" else {}
        if op.name == "bascule.copy_into":
            written = operands[1:]
        if EFFECTS in attributes:
            if effect is not None:
                step.after.add(effect)
            effect = number
            # It may do anything to an argument: give its storage back, for example.
            written = [x for x in operands if isinstance(root_of(x), ir.BlockArgument)]
        for value in operands:
            if value in makers:
                step.after.add(makers[value])
            root = root_of(value)
            if root in buffers:
                step.uses.add(buffers[root])
            if root in writer:
                step.after.add(writer[root])
            readers.setdefault(root, []).append(number)
        for root in map(root_of, written):
            step.after |= {*readers[root]} - {number}
            readers[root], writer[root] = [], number
        makers.update(dict.fromkeys(op.results, number))
        if op.name == "func.call":
            for result in op.results:
                buffers[result] = len(sizes)
                step.makes.append(len(sizes))
                sizes.append(_bytes(result))
    kept = {buffers[root] for root in map(root_of, end.operands) if root in buffers}
    return steps, sizes, kept


def _bytes(value: ir.Value) -> int:
    """The size of a tensor, with `SYMBOL` for each symbol."""
    size = bytes_of(memref_type(value.type), shape_of(value))
    known = constant(substitute(size, [], [expr(SYMBOL)] * symbol_count([size])))
    assert known is not None  # no symbols are left
    return known

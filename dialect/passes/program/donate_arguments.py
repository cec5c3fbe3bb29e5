"""The pass `spare-arguments`: where memory is at its peak, large results lie where arguments did that the call may write."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar

from ...analysis.bodies.costs import magnitude
from ...analysis.memory.buffers import Sizes, bytes_of, root_of
from ...analysis.memory.in_place import InPlace
from ...analysis.memory.liveness import Buffer, buffers_of, dying_arguments
from ...ir.attributes import i64
from ...ir.functions import DIES, OVER, RETURNED_TOO, graph_functions, kernel_op
from ...mlir import ir
from ..base import BUFFERS, Pass

LARGE = 1 << 20  # bytes from which it is worth looking, at each call, whether it may


@dataclass(frozen=True)
class SpareArguments(Pass):
    """Takes and leaves the program stage, before `plan-memory`. Marks the allocation of a result of a megabyte or more with
    `bascule.over = n`, where argument n dies (`bascule.dies`, or `bascule.returned_too`) at the kernel that makes the result, is read there
    before the result is written, element by element, and no more memory is needed anywhere than there. So it goes on until the peak is where
    nothing can be donated. An argument is given to one result. A size that is a symbol counts as 256.

    Whether the memory of such an argument is nobody else's shows when the program is called: then the result lies in it, else it has
    memory of its own.
    """

    name: ClassVar[str] = "spare-arguments"
    takes: ClassVar[str] = BUFFERS

    def run(self, module: ir.Module) -> None:
        with module.context:
            table = ir.SymbolTable(module.operation)
            for graph in graph_functions(module):
                ops = [op.operation for op in graph.regions[0].blocks[0].operations]
                dying = dying_arguments(graph, ops, (DIES, RETURNED_TOO))
                if dying:
                    _Donation(graph, ops, dying, table).run()


class _Donation:
    """Of one graph function. `live`: bytes at each op, of dying arguments and of what is made; a symbol counts as some number."""

    def __init__(
        self, graph: ir.Operation, ops: Sequence[ir.Operation], dying: dict[ir.Value, int], table: ir.SymbolTable
    ):
        self.ops, self.table, self.dying = ops, table, dying
        self.numbers = {argument: number for number, argument in enumerate(graph.regions[0].blocks[0].arguments)}
        self.sizes = Sizes(graph, table)
        self.buffers = buffers_of(ops, table)
        self.bytes = {buffer.value: self._bytes(buffer.value) for buffer in self.buffers}
        spans = [(self._bytes(argument), 0, last) for argument, last in dying.items()]
        spans += [(self.bytes[b.value], max(b.first, b.written), b.last) for b in self.buffers]
        changes = [0] * (len(ops) + 2)  # what ends with the block is live at its last op
        for size, first, last in spans:
            changes[first] += size
            changes[last + 1] -= size
        self.live = list(accumulate(changes[: len(ops)]))

    def _bytes(self, value: ir.Value) -> int:
        return magnitude([bytes_of(value.type, self.sizes.of(value)).maybe_downcast()])

    def run(self) -> None:
        open_ = [b for b in self.buffers if b.allocated and b.written >= 0 and self.bytes[b.value] >= LARGE]
        while True:
            peak = max(range(len(self.ops)), key=self.live.__getitem__)
            dying = [argument for argument, last in self.dying.items() if last == peak]
            made = [buffer for buffer in open_ if buffer.written == peak]
            places = ((b, _place(b, self.ops[peak], dying, self.table)) for b in made)
            found = next(((buffer, argument) for buffer, argument in places if argument is not None), None)
            if found is None:
                return
            buffer, argument = found
            buffer.value.owner.attributes[OVER] = i64(self.numbers[argument])
            open_.remove(buffer)
            del self.dying[argument]
            self.live[peak] -= self.bytes[buffer.value]


def _place(buffer: Buffer, op: ir.Operation, dying: Collection[ir.Value], table: ir.SymbolTable) -> ir.Value | None:
    """The one of `dying` in whose memory `op`, a call, may make `buffer`."""
    if not dying or op.name != "func.call":
        return None
    function = table[op.attributes["callee"].value].operation
    if kernel_op(function) is None:
        return None
    operands = list(op.operands)
    if buffer.value not in operands:  # a view of it is given
        return None
    roots = [root_of(v) for v in operands if isinstance(v.type, ir.MemRefType)]
    analysis = InPlace(function)
    # Given as a whole, and once: a view may begin elsewhere.
    whole = [argument for argument in dying if argument in operands and roots.count(argument) == 1]
    made = operands.index(buffer.value)
    return next((argument for argument in whole if analysis.allows(operands.index(argument), made)), None)

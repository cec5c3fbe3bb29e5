"""Reads along another index than the lanes': taken as square tiles, transposed in registers, and kept there or in scratch memory.

Such a read of 16 lanes touches 16 cache lines for 64 bytes. A tile of 16 x 16 touches the same lines once, whole. What is written to
scratch memory and read again costs as much as the rest of a small body: there a tile stays in registers, at the price of a copy of
the body for each of its rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from bascule.dialect.analysis.bodies.body_tree import Block, Node
from bascule.dialect.mlir import ir
from bascule.dialect.scheduling.cpu.loop_legality import reads_along, slice_of
from bascule.dialect.scheduling.cpu.schedule_form import REGISTERS, Tasks

from ..body.emitter import Emitter
from ..body.schedule import LoopPlan
from ..values.builder import Index
from ..values.lanes import shuffle
from ..values.memory import stored_type
from ..values.scalars import Scalars


@dataclass(frozen=True, eq=False)
class Transposed:
    """The reads of a loop's body that run along group `group` while the lanes run along another."""

    group: int
    rows: int  # points of the group in a tile
    reads: tuple[Node, ...]
    in_registers: bool

    def hold(
        self, e: Emitter, body: Block, across: tuple[int, Index], along: tuple[int, Index]
    ) -> list[dict[Node, ir.Value]]:
        """Reads the square from `across` and `along` (each an index's number and its first value) for every read; gives its rows."""
        side = self.rows
        squares = [
            transpose(Scalars(e.b), [self._row(e, body, node, (across, 0), (along, k), side) for k in range(side)])
            for node in self.reads
        ]
        return [dict(zip(self.reads, rows)) for rows in zip(*squares)]

    def fill(self, e: Emitter, body: Block, across: tuple[int, Index], along: tuple[int, Index], width: int) -> None:
        """Reads the tile of `rows` points from `across` and `width` from `along` (each an index's number and its first
        value) for every read; `e.tiles` then holds them, row after row of `width`."""
        b = e.b
        for node in self.reads:
            stored = stored_type(e.buffers[node.operands[0]].element)
            scratch = b.cached(0, ("tile", node, width), partial(_scratch, e, stored, self.rows * width))
            e.tiles[node] = scratch
            bits = max(8, stored.width)
            side = min(16, width, self.rows, e.target.vector_bits // bits)
            for row in range(0, self.rows, side):
                for column in range(0, width, side):
                    block = [self._row(e, body, node, (across, row), (along, column + k), side) for k in range(side)]
                    for k, vector in enumerate(transpose(Scalars(b), block)):
                        at = b.constant(b.index, (row + k) * width + column)
                        b.op("vector.store", [], [vector, scratch, at])

    def _row(self, e: Emitter, body: Block, node: Node, across: tuple, along: tuple, side: int) -> ir.Value:
        (u, first), row = across
        (v, start), column = along
        e.env[u] = Index(first.base, first.offset + row, 1, first.level, first.multiple)
        e.env[v] = Index(start.base, start.offset + column, 0, start.level, start.multiple)
        e.ix.width = side
        for needed in slice_of(body, node):
            e.emit(Block([], [needed], []))
        buffer = e.buffers[node.operands[0]]
        place = e.memory.place(buffer, [e.index(i) for i in node.operands[1:]], e.symbols)
        e.ix.width = 1
        type_ = ir.VectorType.get([side], buffer.memref.type.element_type)
        return e.b.value("vector.load", type_, [buffer.memref, e.ix.scalar(place)])


def _scratch(e: Emitter, stored: ir.Type, count: int) -> ir.Value:
    """Memory on the stack for `count` elements."""
    segments = ir.DenseI32ArrayAttr.get([0, 0])
    attributes = {"operandSegmentSizes": segments, "alignment": ir.IntegerAttr.get(e.b.i64, 64)}
    return e.b.value("memref.alloca", ir.MemRefType.get([count], stored), [], attributes, 0)


def transpose(s: Scalars, rows: Sequence[ir.Value]) -> list[ir.Value]:
    """The columns of a square of vectors, by log2 rounds of interleaving each with the one half the square away."""
    n = len(rows)
    low = [i // 2 + (i % 2) * n for i in range(n)]
    high = [n // 2 + i for i in low]
    rows = list(rows)
    for _ in range(n.bit_length() - 1):
        pairs = [(rows[i], rows[i + n // 2]) for i in range(n // 2)]
        rows = [shuffle(s, x, y, pattern) for x, y in pairs for pattern in (low, high)]
    return rows


def transposed(block: Block, loop: LoopPlan, tasks: Tasks) -> Transposed | None:
    """The reads that `tasks` says are taken as tiles."""
    if tasks.across < 0:
        return None
    reads = reads_along(block, loop.groups, loop.vector, tasks.across)
    return Transposed(tasks.across, tasks.rows, tuple(reads), tasks.tile == REGISTERS)

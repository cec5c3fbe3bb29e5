"""Reads along another index than the lanes': taken as square tiles, transposed in registers, and kept in scratch memory.

Such a read of 16 lanes touches 16 cache lines for 64 bytes. A tile of 16 x 16 touches the same lines once, whole.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from bascule.dialect.mlir import ir

from .body import Block, Body, Node
from .builder import Index
from .emitter import Emitter
from .memory import stored_type
from .plan import LoopPlan
from .scalars import Scalars
from .transcendental import shuffle

ROWS = 32  # points of the other index in a tile


@dataclass(frozen=True, eq=False)
class Transposed:
    """The reads of a loop's body that run along group `group` while the lanes run along another."""

    group: int
    reads: tuple[Node, ...]

    def fill(self, e: Emitter, body: Block, across: tuple[int, Index], along: tuple[int, Index], width: int) -> None:
        """Reads the tile of `ROWS` points from `across` and `width` from `along` (each an index's number and its first
        value) for every read; `e.tiles` then holds them, row after row of `width`."""
        b = e.b
        for node in self.reads:
            stored = stored_type(e.buffers[node.operands[0]].element)
            scratch = b.cached(0, ("tile", node, width), partial(_scratch, e, stored, ROWS * width))
            e.tiles[node] = scratch
            bits = max(8, stored.width)
            side = min(16, width, ROWS, e.target.vector_bits // bits)
            for row in range(0, ROWS, side):
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


def slice_of(body: Block, node: Node) -> list[Node]:
    """The nodes of `body` that compute the indices of `node`, in order."""
    needed, nodes = set(node.operands[1:]), []
    for other in reversed(body.nodes):
        if needed & set(other.results):
            needed.update(other.operands)
            nodes.append(other)
    return nodes[::-1]


def transposed_reads(body: Body, block: Block, loop: LoopPlan) -> Transposed | None:
    """The reads worth a tile: at the top of the loop's body, along one group with stride 1, and not so along the lanes."""
    if loop.vector < 0:
        return None
    lane = block.arguments[loop.groups[loop.vector][-1]]
    found: dict[int, list[Node]] = {}
    for node in block.nodes:
        if node.address is None or not node.results or node.address.get(lane, 0) in (0, 1):
            continue
        if any(other.name not in ("affine.apply", "arith.constant") for other in slice_of(block, node)):
            continue
        for g, group in enumerate(loop.groups):
            if g != loop.vector and node.address.get(block.arguments[group[-1]]) == 1:
                found.setdefault(g, []).append(node)
    if not found:
        return None
    most = max(found, key=lambda g: len(found[g]))
    return Transposed(most, tuple(found[most]))

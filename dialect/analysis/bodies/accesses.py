"""Where each access of a loop nest goes: the element offset as a sum of steps along the loops' indices."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...ir.memory_ops import StoreOp
from ...ir.shapes import layout_of
from ...ir.types import byte_width
from ...mlir import ir
from ..affine.indexing import Indexing
from ..affine.linear_forms import Step, linear, product
from .backward_slice import captured
from .body_summary import magnitude, sizes_of

LOOPS = ("bascule.reduce", "bascule.foreach", "bascule.compute", "bascule.scan")
# Operation -> its first operand that is an index; the buffer stands before it.
READS = {"tensor.extract": 1, "memref.load": 1}
ACCESSES = {**READS, StoreOp.OPERATION_NAME: 2}


@dataclass(frozen=True, eq=False)
class Access:
    """One read or store. `loops`: the ops it is inside of, outermost first; `times`: their points, those of the first left out.

    `steps`: the elements from one place to the next along each index that the offset is linear in; `opaque`: the indices it also varies
    with, by a quotient, a remainder, or through data.
    """

    op: ir.Operation
    loops: tuple[ir.Operation, ...]
    times: int
    steps: dict[ir.Value, Step]
    opaque: frozenset[ir.Value]

    @property
    def stores(self) -> bool:
        return self.op.name == StoreOp.OPERATION_NAME

    @property
    def buffer(self) -> ir.Value:
        return self.op.operands[ACCESSES[self.op.name] - 1]

    @property
    def width(self) -> int:
        """Bytes of an element."""
        return byte_width(self.buffer.type.element_type)

    def adjacent(self, index: ir.Value) -> bool:
        """Whether neighbours along `index` are next to each other in memory."""
        return index not in self.opaque and self.steps.get(index) == 1

    def varies(self, index: ir.Value) -> bool:
        return index in self.steps or index in self.opaque

    def flat(self, outer: ir.Value, inner: ir.Value, extent: ir.AffineExpr) -> bool:
        """Whether `outer * extent + inner` is all that the offset needs of the two; `extent` is the size of `inner`."""
        if outer in self.opaque or inner in self.opaque:
            return False
        return product(self.steps.get(inner, 0), extent) == self.steps.get(outer, 0)


def accesses_of(loop: ir.Operation, indexing: Indexing) -> list[Access]:
    """The accesses inside of `loop` (a kernel, a foreach) to its function's arguments and destinations, in program order."""
    indexing.enter(loop)
    return list(_visit(loop.regions[0].blocks[0], (loop,), 1, indexing))


def _visit(block: ir.Block, loops: tuple[ir.Operation, ...], times: int, indexing: Indexing) -> Iterator[Access]:
    for view in block.operations:
        op = view.operation
        if op.name in ACCESSES:
            first = ACCESSES[op.name]
            if not _is_row(op.operands[first - 1]):
                yield _access(op, loops, times, indexing)
        inner, points = loops, times
        if op.name in LOOPS:
            indexing.enter(op)
            inner, points = (*loops, op), times * magnitude(sizes_of(op))
        for region in op.regions:
            for nested in region.blocks:
                yield from _visit(nested, inner, points, indexing)


def _is_row(source: ir.Value) -> bool:
    """Whether `source` is a row kept near the processor, no memory."""
    return not isinstance(source.owner, ir.Block) and source.owner.name in ("bascule.compute", "bascule.scan")


def _access(op: ir.Operation, loops: tuple[ir.Operation, ...], times: int, indexing: Indexing) -> Access:
    first = ACCESSES[op.name]
    layout = layout_of(op.operands[first - 1].type)
    ((expression, bases),) = indexing.at(layout, list(op.operands)[first:])
    steps, opaque = linear(expression)
    return Access(
        op, loops, times, {bases[d]: e for d, e in steps.items()}, frozenset(_sources([bases[d] for d in opaque]))
    )


def _sources(values: Sequence[ir.Value]) -> Iterator[ir.Value]:
    """The values, and the loop indices that those which come from data depend on."""
    seen: set[ir.Value] = set()
    todo = list(values)
    while todo:
        value = todo.pop()
        if value in seen:
            continue
        seen.add(value)
        yield value
        if not isinstance(value.owner, ir.Block):
            op = value.owner.operation
            todo += captured(op) if op.name.startswith("scf.") else list(op.operands)
        elif (parent := value.owner.owner.operation).name in ("scf.for", "scf.while"):
            todo += captured(parent)

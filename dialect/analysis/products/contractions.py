"""Contractions: sums of products of two operands, each of which depends on some of the indices around and on what is summed over."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...ir.regions import end_of
from ...ir.shapes import constant
from ...mlir import ir
from ..bodies.backward_slice import needed
from ..bodies.body_summary import Access
from ..bodies.body_tree import ACCESSES, Node

NARROW = (ir.BF16Type, ir.F16Type)


@dataclass(frozen=True)
class Operand:
    """One factor: the value that is multiplied, before it is widened, and the accesses that it is computed from."""

    value: ir.Value
    accesses: tuple[Access, ...]

    @property
    def element(self) -> ir.Type:
        return self.value.type

    def varies(self, index: int) -> bool:
        return any(access.form.varies(index) for access in self.accesses)

    def adjacent(self, index: int) -> bool:
        """Whether memory runs along `index`, where it depends on it."""
        return any(access.form.adjacent(index) for access in self.accesses)

    def reads(self, indices: Mapping[int, int]) -> set[tuple]:
        """The buffers that are read, and how each place depends on indices, under the numbers that `indices` has for them."""
        return {
            (
                access.buffer,
                frozenset((indices.get(n, n), step) for n, step in access.form.steps.items()),
                frozenset(indices.get(n, n) for n in access.form.opaque),
            )
            for access in self.accesses
        }


@dataclass(frozen=True)
class Contraction:
    """`loop` sums x * y over all of its indices. Of the indices around it, as positions among them: `batch` both operands depend on, `rows` x
    alone, `columns` y alone; those of size 1 are of the batch."""

    loop: Node
    x: Operand
    y: Operand
    batch: tuple[int, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]

    def reads_as(self, other: "Contraction", indices: Mapping[int, int]) -> bool:
        """Whether both multiply the same elements, those of the same numbers under `indices`, which has other's for this one's around."""
        own = {**indices, **dict(zip(self.loop.indices, other.loop.indices))}
        sides = [(self.x, other.x), (self.y, other.y)]
        return all(one.element == two.element and one.reads(own) == two.reads({}) for one, two in sides)

    def swapped(self) -> "Contraction":
        """The same, with the operands exchanged."""
        return Contraction(self.loop, self.y, self.x, self.batch, self.columns, self.rows)


def contraction_of(
    loop: Node,
    indices: Sequence[int],
    sizes: Sequence[ir.AffineExpr],
    accesses: Sequence[Access],
    factors: tuple[ir.Value, ir.Value] | None = None,
) -> Contraction | None:
    """The contraction that `loop`, at the points of `indices` of `sizes`, is; None if it is something else. `accesses`: those of the domain,
    with their forms; `factors`: of what it sums, where it is cut."""
    if loop.name != "bascule.reduce" or loop.kinds != ["sum"] or loop.inner_loops():
        return None
    factors = factors or factors_of(loop.op)
    if factors is None:
        return None
    x, y = (operand_of(value, loop, accesses) for value in factors)
    if x is None or y is None or x.element != y.element or not isinstance(x.element, ir.FloatType):
        return None
    if not all(any(map(operand.varies, loop.indices)) for operand in (x, y)):
        return None
    batch, rows, columns = [], [], []
    for place, (index, size) in enumerate(zip(indices, sizes)):
        match constant(size) != 1 and x.varies(index), constant(size) != 1 and y.varies(index):
            case True, False:
                rows.append(place)
            case False, True:
                columns.append(place)
            case _:
                batch.append(place)
    return Contraction(loop, x, y, tuple(batch), tuple(rows), tuple(columns))


def operand_of(value: ir.Value, loop: Node, accesses: Sequence[Access]) -> Operand | None:
    """The factor `value` of what `loop` sums; None where it is computed of something else than reads in the loop."""
    return Operand(value, _accesses(value, loop, accesses)) if _comes_from_memory(value, loop.op) else None


def factors_of(reduce: ir.Operation) -> tuple[ir.Value, ir.Value] | None:
    """The factors of the products that `reduce` sums, before they are widened to the sum's type; None where it sums something else."""
    wide = _multiplied(reduce)
    if wide is None:
        return None
    x, y = map(before_widening, wide)
    return (x, y) if x.type == y.type else wide


def factor(reduce: ir.Operation, number: int) -> ir.Value | None:
    """Factor 0 or 1 of the products that `reduce` sums, before it is widened; None where it sums something else."""
    wide = _multiplied(reduce)
    return None if wide is None else before_widening(wide[number])


def _multiplied(reduce: ir.Operation) -> tuple[ir.Value, ir.Value] | None:
    (term, *others) = end_of(reduce.regions[0].blocks[0]).operands
    if others or isinstance(term.owner, ir.Block) or term.owner.name != "arith.mulf":
        return None
    x, y = term.owner.operands
    return x, y


def before_widening(value: ir.Value) -> ir.Value:
    """A value of 16 bits that `value` is the same number as; else `value`."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "arith.extf":
        return value
    (source,) = owner.operands
    return source if isinstance(source.type, NARROW) else value


def _comes_from_memory(value: ir.Value, reduce: ir.Operation) -> bool:
    """Whether a factor is computed of what is read in the loop and of constants alone: so its reads tell what it depends on."""
    block = reduce.regions[0].blocks[0]
    slice_ = needed([value], block).ops
    for op in slice_:
        if len(op.regions):
            return False
        indexes = op.name in ACCESSES or op.name == "affine.apply"
        for operand in op.operands:
            is_index = isinstance(operand.type, ir.IndexType)
            if is_index and not indexes:
                return False
            inside = not isinstance(operand.owner, ir.Block) and operand.owner.operation in slice_
            if not (inside or is_index or _is_buffer(operand) or _is_constant(operand)):
                return False
    return bool(slice_)


def _is_buffer(value: ir.Value) -> bool:
    return isinstance(value.type, ir.RankedTensorType | ir.MemRefType)


def _is_constant(value: ir.Value) -> bool:
    return not isinstance(value.owner, ir.Block) and value.owner.name == "arith.constant"


def _accesses(value: ir.Value, loop: Node, accesses: Sequence[Access]) -> tuple[Access, ...]:
    ops = set(needed([value], loop.op.regions[0].blocks[0]).ops)
    return tuple(a for a in accesses if a.op in ops and a.node.name in ACCESSES)

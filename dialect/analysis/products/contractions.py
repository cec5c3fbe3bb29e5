"""Contractions: sums of products of two operands, each of which depends on some of the indices around and on what is summed over."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...ir.attribute_names import INPUT_PRECISION, PARTIAL_SUMS, TAIL
from ...ir.regions import end_of
from ...ir.shapes import constant
from ...mlir import ir
from ..bodies.body_summary import Access
from ..bodies.body_tree import ACCESSES, Node

NARROW = (ir.BF16Type, ir.F16Type)
FLOAT8 = (ir.Float8E4M3FNType, ir.Float8E5M2Type)
WIDENINGS = ("arith.extf", "arith.extsi")
WHOLE = 1 << 30  # elements of sums that are partial from end to end
TF32 = "tf32"  # floats of 32 bits of which 10 of the fraction are left


@dataclass(frozen=True)
class Operand:
    """One factor: the value that is multiplied, before it is widened, and the accesses that it is computed from."""

    value: ir.Value
    accesses: tuple[Access, ...]

    @property
    def element(self) -> ir.Type:
        return self.value.type

    @property
    def is_computed(self) -> bool:
        """Whether it is no element as it is in memory."""
        return len(self.accesses) != 1 or self.value.owner != self.accesses[0].op

    def varies(self, index: int) -> bool:
        return any(access.form.varies(index) for access in self.accesses)

    def adjacent(self, index: int) -> bool:
        """Whether memory runs along `index`, where it depends on it."""
        return any(access.form.adjacent(index) for access in self.accesses)

    def reads(self, indices: Mapping[int, int]) -> set[tuple]:
        """The buffers that are read, from where on, and how each place depends on indices, under the numbers that `indices` has for them."""
        return {
            (
                access.buffer,
                str(access.form.start),
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

    @property
    def is_partial(self) -> bool:
        """Whether sums of some elements are added up apart."""
        return PARTIAL_SUMS in self.loop.op.attributes and self.loop.op.attributes[PARTIAL_SUMS].value < WHOLE

    @property
    def is_exact(self) -> bool:
        """Whether factors of f32 are multiplied as they are, which no tensor core does."""
        return isinstance(self.x.element, ir.F32Type) and not is_tf32(self.loop.op)

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
    if x is None or y is None or not are_multiplied(x.element, y.element):
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
    """The factor `value` of what `loop` sums; None where it is computed of something else than reads in the loop and before it."""
    ops = _made_of_reads(value, loop.op)
    return Operand(value, tuple(a for a in accesses if a.op in ops and a.node.name in ACCESSES)) if ops else None


def are_multiplied(x: ir.Type, y: ir.Type) -> bool:
    """Whether there is a product of elements of these types: floats of one type, or two of 8 bits; integers of 8 bits, summed in 32."""
    if isinstance(x, FLOAT8) and isinstance(y, FLOAT8):
        return True
    return x == y and (isinstance(x, ir.FloatType) or _is_byte(x))


def factors_of(reduce: ir.Operation) -> tuple[ir.Value, ir.Value] | None:
    """The factors of the products that `reduce` sums, before they are widened to the sum's type; None where it sums something else."""
    wide = _multiplied(reduce)
    if wide is None:
        return None
    x, y = (before_widening(value, PARTIAL_SUMS in reduce.attributes) for value in wide)
    return (x, y) if are_multiplied(x.type, y.type) else wide


def factor(reduce: ir.Operation, number: int) -> ir.Value | None:
    """Factor 0 or 1 of the products that `reduce` sums, before it is widened; None where it sums something else."""
    wide = _multiplied(reduce)
    return None if wide is None else before_widening(wide[number], PARTIAL_SUMS in reduce.attributes)


def is_tf32(reduce: ir.Operation) -> bool:
    """Whether factors of f32 may be rounded to TF32 before they are multiplied."""
    return INPUT_PRECISION in reduce.attributes and reduce.attributes[INPUT_PRECISION].value == TF32


def _multiplied(reduce: ir.Operation) -> tuple[ir.Value, ir.Value] | None:
    (term, *others) = end_of(reduce.regions[0].blocks[0]).operands
    if others or isinstance(term.owner, ir.Block) or term.owner.name not in ("arith.mulf", "arith.muli"):
        return None
    x, y = term.owner.operands
    return x, y


def before_widening(value: ir.Value, partial: bool = False) -> ir.Value:
    """A value of 16 bits, or an integer of 8, that `value` is the same number as; else `value`. A float of 8 bits too where sums may be
    `partial`: tensor cores keep sums of their products in fewer bits than f32 has."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name not in WIDENINGS:
        return value
    (source,) = owner.operands
    wide = isinstance(value.type, ir.IntegerType) and value.type.width == 32
    narrow = (*NARROW, *FLOAT8) if partial else NARROW
    return source if isinstance(source.type, narrow) or (wide and _is_byte(source.type)) else value


def _is_byte(type_: ir.Type) -> bool:
    return isinstance(type_, ir.IntegerType) and type_.width == 8


def _made_of_reads(value: ir.Value, reduce: ir.Operation) -> set[ir.Operation]:
    """The ops that a factor is computed by, from what is read in the loop or before it, and from constants: so its reads tell what it depends
    on. No op where it is computed from something else, or before the loop. An index may come from data, as a row's by a table."""
    block, ops, todo = reduce.regions[0].blocks[0], set[ir.Operation](), [value]
    while todo:
        owner = todo.pop().owner
        if isinstance(owner, ir.Block) or len(owner.operation.regions):
            return set()
        op = owner.operation
        if op in ops:
            continue
        ops.add(op)
        for operand in op.operands:
            inside = not isinstance(operand.owner, ir.Block) and operand.owner.operation.block == block
            if isinstance(operand.type, ir.IndexType):
                plain = op.name in (*ACCESSES, "affine.apply") or TAIL in op.attributes
                if not plain and _is_of_indices(operand):
                    return set()
                todo += [operand] if inside else []
            elif not _is_buffer(operand):
                todo.append(operand)
    return ops if any(op.block == block for op in ops) else set()


def _is_of_indices(value: ir.Value) -> bool:
    """Whether an index is one of a loop's, or computed of such."""
    return isinstance(value.owner, ir.Block) or value.owner.name == "affine.apply" or TAIL in value.owner.attributes


def _is_buffer(value: ir.Value) -> bool:
    return isinstance(value.type, ir.RankedTensorType | ir.MemRefType)

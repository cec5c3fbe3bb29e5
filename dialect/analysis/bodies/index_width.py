"""The largest integers that a kernel's index arithmetic meets: what decides how many bits its indices have.

Sums and products may wrap on the way to an offset that fits: modulo 2**32 they come out right. So what counts is offsets and positions, and
every integer that is divided, compared or becomes data.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce

from ...ir.attributes import literal
from ...ir.shapes import constant, expr, layout_of, shape_of, symbol_count
from ...mlir import ir
from ..affine.affine_forms import Atoms, from_expr, to_expr
from ..affine.indexing import Index, Indexing
from .body_tree import ACCESSES, LOOPS, POSITIONS, sizes_of


@dataclass(frozen=True)
class Reach:
    """No index, offset or position is larger than the largest of `static` and of `dynamic`, expressions of the function's symbols."""

    static: int
    dynamic: list[ir.AffineExpr]


def reach_of(kernel: ir.Operation, indexing: Indexing) -> Reach | None:
    """The reach of a kernel, None if it is not known. Every loop in it has been passed to `indexing.enter`."""
    found: dict[ir.AffineExpr, None] = {}
    atoms = Atoms()  # equal sums are one
    for number in range(len(indexing.symbols)):
        found[ir.AffineExpr.get_symbol(number)] = None
    for bound in _bounds(kernel, indexing):
        if bound is None:
            return None
        found[to_expr(from_expr(bound, atoms), atoms)] = None
    known = [constant(bound) for bound in found]
    largest = max((number for number in known if number is not None), default=0)
    return Reach(largest, [bound for bound, number in zip(found, known) if number is None])


def _bounds(op: ir.Operation, indexing: Indexing) -> Iterator[ir.AffineExpr | None]:
    """Of everything in `op`, a kernel or what is inside of one."""
    if "ranges" in op.attributes and (op.name in LOOPS or op.name == "bascule.kernel"):
        yield _points(op)
    if op.name in ACCESSES:
        first = ACCESSES[op.name]
        buffer, *indices = list(op.operands)[first - 1 :]
        if isinstance(buffer.owner, ir.Block) or buffer.owner.name not in LOOPS:
            layout = layout_of(buffer.type)
            yield _span(buffer, layout)
            yield from _divided(indexing.at(layout, indices)[0], indexing)
        else:
            for value in indices:
                yield from _divided(indexing.resolve(value), indexing)
    elif op.name != "affine.apply":
        for value in op.operands:
            if isinstance(value.type, ir.IndexType) and value not in indexing.symbols:
                index = indexing.resolve(value)
                if index[1] != (value,):  # a loop's index, or one that was in 32 bits before
                    yield _bound(index[0], _extents(index, indexing))
                    yield from _divided(index, indexing)
    for region in op.regions:
        for block in region.blocks:
            for view in block.operations:
                yield from _bounds(view.operation, indexing)


def _points(loop: ir.Operation) -> ir.AffineExpr:
    return reduce(lambda points, size: expr(points * size), sizes_of(loop), expr(1))


def _span(buffer: ir.Value, layout: ir.AffineMap) -> ir.AffineExpr | None:
    """One more than the offset of the last element, or a little more."""
    if not isinstance(buffer.type, ir.RankedTensorType) and not buffer.type.has_static_shape:
        return None  # in the program stage
    sizes = shape_of(buffer)
    if any(constant(size) == 0 for size in sizes):
        return expr(0)
    ends = [expr(size - 1) for size in sizes]
    last = layout.results[0].compose(ir.AffineMap.get(0, symbol_count(ends), ends))
    return expr(expr(last) + 1)


def _extents(index: Index, indexing: Indexing) -> list[ir.AffineExpr | None]:
    extents = [indexing.extent(value) for value in index[1]]
    return [_computed(value) if extent is None else expr(extent) for value, extent in zip(index[1], extents)]


def _computed(value: ir.Value) -> ir.AffineExpr | None:
    """One more than the largest number that an index is which is the position of a largest or smallest element, or clamped; None for another."""
    op = value.owner
    if isinstance(op, ir.Block):
        return None
    if op.name == "arith.index_cast" and not isinstance(op.operands[0].owner, ir.Block):
        loop = op.operands[0].owner
        if "kind" in loop.attributes and loop.attributes["kind"].value in POSITIONS:
            return _points(loop)
    if op.name == "arith.minsi":
        most = next((number for operand in op.operands if (number := literal(operand)) is not None), -1)
        least = [operand.owner for operand in op.operands if not isinstance(operand.owner, ir.Block)]
        if most >= 0 and any(literal(x) == 0 for each in least if each.name == "arith.maxsi" for x in each.operands):
            return expr(most + 1)
    return None


def _divided(index: Index, indexing: Indexing) -> Iterator[ir.AffineExpr | None]:
    """Bounds of what is divided in an index."""
    extents = _extents(index, indexing)
    todo = [index[0]]
    while todo:
        e = todo.pop().maybe_downcast()
        if isinstance(e, ir.AffineBinaryExpr):
            if isinstance(e, ir.AffineModExpr | ir.AffineFloorDivExpr | ir.AffineCeilDivExpr):
                yield _bound(e.lhs, extents)
                yield _bound(e.rhs, extents)
            todo += [e.lhs, e.rhs]


def _bound(e: ir.AffineExpr, extents: list[ir.AffineExpr | None]) -> ir.AffineExpr | None:
    """An upper bound of an index's magnitude, where its dims are below `extents`; None if one of those is not known."""
    e = e.maybe_downcast()
    if isinstance(e, ir.AffineConstantExpr):
        return expr(abs(e.value))
    if isinstance(e, ir.AffineSymbolExpr):
        return e
    if isinstance(e, ir.AffineDimExpr):
        extent = extents[e.position]
        return None if extent is None else expr(extent - 1)
    left, right = _bound(e.lhs, extents), _bound(e.rhs, extents)
    if left is None or right is None:
        return None
    if isinstance(e, ir.AffineAddExpr):
        return expr(left + right)
    if isinstance(e, ir.AffineMulExpr):
        return expr(left * right)
    if isinstance(e, ir.AffineModExpr):
        return right
    divisor = constant(right)
    return left if divisor is None else expr(ir.AffineExpr.get_ceil_div(left, expr(divisor)))

"""Grouped products as computes: the group of a row is a count of the offsets up to it, the sums of a group go from one offset to the next.

Offsets that are checked are a compute of their own, which is in memory: an assertion is a call, and around a call `wgmma` instructions wait for
each other.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ...analysis.memory.matmul_operands import runs_along
from ...analysis.products.grouped_products import GroupedProduct, GroupedSums
from ...ir import builders
from ...ir.functions import CHECKED, STORED
from ...ir.shapes import expr, shape_of, tensor_type
from ...ir.types import rounding_mode
from ...mlir import arith, ir
from .grouped_uses import Columns

FROM, BEFORE, UP_TO = arith.CmpIPredicate.sge, arith.CmpIPredicate.slt, arith.CmpIPredicate.sle


@dataclass(frozen=True)
class GroupedBodies:
    """Makes the computes at the insertion point. `rounds`: no pass removes their roundings; `checked`: offsets that are out of range are
    refused; `tf32`: factors of f32 are rounded to TF32."""

    rounds: bool
    checked: bool
    tf32: bool = False

    def of_rows(self, product: GroupedProduct, columns: Columns) -> ir.Value:
        """A product's `columns`."""
        sizes, element = [shape_of(product.x)[0], expr(columns.count)], product.result.type.element_type
        type_ = product.result.type if columns.value == product.result else tensor_type(sizes, element)
        ends = self._ends(product.offsets, product.sizes[0])
        place = ir.AffineMap.get(1, 0, [ir.AffineExpr.get_dim(0) + columns.first])

        def body(at: list[ir.Value]) -> ir.Value:
            row, column = at
            return self._rounded(_of_row(product, row, builders.apply(place, [column], [])[0], ends), element)

        return builders.compute(type_, sizes, body)

    def of_sums(self, product: GroupedSums) -> ir.Value:
        """A product whose sums are in groups."""
        type_, (_, inner, *_) = product.result.type, product.sizes
        f32, element = ir.F32Type.get(), product.x.type.element_type
        none, turned = arith.constant(element, 0.0), self.tf32 and element == f32
        x, y = _one_along(product) if turned else (product.x, product.y)
        ends = self._ends(product.offsets, inner)

        def body(at: list[ir.Value]) -> ir.Value:
            group, row, column = at
            first = _before(ends, group)
            end = _end(ends, group, first)

            def term(place: list[ir.Value]) -> ir.Value:
                (k,) = place
                inside = arith.andi(arith.cmpi(FROM, k, first), arith.cmpi(BEFORE, k, end))
                factors = builders.read(x, [row, k]), builders.read(y, [k, column])
                chosen = [arith.select(inside, factor, none) for factor in factors]
                return arith.mulf(*map(_wide, chosen))

            return self._rounded(builders.reduce("sum", [expr(inner)], f32, term)[0], type_.element_type)

        return builders.compute(type_, [expr(size) for size in type_.shape], body)

    def _ends(self, offsets: ir.Value, last: int) -> "Ends":
        """Where the groups of `last` rows in all end; where offsets are to be checked, in memory, each at the one before or after."""
        ends = Ends(offsets, last)
        if not self.checked:
            return ends

        def body(at: list[ir.Value]) -> ir.Value:
            (group,) = at
            end = _end(ends, group, _before(ends, group))
            end.owner.attributes[CHECKED] = ir.UnitAttr.get()
            return arith.index_cast(offsets.type.element_type, end)

        made = builders.compute(tensor_type(shape_of(offsets), offsets.type.element_type), shape_of(offsets), body)
        made.owner.attributes[STORED] = ir.UnitAttr.get()
        return Ends(made, last)

    def _rounded(self, value: ir.Value, element: ir.Type) -> ir.Value:
        return value if value.type == element else arith.truncf(element, value, **rounding_mode(kept=self.rounds))


def _one_along(product: GroupedSums) -> tuple[ir.Value, ir.Value]:
    """The factors of sums in TF32, one of which has its neighbours along the sum next to each other in memory, the smaller one by a copy if
    neither has: tensor cores take that from shared memory, the other from registers. A program that turns each piece of one in shared memory
    takes several times as long."""
    x, y = product.x, product.y
    if runs_along(x, 1) or runs_along(y, 0):
        return x, y
    rows, _, columns, _ = product.sizes
    return (_along(x, 1), y) if rows < columns else (x, _along(y, 0))


def _along(matrix: ir.Value, dim: int) -> ir.Value:
    """A copy of a matrix, in which neighbours along `dim` are next to each other."""
    sizes, steps = list(matrix.type.shape), [1, 1]
    steps[1 - dim] = sizes[dim]
    type_ = tensor_type(sizes, matrix.type.element_type, steps)
    copy = builders.compute(type_, sizes, lambda at: builders.read(matrix, at))
    copy.owner.attributes[STORED] = ir.UnitAttr.get()
    return copy


def _wide(factor: ir.Value) -> ir.Value:
    f32 = ir.F32Type.get()
    return factor if factor.type == f32 else arith.extf(f32, factor)


@dataclass(frozen=True)
class Ends:
    """Where groups end, numbers in memory, of `last` rows in all."""

    offsets: ir.Value
    last: int


def _of_row(product: GroupedProduct, row: ir.Value, column: ir.Value, ends: Ends) -> ir.Value:
    """The sum of row `row` by its group's matrix at `column`; 0 of a row after the last group."""
    index, f32 = ir.IndexType.get(), ir.F32Type.get()
    groups = product.sizes[3]
    number = _ends_before(row, groups, ends)
    last = arith.minsi(arith.index_cast(index, number), arith.constant(index, groups - 1))

    def term(at: list[ir.Value]) -> ir.Value:
        factors = builders.read(product.x, [row, *at]), builders.read(product.w, [last, *at, column])
        return arith.mulf(*map(_wide, factors))

    (total,) = builders.reduce("sum", [shape_of(product.x)[1]], f32, term)
    inside = arith.cmpi(BEFORE, number, arith.constant(number.type, groups))
    return arith.select(inside, total, arith.constant(f32, 0.0))


def _ends_before(row: ir.Value, groups: int, ends: Ends) -> ir.Value:
    """How many of `groups` end at or before `row`."""
    i32 = ir.IntegerType.get_signless(32)
    zero = _number(0)

    def is_before(at: Sequence[ir.Value]) -> ir.Value:
        return arith.extui(i32, arith.cmpi(UP_TO, _end(ends, at[0], zero), row))

    return builders.reduce("sum", [expr(groups)], i32, is_before)[0]


def _before(ends: Ends, group: ir.Value) -> ir.Value:
    """Where `group` begins: the group before ends there."""
    zero = _number(0)
    before = arith.maxsi(arith.subi(group, _number(1)), zero)
    is_first = arith.cmpi(arith.CmpIPredicate.eq, group, zero)
    return arith.select(is_first, zero, _end(ends, before, zero))


def _end(ends: Ends, group: ir.Value, first: ir.Value) -> ir.Value:
    """Where `group` ends, in [first, last]."""
    offset = arith.index_cast(ir.IndexType.get(), builders.read(ends.offsets, [group]))
    return arith.minsi(arith.maxsi(offset, first), _number(ends.last))


def _number(value: int) -> ir.Value:
    return arith.constant(ir.IndexType.get(), value)

"""Grouped products as computes: the group of a row is a count of the offsets up to it, the sums of a group go from one offset to the next."""

from collections.abc import Sequence
from dataclasses import dataclass

from ...analysis.products.grouped_products import GroupedProduct, GroupedSums
from ...ir import builders
from ...ir.functions import CHECKED
from ...ir.shapes import expr, shape_of, tensor_type
from ...ir.types import rounding_mode
from ...mlir import arith, ir
from .grouped_uses import Columns

FROM, BEFORE, UP_TO = arith.CmpIPredicate.sge, arith.CmpIPredicate.slt, arith.CmpIPredicate.sle


@dataclass(frozen=True)
class GroupedBodies:
    """Makes the computes at the insertion point. `rounds`: no pass removes their roundings; `checked`: offsets that are out of range are
    refused."""

    rounds: bool
    checked: bool

    def of_rows(self, product: GroupedProduct, columns: Columns) -> ir.Value:
        """A product's `columns`."""
        sizes, element = [shape_of(product.x)[0], expr(columns.count)], product.result.type.element_type
        type_ = product.result.type if columns.value == product.result else tensor_type(sizes, element)
        place = ir.AffineMap.get(1, 0, [ir.AffineExpr.get_dim(0) + columns.first])

        def body(at: list[ir.Value]) -> ir.Value:
            row, column = at
            return self._rounded(self._of_row(product, row, builders.apply(place, [column], [])[0]), element)

        return builders.compute(type_, sizes, body)

    def of_sums(self, product: GroupedSums) -> ir.Value:
        """A product whose sums are in groups."""
        type_, (_, inner, *_) = product.result.type, product.sizes
        f32, none = ir.F32Type.get(), arith.constant(product.x.type.element_type, 0.0)

        def body(at: list[ir.Value]) -> ir.Value:
            group, row, column = at
            first, end = self._ends(product, group)

            def term(place: list[ir.Value]) -> ir.Value:
                (k,) = place
                inside = arith.andi(arith.cmpi(FROM, k, first), arith.cmpi(BEFORE, k, end))
                factors = builders.read(product.x, [row, k]), builders.read(product.y, [k, column])
                chosen = [arith.select(inside, factor, none) for factor in factors]
                return arith.mulf(*map(_wide, chosen))

            return self._rounded(builders.reduce("sum", [expr(inner)], f32, term)[0], type_.element_type)

        return builders.compute(type_, [expr(size) for size in type_.shape], body)

    def _of_row(self, product: GroupedProduct, row: ir.Value, column: ir.Value) -> ir.Value:
        """The sum of row `row` by its group's matrix at `column`; 0 of a row after the last group."""
        index, f32 = ir.IndexType.get(), ir.F32Type.get()
        groups, number = product.sizes[3], self._ends_before(product, row)
        last = arith.minsi(arith.index_cast(index, number), arith.constant(index, groups - 1))

        def term(at: list[ir.Value]) -> ir.Value:
            factors = builders.read(product.x, [row, *at]), builders.read(product.w, [last, *at, column])
            return arith.mulf(*map(_wide, factors))

        (total,) = builders.reduce("sum", [shape_of(product.x)[1]], f32, term)
        inside = arith.cmpi(BEFORE, number, arith.constant(number.type, groups))
        return arith.select(inside, total, arith.constant(f32, 0.0))

    def _ends_before(self, product: GroupedProduct, row: ir.Value) -> ir.Value:
        """How many of the offsets are at most `row`."""
        i32 = ir.IntegerType.get_signless(32)
        zero = _number(0)

        def is_before(at: Sequence[ir.Value]) -> ir.Value:
            end = self._between(_offset(product.offsets, *at), zero, product.sizes[0])
            return arith.extui(i32, arith.cmpi(UP_TO, end, row))

        return builders.reduce("sum", [expr(product.sizes[3])], i32, is_before)[0]

    def _ends(self, product: GroupedSums, group: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Where the sums of a group begin and end."""
        zero, inner = _number(0), product.sizes[1]
        before = arith.maxsi(arith.subi(group, _number(1)), zero)
        above = arith.minsi(arith.maxsi(_offset(product.offsets, before), zero), _number(inner))
        first = arith.select(arith.cmpi(arith.CmpIPredicate.eq, group, zero), zero, above)
        return first, self._between(_offset(product.offsets, group), first, inner)

    def _between(self, offset: ir.Value, first: ir.Value, last: int) -> ir.Value:
        """`offset` moved into [first, last]."""
        inside = arith.minsi(arith.maxsi(offset, first), _number(last))
        if self.checked:
            inside.owner.attributes[CHECKED] = ir.UnitAttr.get()
        return inside

    def _rounded(self, value: ir.Value, element: ir.Type) -> ir.Value:
        return value if value.type == element else arith.truncf(element, value, **rounding_mode(kept=self.rounds))


def _wide(factor: ir.Value) -> ir.Value:
    f32 = ir.F32Type.get()
    return factor if factor.type == f32 else arith.extf(f32, factor)


def _number(value: int) -> ir.Value:
    return arith.constant(ir.IndexType.get(), value)


def _offset(offsets: ir.Value, group: ir.Value) -> ir.Value:
    return arith.index_cast(ir.IndexType.get(), builders.read(offsets, [group]))

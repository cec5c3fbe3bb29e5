"""The pass `expand-grouped-products`: grouped products, as of a mixture of experts, become computes with what reads them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from ...analysis.products.grouped_products import GroupedProduct, grouped_product
from ...fusion.joined_products import seen
from ...ir import builders
from ...ir.attribute_names import FUSED
from ...ir.functions import CHECKED, STORED, graph_functions, replace_extern_calls
from ...ir.shapes import expr, shape_of, tensor_type
from ...ir.types import to_nearest_even
from ...mlir import arith, ir
from ...remarks.attribute import add_remark, place
from ...remarks.record import MISSED, PASSED, Remark
from ...scheduling.gpu.contractions import LEAST
from ...scheduling.gpu.machine import H200
from ..base import VALUES, Pass, check_target
from ..graph_walk import GraphWalk
from .grouped_uses import Columns, GroupedUse, joined_grouped, use_of, whole_use
from .pointwise_tails import laid

SINCE, DESCRIBED = 80, 90  # the compute capabilities of tensor cores that multiply bf16, and of tensor descriptors


@dataclass(frozen=True)
class ExpandGroupedProducts(Pass):
    """Takes the tensor stage as `torch-to-bascule` leaves it. On `target` cuda calls of `aten._grouped_mm` of rows that are in groups (2 dims by
    3, f16 or bf16, static sizes, offsets, no bias) become computes for tensor cores: element (m, n) is the sum over k of
    `x[m, k] * w[g, k, n]`, where g is a count of the offsets that are at most m. What reads it pointwise, at its own element or at that of one
    half of its columns, goes along.

    They do from `capability` 90 on, where pointwise computes alone read the result, and

    - two of one matrix and the same offsets, or the two halves of the columns of one, meet in one of these computes, as in
      `silu(x @ w[g]) * (x @ v[g])`; or
    - writing and reading the result is estimated to take longer than a kernel loses by the product, beside ATen's;

    with a tile for each of `sm-count` multiprocessors and, of each group, rows for several tiles on average. With `always` all do, from 80 on.

    Sums are in f32 and rounded once. Rows after the last offset are zeros before what reads them (in eager they are not written). With
    `index-asserts` kernels assert that offsets are no rows beyond the last, and do not decrease. What stays a call has a remark that says why.
    """

    name: ClassVar[str] = "expand-grouped-products"
    takes: ClassVar[str] = VALUES
    target: str = "cpu"
    numerics: str = "f32"
    always: bool = False
    index_asserts: bool = False
    sm_count: int = H200.sm_count
    capability: int = H200.capability

    def run(self, module: ir.Module) -> None:
        check_target(self.name, self.target)
        if self.target == "cpu" or self.capability < SINCE:
            return
        with module.context:
            for graph in graph_functions(module):
                for call in joined_grouped(module, GraphWalk(graph).ops):
                    call.attributes[FUSED] = ir.UnitAttr.get()
            replace_extern_calls(module, self._expand)

    def _use(self, product: GroupedProduct, joined: bool) -> GroupedUse | str:
        """How a product becomes computes; or why it stays a call."""
        rows, inner, columns, _ = product.sizes
        if min(rows, inner, columns) < LEAST:
            return f"{rows}x{inner}x{columns} (rows, summed, columns) are too few for tensor cores"
        if self.always:
            return replace(whole_use(product), reason="all are asked for")
        if self.numerics == "eager":
            return "products and what reads them round as in eager"
        if self.capability < DESCRIBED:
            return f"sm_{self.capability} has no tensor descriptors"
        return use_of(product, joined=joined, sm_count=self.sm_count)

    def _expand(self, op: ir.Operation, function: ir.Operation) -> bool:
        product = grouped_product(op, function)
        if product is None:
            return False
        use = product if isinstance(product, str) else self._use(product, FUSED in op.attributes)
        if isinstance(use, str):
            if FUSED in op.attributes:
                del op.attributes[FUSED]
            add_remark(op, Remark(self.name, MISSED, "grouped product stays a call", use, place(op)))
            return False
        self._replace(use)
        return True

    def _replace(self, use: GroupedUse) -> None:
        """Puts computes in the place of a call, and lays beside each other at once what its kernel has pieces of."""
        product, whole = use.product, use.whole
        op, result = product.op, product.result
        _store(product.x)
        with ir.InsertionPoint(op), op.location:
            made = [self._compute(product, columns) for columns in use.columns]
            if whole:
                result.replace_all_uses_with(laid(result.type, made))
        instead = dict(zip([columns.value for columns in use.columns], made))
        told = "x".join(map(str, product.sizes)) + " (rows, summed, columns, groups)"
        for columns, value in zip(use.columns, made):
            add_remark(value.owner.operation, Remark(self.name, PASSED, "expanded", f"{told}: {use.reason}", place(op)))
            columns.value.replace_all_uses_with(value)
        for columns in use.columns:
            if columns.value.owner.operation != op:
                columns.value.owner.erase()
        op.erase()
        for pieces in use.tail.pieces:
            cat, sources = pieces.op, [instead.get(source, source) for source in pieces.sources]
            with ir.InsertionPoint(cat), cat.location:
                cat.results[0].replace_all_uses_with(laid(cat.results[0].type, sources))
            cat.erase()

    def _compute(self, product: GroupedProduct, columns: Columns) -> ir.Value:
        """The product's `columns`, made at the insertion point."""
        sizes, element = [shape_of(product.x)[0], expr(columns.count)], product.result.type.element_type
        type_ = product.result.type if columns.value == product.result else tensor_type(sizes, element)
        rounding = {"roundingmode": to_nearest_even()} if self.numerics == "eager" else {}

        def body(at: list[ir.Value]) -> ir.Value:
            row, column = at
            total = self._element(product, row, builders.apply(_from(columns.first), [column], [])[0])
            return arith.truncf(element, total, **rounding)

        return builders.compute(type_, sizes, body)

    def _element(self, product: GroupedProduct, row: ir.Value, column: ir.Value) -> ir.Value:
        """The sum of row `row` by its group's matrix at `column`; 0 of a row after the last group."""
        index, f32 = ir.IndexType.get(), ir.F32Type.get()
        groups, number = product.sizes[3], self._ends_before(product, row)
        last = arith.minsi(arith.index_cast(index, number), arith.constant(index, groups - 1))

        def term(at: list[ir.Value]) -> ir.Value:
            factors = builders.read(product.x, [row, *at]), builders.read(product.w, [last, *at, column])
            return arith.mulf(*(arith.extf(f32, factor) for factor in factors))

        (total,) = builders.reduce("sum", [shape_of(product.x)[1]], f32, term)
        inside = arith.cmpi(arith.CmpIPredicate.slt, number, arith.constant(number.type, groups))
        return arith.select(inside, total, arith.constant(f32, 0.0))

    def _ends_before(self, product: GroupedProduct, row: ir.Value) -> ir.Value:
        """How many of the offsets are at most `row`."""
        index, i32 = ir.IndexType.get(), ir.IntegerType.get_signless(32)

        def is_before(at: Sequence[ir.Value]) -> ir.Value:
            offset = arith.index_cast(index, builders.read(product.offsets, list(at)))
            from_first = arith.maxsi(offset, arith.constant(index, 0))
            end = arith.minsi(from_first, arith.constant(index, product.sizes[0]))
            if self.index_asserts:
                end.owner.attributes[CHECKED] = ir.UnitAttr.get()
            return arith.extui(i32, arith.cmpi(arith.CmpIPredicate.sle, end, row))

        return builders.reduce("sum", [expr(product.sizes[3])], i32, is_before)[0]


def _store(x: ir.Value) -> None:
    """Has the rows of a product read from memory where they are for others: tensor descriptors load what is stored, and not what is computed."""
    source, *_ = seen(x)
    made = None if isinstance(source.owner, ir.Block) else source.owner.operation
    if made is not None and made.name == "bascule.compute" and len(list(source.uses)) > 1:
        made.attributes[STORED] = ir.UnitAttr.get()


def _from(first: int) -> ir.AffineMap:
    return ir.AffineMap.get(1, 0, [ir.AffineExpr.get_dim(0) + first])

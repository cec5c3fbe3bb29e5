"""The pass `expand-quantized-products`: products of operands of 8 bits and fewer become computes."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import reduce
from typing import ClassVar

from ...analysis.memory.scaled_products import ScaledProduct
from ...ir import builders
from ...ir.attribute_names import FUSED, PARTIAL_SUMS
from ...ir.attributes import i64
from ...ir.functions import replace_extern_calls
from ...ir.shapes import constant, expr, index_map, shape_of
from ...ir.types import rounding_mode, scalar_type, to_nearest_even
from ...mlir import affine, arith, ir
from ...remarks.attribute import add_remark, place
from ...remarks.record import MISSED, PASSED, Remark
from ...scheduling.gpu.machine import H200
from ..base import VALUES, Pass, check_target
from .quantized_choice import chosen


@dataclass(frozen=True)
class ExpandQuantizedProducts(Pass):
    """Takes the tensor stage as `torch-to-bascule` leaves it. On `target` cuda products of static sizes become computes where operands have
    few bits, and where that is faster than a call, and the kernel after it, by what is known of the machine (from `capability` 90 on):

    - calls of `aten._scaled_mm` (floats of 8 bits; scales of the whole or of each row and column) and `aten._int_mm`, with the scales, and
      with what is computed from an element of the result;
    - calls of `aten.mm`, `addmm`, `bmm` and `baddbmm` in 16 bits of an operand that is computed pointwise from fewer bytes (a weight of 8
      bits, widened and scaled), and that nothing else reads. It is computed inside of the product, so that it is in no memory, or, where that
      would be done again for too many rows, once before it.

    `form` "inside", "once" or "call" says which of these, wherever there is such a kernel: for measuring. A product that stays a call has a
    remark that says why. Products of 16 bits of up to two rows are left to `expand-products`: those are sums that read few bits too.
    """

    name: ClassVar[str] = "expand-quantized-products"
    takes: ClassVar[str] = VALUES
    target: str = "cpu"
    numerics: str = "f32"
    form: str = ""
    sm_count: int = H200.sm_count
    capability: int = H200.capability

    def run(self, module: ir.Module) -> None:
        check_target(self.name, self.target)
        if self.target == "cpu":
            return
        with module.context:
            replace_extern_calls(module, self._expand)

    def _expand(self, op: ir.Operation, function: ir.Operation) -> bool:
        product = None if FUSED in op.attributes else ScaledProduct.of(op, function)
        choice = None if product is None else chosen(product, self.form, self.capability, self.sm_count)
        if product is None or choice is None:
            return False
        if choice.refusal:
            add_remark(op, Remark(self.name, MISSED, "of few bits stays a call", choice.refusal, place(op)))
            return False
        with ir.InsertionPoint(op), op.location:
            rounding = rounding_mode(kept=self.numerics == "eager")
            value = _Expansion(product, rounding, choice.inside, choice.period).build()
        for compute, mark in choice.marks:
            compute.attributes[mark] = ir.UnitAttr.get()
        add_remark(value.owner.operation, Remark(self.name, PASSED, "expanded", choice.reason, place(op)))
        op.results[0].replace_all_uses_with(value)
        op.erase()
        return True


@dataclass(frozen=True)
class _Expansion:
    """The compute that a product is. `rounding`: attributes of the roundings of its elements; `inside`: the operands, 0 and 1, that are
    rounded to their type where they are read, since they are computed there; `period`: neighbours whose products a point of the sum adds."""

    product: ScaledProduct
    rounding: dict[str, ir.Attribute]
    inside: Collection[int]
    period: int

    @property
    def element(self) -> ir.Type:
        return self.product.result.type.element_type

    @property
    def wide(self) -> ir.Type:
        """The type that is summed in; integers have the low bits of their sum, with a sign or without."""
        return scalar_type(self.element) if isinstance(self.element, ir.IntegerType) else ir.F32Type.get()

    def build(self) -> ir.Value:
        """Makes it at the insertion point."""
        return builders.compute(self.product.result.type, shape_of(self.product.result), self._element)

    def _element(self, at: list[ir.Value]) -> ir.Value:
        product = self.product
        summed = expr(ir.AffineExpr.get_floor_div(shape_of(product.x)[-1], expr(self.period)))
        value = builders.reduce("sum", [summed], self.wide, lambda k: self._terms(at, *k))[0]
        if product.partial:
            value.owner.attributes[PARTIAL_SUMS] = i64(product.partial)
        value = self._scaled(value, product.factor)
        for scale in product.scales:
            value = _multiplied(value, self._wide(_broadcast(scale, at)))
        if product.added is not None and product.added_factor != 0:
            value = _sum(value, self._scaled(self._wide(_broadcast(product.added, at)), product.added_factor))
        return arith.truncf(self.element, value, **self.rounding) if self.element.width < self.wide.width else value

    def _terms(self, at: list[ir.Value], k: ir.Value) -> ir.Value:
        if self.period == 1:
            return self._term(at, k)
        d0 = ir.AffineExpr.get_dim(0)
        places = [affine.apply(index_map(1, [d0 * self.period + number]), [k]) for number in range(self.period)]
        return reduce(_sum, [self._term(at, place) for place in places])

    def _term(self, at: list[ir.Value], k: ir.Value) -> ir.Value:
        *batch, row, column = at
        x = builders.read(self.product.x, [*batch, row, k])
        y = builders.read(self.product.y, [*batch, k, column])
        return _multiplied(*(self._factor(value, number in self.inside) for number, value in enumerate((x, y))))

    def _factor(self, value: ir.Value, rounded: bool) -> ir.Value:
        wide = self._wide(value)
        if not rounded:
            return wide
        return self._wide(arith.truncf(value.type, wide, roundingmode=to_nearest_even()))

    def _wide(self, value: ir.Value) -> ir.Value:
        if value.type == self.wide:
            return value
        is_integer = isinstance(self.wide, ir.IntegerType)
        return arith.extsi(self.wide, value) if is_integer else arith.extf(self.wide, value)

    def _scaled(self, value: ir.Value, factor: int | float) -> ir.Value:
        if factor == 1:
            return value
        if not isinstance(self.wide, ir.IntegerType):
            return arith.mulf(value, arith.constant(self.wide, float(factor)))
        half = 1 << (self.wide.width - 1)  # a factor counts by its low bits
        return arith.muli(value, arith.constant(self.wide, (int(factor) + half) % (2 * half) - half))


def _multiplied(x: ir.Value, y: ir.Value) -> ir.Value:
    return arith.muli(x, y) if isinstance(x.type, ir.IntegerType) else arith.mulf(x, y)


def _sum(x: ir.Value, y: ir.Value) -> ir.Value:
    return arith.addi(x, y) if isinstance(x.type, ir.IntegerType) else arith.addf(x, y)


def _broadcast(value: ir.Value, at: list[ir.Value]) -> ir.Value:
    """Of a tensor that broadcasts, the element at an index of the result."""
    sizes = shape_of(value)
    zero = arith.constant(ir.IndexType.get(), 0)
    return builders.read(value, [zero if constant(n) == 1 else i for n, i in zip(sizes, at[len(at) - len(sizes) :])])

"""The pass `expand-quantized-products`: products of operands of 8 bits become computes."""

from dataclasses import dataclass
from typing import ClassVar

from ...analysis.products.scaled_products import ScaledProduct
from ...ir import builders
from ...ir.attribute_names import PARTIAL_SUMS
from ...ir.attributes import i64
from ...ir.functions import replace_extern_calls
from ...ir.shapes import constant, expr, shape_of
from ...ir.types import to_nearest_even
from ...mlir import arith, ir
from ...scheduling.gpu.machine import H200
from ..base import VALUES, Pass, check_target


@dataclass(frozen=True)
class ExpandQuantizedProducts(Pass):
    """"""

    name: ClassVar[str] = "expand-quantized-products"
    takes: ClassVar[str] = VALUES
    target: str = "cpu"
    numerics: str = "f32"
    sm_count: int = H200.sm_count
    capability: int = H200.capability

    def run(self, module: ir.Module) -> None:
        check_target(self.name, self.target)
        if self.target == "cpu":
            return
        with module.context:
            replace_extern_calls(module, self._expand)

    def _expand(self, op: ir.Operation, function: ir.Operation) -> bool:
        product = ScaledProduct.of(op, function)
        if product is None:
            return False
        with ir.InsertionPoint(op), op.location:
            value = _expanded(product, {"roundingmode": to_nearest_even()} if self.numerics == "eager" else {})
        op.results[0].replace_all_uses_with(value)
        op.erase()
        return True


def _expanded(product: ScaledProduct, rounding: dict[str, ir.Attribute]) -> ir.Value:
    """The compute that `product` is, at the insertion point. `rounding`: attributes of the roundings of its elements."""
    element = product.result.type.element_type
    total: ir.Type = element if isinstance(element, ir.IntegerType) else ir.F32Type.get()
    inner = shape_of(product.x)[1]

    def body(at: list[ir.Value]) -> ir.Value:
        row, column = at

        def term(along: list[ir.Value]) -> ir.Value:
            (k,) = along
            y = [column, k] if product.is_transposed else [k, column]
            return _multiplied(_wide(builders.read(product.x, [row, k]), total), _wide(builders.read(product.y, y), total))

        value = builders.reduce("sum", [inner], total, term)[0]
        if product.partial:
            value.owner.attributes[PARTIAL_SUMS] = i64(product.partial)
        for scale in product.scales:
            value = _multiplied(value, _wide(_element(scale, at), total))
        if product.added is not None:
            value = arith.addf(value, _wide(_element(product.added, at), total))
        return value if element == total else arith.truncf(element, value, **rounding)

    return builders.compute(product.result.type, shape_of(product.result), body)


def _multiplied(x: ir.Value, y: ir.Value) -> ir.Value:
    return arith.muli(x, y) if isinstance(x.type, ir.IntegerType) else arith.mulf(x, y)


def _wide(value: ir.Value, to: ir.Type) -> ir.Value:
    if value.type == to:
        return value
    return arith.extsi(to, value) if isinstance(to, ir.IntegerType) else arith.extf(to, value)


def _element(value: ir.Value, at: list[ir.Value]) -> ir.Value:
    """Of a tensor that broadcasts, the element at an index of the result."""
    sizes = shape_of(value)
    zero = arith.constant(ir.IndexType.get(), 0)
    return builders.read(value, [zero if constant(n) == 1 else i for n, i in zip(sizes, at[len(at) - len(sizes) :])])

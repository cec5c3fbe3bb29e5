"""Calls of products with what their sums are multiplied by, and what is added: those of operands of 8 bits have scales."""

from collections.abc import Sequence
from dataclasses import dataclass

from ...ir.functions import ARGUMENTS, EXTERN
from ...ir.shapes import constant, shape_of
from ...mlir import ir
from ..products.contractions import FLOAT8, WHOLE
from .matmul_operands import Product

STEP = 128  # elements whose sum may have fewer bits than f32 where `use_fast_accum` is not asked for: about as many as in cuBLAS


@dataclass(frozen=True)
class ScaledProduct:
    """`factor * (x @ y)`, (.., M, K) by (.., K, N), each element multiplied by those of `scales`, plus `added_factor * added`, in the call `op`.
    `scales` and `added` broadcast to (.., M, N). `partial`: elements whose sum may have fewer bits than f32, 0: none."""

    op: ir.Operation
    x: ir.Value
    y: ir.Value
    scales: Sequence[ir.Value] = ()
    added: ir.Value | None = None
    partial: int = 0
    added_factor: int | float = 1
    factor: int | float = 1

    @staticmethod
    def of(op: ir.Operation, function: ir.Operation) -> "ScaledProduct | None":
        """The product that `op`, a call of the ATen function `function`, computes; None for another operator, and for scales of blocks."""
        plain = Product.of(op, function)
        if plain is not None:
            added, factors = plain.added, (plain.added_factor, plain.factor)
            return ScaledProduct(op, plain.x, plain.y, (), added, 0, *factors)
        read = _FORMS.get(function.attributes[EXTERN].value)
        if read is None or len(op.results) != 1:
            return None
        found = read(op, [_argument(op, attribute) for attribute in function.attributes[ARGUMENTS]])
        return found if found is not None and all(map(found.broadcasts, found.scales)) else None

    @property
    def result(self) -> ir.Value:
        return self.op.results[0]

    @property
    def sizes(self) -> list[int | None]:
        """Of all batches, M, K, N; None for one that is not known."""
        *batch, rows, columns = map(constant, shape_of(self.result))
        known = [size for size in batch if size is not None]
        count = None if len(known) < len(batch) else known[0] if known else 1
        return [count, rows, constant(shape_of(self.x)[-1]), columns]

    def broadcasts(self, value: ir.Value) -> bool:
        """Whether there is an element of `value` for each of the result's."""
        sizes, own = shape_of(self.result), shape_of(value)
        if len(own) > len(sizes):
            return False
        return all(constant(n) == 1 or n == size for n, size in zip(own, sizes[len(sizes) - len(own) :]))


def _argument(op: ir.Operation, attribute: ir.Attribute):
    """An operand, or the number, truth or None that an argument is."""
    if isinstance(attribute, ir.UnitAttr):
        return None
    if isinstance(attribute, ir.IntegerAttr | ir.BoolAttr | ir.FloatAttr):
        return attribute.value
    number = getattr(attribute, "index", None)
    return attribute if number is None else op.operands[ir.IntegerAttr(number).value]


def _scaled_mm(op: ir.Operation, arguments: Sequence) -> ScaledProduct | None:
    x, y, first, second, added, of_result, _, fast = arguments
    element = op.results[0].type.element_type
    if of_result is not None or not isinstance(element, ir.BF16Type | ir.F16Type | ir.F32Type):
        return None
    if not all(isinstance(value.type.element_type, FLOAT8) for value in (x, y)):
        return None
    if not all(isinstance(value.type.element_type, ir.F32Type) for value in (first, second)):
        return None
    return ScaledProduct(op, x, y, (first, second), added, partial=WHOLE if fast else STEP)


def _int_mm(op: ir.Operation, arguments: Sequence) -> ScaledProduct:
    return ScaledProduct(op, *arguments)


_FORMS = {"aten._scaled_mm.default": _scaled_mm, "aten._int_mm.default": _int_mm}

"""Calls of products with what their sums are multiplied by, and what is added: those of operands of 8 bits have scales."""

from collections.abc import Sequence
from dataclasses import dataclass

from ...ir.functions import ARGUMENTS, EXTERN
from ...ir.shapes import constant, shape_of
from ...mlir import ir
from ..products.contractions import FLOAT8, WHOLE
from .matmul_operands import Product

LINES = (0, 1)  # PyTorch's `ScalingType`: TensorWise and RowWise
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
        return found if found is not None and all(map(found.scales_lines, found.scales, (0, 1))) else None

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

    def scales_lines(self, scale: ir.Value, dim: int) -> bool:
        """Whether `scale` has one element for all of the result, or one for each of its rows (`dim` 0) or columns (1). Scales of blocks along
        what is summed have as many sizes, which are those of the result's for some products."""
        own = shape_of(scale)
        if all(constant(n) == 1 for n in own):
            return True
        return len(own) == 2 and constant(own[1 - dim]) == 1 and own[dim] == shape_of(self.result)[dim]


def _argument(op: ir.Operation, attribute: ir.Attribute):
    """An operand, the number, truth or None that an argument is, or a list of these."""
    if isinstance(attribute, ir.UnitAttr):
        return None
    if isinstance(attribute, ir.ArrayAttr):
        return [_argument(op, each) for each in attribute]
    if isinstance(attribute, ir.IntegerAttr | ir.BoolAttr | ir.FloatAttr):
        return attribute.value
    number = getattr(attribute, "index", None)
    return attribute if number is None else op.operands[ir.IntegerAttr(number).value]


def _scaled_mm(op: ir.Operation, arguments: Sequence) -> ScaledProduct | None:
    x, y, first, second, added, of_result, _, fast = arguments
    return None if of_result is not None else _of_floats(op, x, y, first, second, added, fast)


def _scaled_mm_v2(op: ir.Operation, arguments: Sequence) -> ScaledProduct | None:
    x, y, first, of_first, swizzle, second, of_second, other_swizzle, added, _, dims, fast = arguments
    if (
        dims
        or any(swizzle)
        or any(other_swizzle)
        or not all(len(of) == 1 and of[0] in LINES for of in (of_first, of_second))
    ):
        return None
    return _of_floats(op, x, y, first[0], second[0], added, fast)


def _of_floats(
    op: ir.Operation, x: ir.Value, y: ir.Value, first: ir.Value, second: ir.Value, added: ir.Value | None, fast: bool
) -> ScaledProduct | None:
    element = op.results[0].type.element_type
    if not isinstance(element, ir.BF16Type | ir.F16Type | ir.F32Type):
        return None
    if not all(isinstance(value.type.element_type, FLOAT8) for value in (x, y)):
        return None
    if not all(isinstance(value.type.element_type, ir.F32Type) for value in (first, second)):
        return None
    return ScaledProduct(op, x, y, (first, second), added, partial=WHOLE if fast else STEP)


def _int_mm(op: ir.Operation, arguments: Sequence) -> ScaledProduct:
    return ScaledProduct(op, *arguments)


_FORMS = {
    "aten._scaled_mm.default": _scaled_mm,
    "aten._scaled_mm_v2.default": _scaled_mm_v2,
    "aten._int_mm.default": _int_mm,
}

"""The pass `choose-products`: matrix products that another library does faster than the BLAS behind `aten.mm` become calls of it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import ClassVar

from ...analysis.memory.buffers import memref_type, strides
from ...analysis.memory.matmul_operands import Product, is_row_major
from ...ir import OperandAttr, builders
from ...ir.attributes import i64
from ...ir.functions import EXTERN, GIVEN, SHAPES, Externs, replace_extern_calls
from ...ir.shapes import constant, index_map, shape_of, tensor_type
from ...ir.types import byte_width
from ...mlir import ir
from ..base import VALUES, Pass

LINEAR = "mkldnn._linear_pointwise.default"
PRODUCTS = ("aten.mm.default", "aten.addmm.default")
REASON_TEXT = "a matrix product, which oneDNN does faster here than the BLAS library"
ROWS = 8  # with fewer the product is bound by memory, and oneDNN would first copy `y` to its own layout
PART = 16  # of the bytes a graph is given, how many a copy may take that oneDNN makes of a transposed `x`
SYMBOL = 64  # the size assumed of a symbol


@dataclass(frozen=True)
class ChooseProducts(Pass):
    """Takes and leaves the kernel stage. With `onednn`, products of f32 matrices by `aten.mm` and `aten.addmm` (a row added to each, no
    factors) that multiply `least` times or more become calls of oneDNN's `mkldnn._linear_pointwise`, which takes the second matrix
    transposed: a view.

    MKL has no AVX-512 code for processors of other makers than Intel; oneDNN is twice as fast there. A call of it takes about 10 us
    more, hence `least`. What stays as it is: other element types, which ATen gives to oneDNN itself; matrices that are neither row-major nor
    transposed; a first matrix that is transposed and large beside what the graph is given, as oneDNN's call would copy it.
    """

    name: ClassVar[str] = "choose-products"
    takes: ClassVar[str] = VALUES
    onednn: bool = False
    least: int = 1 << 20

    def run(self, module: ir.Module) -> None:
        if not self.onednn:
            return
        with module.context:
            externs = Externs(module)
            given = cache(_bytes_given)  # a graph stands at its place meanwhile, and no product changes its arguments
            replace_extern_calls(module, lambda op, function: self._replace(op, function, externs, given))

    def _replace(
        self, op: ir.Operation, function: ir.Operation, externs: Externs, given: Callable[[ir.Operation], int]
    ) -> bool:
        found = _operands(op, function)
        if found is None:
            return False
        x, y, row = found
        (rows, inner), columns = shape_of(x), shape_of(y)[1]
        sizes = [_about(size) for size in (rows, inner, columns)]
        if constant(inner) is None or sizes[0] < ROWS or prod(sizes) < self.least:
            return False
        if not is_row_major(x) and 4 * sizes[0] * sizes[1] > given(op.parent) // PART:
            return False
        with ir.InsertionPoint(op), op.location:
            operands = [x, _transposed(y), *([row] if row is not None else [])]
            numbers = [OperandAttr.get(i64(i)) for i in range(len(operands))]
            text = ir.StringAttr.get
            arguments = [*numbers, ir.UnitAttr.get()][:3] + [text("none"), ir.ArrayAttr.get([]), text("")]
            shapes = [map_.value for map_ in function.attributes[SHAPES]] if SHAPES in function.attributes else None
            types = [result.type for result in op.results]
            results = externs.call(LINEAR, arguments, operands, types, shapes=shapes, reason=REASON_TEXT)
        op.results[0].replace_all_uses_with(results[0])
        op.erase()
        return True


def _bytes_given(graph: ir.Operation) -> int:
    """The bytes of the arguments of a graph function; those of its step without a memory budget, whose products are to be the same ones."""
    if GIVEN in graph.attributes:
        return graph.attributes[GIVEN].value
    values = [v for v in graph.regions[0].blocks[0].arguments if isinstance(v.type, ir.RankedTensorType)]
    return sum(byte_width(v.type.element_type) * prod(map(_about, shape_of(v))) for v in values)


def _about(size: ir.AffineExpr) -> int:
    """A size; `SYMBOL` where it is not known."""
    value = constant(size)
    return SYMBOL if value is None else value


def _operands(op: ir.Operation, function: ir.Operation) -> tuple[ir.Value, ir.Value, ir.Value | None] | None:
    """The matrices of a product `x @ y` and the row that is added; None if it is of another form."""
    product = Product.of(op, function) if function.attributes[EXTERN].value in PRODUCTS else None
    if product is None or product.factor != 1 or product.added_factor != 1:
        return None
    x, y, row = product.x, product.y, product.added
    values = [x, y, *op.results, *([] if row is None else [row])]
    if any(not isinstance(v.type.element_type, ir.F32Type) for v in values):
        return None
    if not any(is_row_major(x, order) for order in ([0, 1], [1, 0])):
        return None
    if not any(is_row_major(y, order) for order in ([0, 1], [1, 0])):
        return None
    if not is_row_major(op.results[0]) or (row is not None and not (row.type.rank == 1 and is_row_major(row))):
        return None
    if row is not None and shape_of(row) != [shape_of(y)[1]]:
        return None
    return x, y, row


def _transposed(value: ir.Value) -> ir.Value:
    """A view of a matrix with its dims swapped; of such a view, its source."""
    d0, d1 = (ir.AffineExpr.get_dim(i) for i in range(2))
    swap = index_map(2, [d1, d0])
    sizes, steps = shape_of(value)[::-1], strides(memref_type(value.type))[::-1]
    owner = value.owner
    if not isinstance(owner, ir.Block) and owner.name == "bascule.view" and owner.attributes["map"].value == swap:
        return owner.operands[0]
    return builders.view(value, swap, sizes, tensor_type(sizes, value.type.element_type, steps))

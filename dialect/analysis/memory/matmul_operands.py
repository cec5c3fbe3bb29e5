"""Calls of matrix products: what they multiply and add, and how the matrices lie in memory."""

from collections.abc import Sequence
from dataclasses import dataclass

from ...ir.attributes import OperandAttr
from ...ir.functions import ARGUMENTS, EXTERN
from ...ir.shapes import constant, expr, shape_of
from ...mlir import ir
from .buffers import memref_type, strides

# Operator -> positions of x, y, what is added, its factor, the product's factor.
_FORMS: dict[str, tuple[int, int, int | None, int | None, int | None]] = {
    "aten.mm.default": (0, 1, None, None, None),
    "aten.bmm.default": (0, 1, None, None, None),
    "aten.addmm.default": (1, 2, 0, 3, 4),
    "aten.baddbmm.default": (1, 2, 0, 3, 4),
}


@dataclass(frozen=True)
class Product:
    """`added_factor * added + factor * (x @ y)`, in the call `op`. x: (.., M, K), y: (.., K, N), with equal leading dims, none or one.

    `added` is of a shape that broadcasts to (.., M, N), or None.
    """

    op: ir.Operation
    x: ir.Value
    y: ir.Value
    added: ir.Value | None = None
    added_factor: int | float = 1
    factor: int | float = 1

    @staticmethod
    def of(op: ir.Operation, function: ir.Operation) -> "Product | None":
        """The product that `op`, a call of the ATen function `function`, computes; None for another operator, for factors known only at
        run time, and for tensors that the operator refuses."""
        form = _FORMS.get(function.attributes[EXTERN].value)
        if form is None:
            return None
        arguments = list(function.attributes[ARGUMENTS])
        tensors = [arguments[i] for i in form[:3] if i is not None]
        if not all(isinstance(tensor, OperandAttr) for tensor in tensors):  # a number in a tensor's place
            return None
        x, y, added = (None if i is None else op.operands[ir.IntegerAttr(arguments[i].index).value] for i in form[:3])
        factors = [1 if i is None or i >= len(arguments) else arguments[i] for i in form[3:]]
        if any(not isinstance(a, int | ir.IntegerAttr | ir.FloatAttr) for a in factors):
            return None
        product = Product(op, x, y, added, *(a if isinstance(a, int) else a.value for a in factors))
        return product if product._fits() else None

    def _fits(self) -> bool:
        """Whether the sizes are those of a product, as far as they are numbers."""
        x, y, made = (list(value.type.shape) for value in (self.x, self.y, self.result))
        if not 2 <= len(x) == len(y) == len(made):
            return False
        pairs = [*zip(x[:-2], y[:-2]), *zip(x[:-2], made[:-2]), (x[-1], y[-2]), (x[-2], made[-2]), (y[-1], made[-1])]
        if self.added is not None:
            added = list(self.added.type.shape)
            pairs += [(size, other) for size, other in zip(reversed(added), reversed(made)) if size != 1]
            if len(added) > len(made):
                return False
        return all(one == other or min(one, other) < 0 for one, other in pairs)  # a size that is a symbol is below zero

    @property
    def result(self) -> ir.Value:
        return self.op.results[0]

    @property
    def sizes(self) -> tuple[ir.AffineExpr, ir.AffineExpr, ir.AffineExpr]:
        """M, K, N."""
        *_, rows, inner = shape_of(self.x)
        return rows, inner, shape_of(self.y)[-1]

    @property
    def distinct(self) -> tuple[ir.AffineExpr, ir.AffineExpr]:
        """M and N, but 1 where all rows, or all columns, are one in memory: those of an expanded matrix are."""
        rows, _, columns = self.sizes
        return expr(1) if _repeats(self.x, -2) else rows, expr(1) if _repeats(self.y, -1) else columns

    @property
    def has_sides(self) -> bool:
        """Whether each matrix varies along both of its dims, as those that tensor cores multiply do; dims of one element count as such."""
        return has_sides(self.x) and has_sides(self.y)


def has_sides(matrix: ir.Value) -> bool:
    """Whether a matrix varies along its last two dims, as far as memory tells."""
    return not any(_repeats(matrix, dim) for dim in (-2, -1))


def _repeats(value: ir.Value, dim: int) -> bool:
    """Whether neighbours along a dim of a tensor are one element of memory."""
    return constant(shape_of(value)[dim]) != 1 and strides(memref_type(value.type))[dim] == expr(0)


def is_row_major(value: ir.Value, order: Sequence[int] | None = None) -> bool:
    """Whether memory has the elements of a tensor one after another, dims in this order."""
    sizes, steps = shape_of(value), strides(memref_type(value.type))
    step = expr(1)
    for dim in reversed(range(len(sizes)) if order is None else order):
        if constant(sizes[dim]) != 1 and steps[dim] != step:
            return False
        step = step * sizes[dim]
    return True


def runs_along(value: ir.Value, dim: int) -> bool:
    """Whether neighbours along a dim of a tensor are neighbours in memory."""
    return strides(memref_type(value.type))[dim] == expr(1)

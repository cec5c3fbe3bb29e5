"""Grouped products, as of a mixture of experts: rows of a matrix by one of several matrices, the rows of each one after the other."""

from dataclasses import dataclass

from ...ir.functions import ARGUMENTS, EXTERN
from ...ir.shapes import constant, shape_of
from ...mlir import ir

GROUPED = "aten._grouped_mm.default"
LOOPED = "bascule.grouped_mm.default"  # of any float, with zeros for rows after the last group
OPERANDS = 3  # of its arguments: two matrices, and where the groups end; then a bias and a dtype


@dataclass(frozen=True)
class _Call:
    """`operator`: what is called."""

    op: ir.Operation
    operator: str

    @property
    def result(self) -> ir.Value:
        return self.op.results[0]

    @property
    def element(self) -> ir.Type:
        return self.result.type.element_type

    @property
    def is_looped(self) -> bool:
        """Whether the call is a loop on the host over the groups: ATen's is but for bf16."""
        return self.operator == LOOPED or not isinstance(self.element, ir.BF16Type)


@dataclass(frozen=True)
class GroupedProduct(_Call):
    """Row m of `x` (M, K) by matrix g of `w` (G, K, N), where g is how many of the `offsets` (G) are at most m; in the call `op`."""

    x: ir.Value
    w: ir.Value
    offsets: ir.Value

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """M, K, N, G."""
        (rows, inner), (groups, _, columns) = (map(constant, shape_of(value)) for value in (self.x, self.w))
        assert rows is not None and inner is not None and columns is not None and groups is not None
        return rows, inner, columns, groups

    @property
    def matrices(self) -> ir.Value:
        """The matrix, or matrices, that multiply `x`."""
        return self.w


@dataclass(frozen=True)
class GroupedSums(_Call):
    """Matrix g of the result (G, M, N) is the product of columns of `x` (M, K) and rows of `y` (K, N), those from offset g - 1 (of the first 0)
    to offset g of the `offsets` (G); in the call `op`."""

    x: ir.Value
    y: ir.Value
    offsets: ir.Value

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """M, K, N, G."""
        (rows, inner), (_, columns), (groups,) = (
            map(constant, shape_of(value)) for value in (self.x, self.y, self.offsets)
        )
        assert rows is not None and inner is not None and columns is not None and groups is not None
        return rows, inner, columns, groups

    @property
    def matrices(self) -> ir.Value:
        """The matrix, or matrices, that multiply `x`."""
        return self.y


def grouped_product(op: ir.Operation, function: ir.Operation) -> GroupedProduct | GroupedSums | str | None:
    """The grouped product that `op`, a call of the ATen function `function`, is; why it is none of static sizes in f16, bf16 or f32; or None for
    another operator's."""
    operator = function.attributes[EXTERN].value
    if operator not in (GROUPED, LOOPED):
        return None
    arguments, none = list(function.attributes[ARGUMENTS]), ir.UnitAttr.get()
    if (
        len(arguments) < OPERANDS
        or arguments[OPERANDS - 1] == none
        or any(argument != none for argument in arguments[OPERANDS:])
    ):
        return "it has no offsets, a bias or another dtype"
    given = [op.operands[ir.IntegerAttr(argument.index).value] for argument in arguments[:OPERANDS]]
    x, w, offsets = given
    ranks = x.type.rank, w.type.rank
    if ranks not in ((2, 3), (2, 2)):
        return f"its matrices have {ranks[0]} and {ranks[1]} dims: where rows, or sums, are in groups these are 2 and 3, or 2 and 2"
    element = x.type.element_type
    known = isinstance(element, ir.BF16Type | ir.F16Type | ir.F32Type)
    if not known or {w.type.element_type, op.results[0].type.element_type} != {element}:
        return f"it is of {element}"
    if any(constant(size) is None for value in given for size in shape_of(value)):
        return "its sizes are not known"
    form = GroupedProduct if ranks == (2, 3) else GroupedSums
    return form(op, operator, x, w, offsets)

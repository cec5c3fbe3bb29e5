"""Loads of neighbours at each point of a loop, as of `x[2 * k]` and `x[2 * k + 1]`: one load of them all along a longer axis, taken apart in
registers. Each by itself would be a load of elements that are not adjacent."""

from bascule.dialect.analysis.affine.linear_forms import dims_of, linear
from bascule.dialect.ir.shapes import expr
from bascule.dialect.mlir import ir

from ..values.builder import Builder, element
from ..values.tiles import Axes, Axis, Tile
from .expressions import Expr, Expressions
from .indexing import Indexing

PARTS = (2, 4)


def neighbours(
    expressions: Expressions, ix: Indexing, op: ir.Operation, axis: Axis
) -> tuple[list[ir.Operation], int, Expr] | None:
    """The loads of the block of `op` that together read all elements, by remainder; the atom along `axis`; the address without it. None where
    some are missing."""
    address = expressions.address(op)
    atoms = [atom for atom in dims_of(address) if atom in ix.at and axis in ix.at[atom]().axes]
    if len(atoms) != 1:
        return None
    (atom,), form = atoms, linear(address)
    step = form.steps.get(atom)
    if step not in PARTS or ix.at[atom]().value not in ix.starts:
        return None
    along = expr(ir.AffineExpr.get_dim(atom) * step)
    rest = expr(address - along)
    if atom in dims_of(rest):
        return None
    loads = dict[Expr, ir.Operation]()
    for view in op.block.operations:
        other = view.operation
        if other.name == "memref.load" and other.operands[0] == op.operands[0]:
            loads.setdefault(expr(expressions.address(other) - along), other)
    for first in range(step):
        places = [expr(rest - first + number) for number in range(step)]
        if all(place in loads for place in places):
            return [loads[place] for place in places], atom, places[0]
    return None


def wide_range(ix: Indexing, atom: int, axis: Axis, parts: int) -> tuple[Tile, Axis]:
    """The places along the longer axis, from `parts` times where the tile of `atom` starts."""
    wide = Axis(axis.order, parts * axis.extent)
    start = ix.starts[ix.at[atom]().value]
    return ix.range(wide, ix.op("arith.muli", start, ix.number(parts))), wide


def apart(b: Builder, value: ir.Value, axes: Axes, parts: int) -> list[Tile]:
    """The elements of each remainder, of a tile whose last axis is the longer one; `axes`: those of the results."""
    shape, scalar = [axis.extent for axis in axes], element(value.type)
    halvings = [2] * (parts.bit_length() - 1)
    pieces = [b.value("tt.reshape", ir.RankedTensorType.get([*shape, *halvings], scalar), [value])]
    for left in range(len(halvings) - 1, -1, -1):  # the last dim is the lowest bit of a remainder
        type_ = ir.RankedTensorType.get([*shape, *halvings[:left]], scalar)
        split = [list(b.op("tt.split", [type_, type_], [piece]).results) for piece in pieces]
        pieces = [half for number in range(2) for half in (pair[number] for pair in split)]
    return [Tile(piece, axes) for piece in pieces]

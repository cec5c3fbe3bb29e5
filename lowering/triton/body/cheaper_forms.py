"""Operations on scalars in forms that take fewer instructions, and give the same or nearly so."""

from collections.abc import Sequence
from functools import partial

from bascule.dialect.mlir import ir

from ..values import scalars
from ..values.approximations import is_logistic, over_one_and_more, scaled_twice
from ..values.builder import element
from ..values.gelus import one_and
from ..values.packed_values import MOST, bytes_less, shifted, widened
from ..values.tiles import Axes, Tile, elementwise
from .emitter import FORMS, RULES, Body

NARROWEST = 1 << 30  # integers from which on 32 bits are too few, with those of lanes beyond the last point
WHOLE = 1 << 24  # integers up to which f32 has all
FROM_BYTES = {"arith.sitofp": True, "arith.uitofp": False}  # whether they are signed
SUMS = {"arith.addi": "arith.addf", "arith.subi": "arith.subf"}


def compare(body: Body, op: ir.Operation) -> None:
    """A comparison, of 64-bit integers that are computed of indices in 32 bits, where these are enough."""
    wide = op.operands[0].type == body.b.i64 and body.ix.type == body.b.i32
    tiles = [tile for value in op.operands if (tile := _narrow(body, value)) is not None] if wide else []
    body.scalar(op, tiles if len(tiles) == len(op.operands) else None)


def _narrow(body: Body, value: ir.Value) -> Tile | None:
    """An integer that is computed of indices, in 32 bits; None where these may be too few."""
    bound, owner = body.expressions.bound(value), value.owner
    if bound is None or bound >= NARROWEST:
        return None
    if isinstance(value.type, ir.IndexType):
        return body.tile(value)
    if isinstance(owner, ir.Block) or value.type.width < body.b.i32.width:
        return None
    if owner.name == "arith.constant":
        return Tile(body.b.constant(body.b.i32, owner.attributes["value"].value))
    sides = [tile for operand in owner.operands if (tile := _narrow(body, operand)) is not None]
    if len(sides) < len(owner.operands):
        return None
    return elementwise(body.b, partial(body.b.same, owner.name), sides) if len(sides) == 2 else sides[0]


def converted(body: Body, op: ir.Operation, type_: ir.Type, tiles: Sequence[Tile], axes: Axes) -> Tile | None:
    """A sum or difference of small integers over different axes, as a float: each is converted before it is spread over those of the other.
    None for something else."""
    if op.name != "arith.sitofp" or type_ != body.b.f32:
        return None
    made = op.operands[0].owner
    if isinstance(made, ir.Block) or made.name not in SUMS:
        return None
    sides, bound = [body.tile(operand) for operand in made.operands], body.expressions.bound(op.operands[0])
    one, other = (set(side.axes) for side in sides)
    if bound is None or bound > WHOLE or one <= other or other <= one:
        return None
    floats = [elementwise(body.b, lambda x: body.b.convert("arith.sitofp", x, type_), [side]) for side in sides]
    return elementwise(body.b, lambda x, y: body.b.same(SUMS[made.name], x, y), floats)


def approximated(body: Body, op: ir.Operation, type_: ir.Type, tiles: Sequence[Tile], axes: Axes) -> Tile | None:
    """The f32 that `op` gives, in a cheaper form that is as near or nearly so; None where there is none, or its last bits are seen."""
    if type_ != body.b.f32:
        return None
    if body.loop is not None and op.name == "arith.extf" and _widens(body, tiles[0].value, type_):
        return Tile(widened(body.b, tiles[0].value), axes)
    twice, more = scaled_twice(op), one_and(op)
    if (op.name != "arith.divf" and twice is None and more is None) or body.precision.exact(op.results[0]):
        return None
    if more is not None:
        return elementwise(body.b, partial(more.computed, body.b), [body.tile(x) for x in more.operands])
    if twice is not None:
        x = body.tile(twice[0])
        return Tile(body.b.same("arith.mulf", x.value, body.b.constant(x.value.type, twice[1])), x.axes)
    if tiles[1].axes != axes:
        return _multiplied(body, tiles[0], tiles[1])
    return elementwise(body.b, partial(over_one_and_more, body.b), tiles) if is_logistic(op) else None


def _widens(body: Body, x: ir.Value, to: ir.Type) -> bool:
    apart = not isinstance(x.owner, ir.Block) and x.owner.name == "tt.split"  # in registers of their own
    tensor = isinstance(x.type, ir.RankedTensorType) and not apart
    return tensor and isinstance(element(x.type), ir.BF16Type) and to == body.b.f32


def of_bytes(body: Body, op: ir.Operation, type_: ir.Type, tiles: Sequence[Tile], axes: Axes) -> Tile | None:
    """A tensor of bytes as f32, less an integer, or shifted right, by instructions on four of them. None for something else, and where
    tensor cores multiply: there Triton has to see what is computed."""
    b, loop = body.b, body.loop
    if loop is None or loop.axis is None or loop.multiplies:
        return None
    made, less = op, 0
    if op.name == "arith.subf" and not isinstance(op.operands[0].owner, ir.Block):
        number = b.numbers.get(body.tile(op.operands[1]).value)
        made, less = op.operands[0].owner, MOST + 1 if number is None or number % 1 else int(number)
    x = body.tile(made.operands[0]) if made.name in (*FROM_BYTES, "arith.shrui") else None
    if x is None or not x.axes or element(x.value.type) != b.i8:
        return None
    if made.name == "arith.shrui":
        by = b.numbers.get(body.tile(op.operands[1]).value) if made == op else None
        return None if by is None or not 0 < by < 8 else Tile(shifted(b, x.value, int(by)), x.axes)
    if type_ != b.f32 or abs(less) > MOST:
        return None
    return Tile(bytes_less(b, x.value, FROM_BYTES[made.name], less), x.axes)


def _multiplied(body: Body, x: Tile, y: Tile) -> Tile:
    """About x / y, where y is one for many x: its reciprocal is taken once."""
    b = body.b
    k, r = scalars.reciprocal(b, y.value)
    scaled = elementwise(b, lambda p, q: b.same("arith.mulf", p, q), [x, Tile(k, y.axes)])
    return elementwise(b, lambda p, q: b.same("arith.mulf", p, q), [scaled, Tile(r, y.axes)])


RULES["arith.cmpi"] = compare
FORMS += [converted, of_bytes, approximated]

"""`bascule.random`: where a tile's last axis runs through neighbouring positions, four (two) of them share a counter, computed once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bascule.dialect.analysis.affine.linear_forms import dims_of, linear
from bascule.dialect.ir.philox import NUMBERS, Floats, Words, drawn, number, philox
from bascule.dialect.ir.shapes import expr
from bascule.dialect.mlir import ir

from ..values import scalars
from ..values.builder import Builder, element
from ..values.libdevice import LIBDEVICE
from ..values.tiles import Axes, Axis, Tile, elementwise, shaped
from .emitter import RULES, Body
from .expressions import Expr, substitute
from .indexing import Indexing


def _apply(b: Builder, function: Callable[..., ir.Value], *operands: Tile | float) -> Tile:
    """`function` of tiles; a number is a constant of the first one's type."""
    first = operands[0]
    scalar = element(first.value.type)  # type: ignore[union-attr]
    return elementwise(b, function, [x if isinstance(x, Tile) else Tile(b.constant(scalar, x)) for x in operands])


@dataclass(frozen=True)
class _Words(Words[Tile]):
    b: Builder

    def _op(self, name: str, *operands: Tile | float) -> Tile:
        return _apply(self.b, lambda *values: self.b.same(name, *values), *operands)

    def add(self, x: Tile, number: int) -> Tile:
        return self._op("arith.addi", x, number)

    def xor(self, x: Tile, y: Tile) -> Tile:
        return self._op("arith.xori", x, y)

    def product(self, x: Tile, number: int) -> tuple[Tile, Tile]:
        whole = self._op("arith.muli", self._widened(x), number)  # one instruction, which gives both words
        low, high = _halves(self.b, whole)
        return low, high

    def joined(self, low: Tile, high: Tile) -> Tile:
        return self._op("arith.ori", self._widened(low), self._op("arith.shli", self._widened(high), 32))

    def _widened(self, x: Tile) -> Tile:
        return _apply(self.b, lambda v: self.b.convert("arith.extui", v, self.b.i64), x)

    def quarter_back(self, x: Tile, width: int) -> Tile:
        return self._op("arith.addi", x, -(1 << (width - 2)))


@dataclass(frozen=True)
class _Floats(Floats[Tile]):
    b: Builder

    def op(self, name: str, *operands: Tile | float) -> Tile:
        b = self.b

        def build(*values: ir.Value) -> ir.Value:
            if name in scalars.RULES:
                return scalars.RULES[name](b, element(values[0].type), *values)
            return scalars.call(b, name, list(values)) if name in LIBDEVICE else b.same(name, *values)

        return _apply(b, build, *operands)

    def convert(self, name: str, x: Tile, type_: ir.Type) -> Tile:
        return _apply(self.b, lambda v: self.b.convert(name, v, type_), x)


def _random(body: Body, op: ir.Operation) -> None:
    b, type_, distribution = body.b, op.results[0].type, op.attributes["distribution"].value
    seed, count = body.tile(op.operands[0]), NUMBERS[type_.width]
    position = body.ix.joining(body.expressions.of(op.operands[1]))

    def draws(counter: Tile) -> list[tuple[Tile, ...]]:
        words = philox(_Words(b), [*_halves(b, counter), *[Tile(b.constant(b.i32, 0))] * 2], _halves(b, seed))
        return drawn(_Words(b), distribution, type_.width, words)

    whole = body.ix.evaluate(position)
    counters = _counters(body.ix, position, whole.axes, count) if not seed.axes else None
    if counters is not None:
        bits = [_in_place(b, column) for column in zip(*draws(counters))]
    else:
        counter = _apply(b, lambda *v: b.same("arith.shrui", *v), whole, count.bit_length() - 1)
        bits = [_chosen(b, column, whole) for column in zip(*draws(counter))]
    body.env[op.results[0]] = number(_Floats(b), distribution, type_, bits)


RULES["bascule.random"] = _random


def _halves(b: Builder, x: Tile) -> list[Tile]:
    """The low and the high word of an integer that is not negative, or of 64 bits."""
    if element(x.value.type) == b.i32:
        return [x, Tile(b.constant(b.i32, 0))]
    high = _apply(b, lambda *v: b.same("arith.shrui", *v), x, 32)
    low, high = (_apply(b, lambda v: b.convert("arith.trunci", v, b.i32), half) for half in (x, high))
    return [low, high]


def _counters(ix: Indexing, position: Expr, axes: Axes, count: int) -> Tile | None:
    """The counters of a tile's positions, each once, along a shorter last axis; None where that is not proven: that the last axis runs
    through neighbours, from a multiple of `count` on, and that what else there is in a position is a multiple of it."""
    along = [dim for dim in dims_of(position) if axes and axes[-1] in ix.at[dim]().axes]
    start = ix.starts.get(ix.at[along[0]]().value) if len(along) == 1 else None
    if start is None or axes[-1].extent % count:
        return None
    (dim,), axis = along, axes[-1]
    zero = {d for d in dims_of(position) if d == dim or ix.at[d]() == ix.number(0)}  # or walked as part of another
    rest = substitute(position, [expr(0) if d in zero else Expr.get_dim(d) for d in range(max(dims_of(position)) + 1)])
    if not linear(position).adjacent(dim) or not _divides(count, rest, ix.aligned):
        return None
    shift = ix.number(count.bit_length() - 1)
    first = ix.op("arith.shrui", ix.op("arith.addi", ix.evaluate(rest), start), shift)
    return ix.op("arith.addi", first, ix.steps(Axis(axis.order, axis.extent // count)))


def _divides(count: int, e: Expr, aligned: bool) -> bool:
    """Whether an expression is a multiple of `count`, a power of two up to 16, whatever its dims; `aligned`: symbols are."""
    e = e.maybe_downcast()
    if isinstance(e, ir.AffineConstantExpr):
        return e.value % count == 0
    if isinstance(e, ir.AffineAddExpr):
        return _divides(count, e.lhs, aligned) and _divides(count, e.rhs, aligned)
    if isinstance(e, ir.AffineMulExpr):
        return _divides(count, e.lhs, aligned) or _divides(count, e.rhs, aligned)
    return isinstance(e, ir.AffineSymbolExpr) and aligned


def _in_place(b: Builder, column: Sequence[Tile]) -> Tile:
    """The numbers of each counter side by side, along a longer last axis. Four of 32 bits are two of 64 first: were they joined pair by
    pair, Triton would make both pairs in a layout of its own choice and move them through shared memory."""
    if len(column) == 4:
        words = _Words(b)
        column = _halves(b, _in_place(b, [words.joined(*column[:2]), words.joined(*column[2:])]))
    (*outer, last), (x, y) = column[0].axes, (tile.value for tile in column)
    axes = (*outer, Axis(last.order, 2 * last.extent))
    pairs = ir.RankedTensorType.get([*x.type.shape, 2], x.type.element_type)
    return Tile(b.value("tt.reshape", shaped(element(x.type), axes), [b.value("tt.join", pairs, [x, y])]), axes)


def _chosen(b: Builder, column: Sequence[Tile], position: Tile) -> Tile:
    """Number `position` mod their count."""
    tiles, bit = list(column), 1
    while len(tiles) > 1:
        odd = _apply(b, lambda *v: b.same("arith.andi", *v), position, bit)
        condition = _apply(b, lambda v: b.compare("ne", v, b.constant(v.type, 0)), odd)
        tiles = [elementwise(b, b.select, [condition, y, x]) for x, y in zip(tiles[::2], tiles[1::2])]
        bit *= 2
    return tiles[0]

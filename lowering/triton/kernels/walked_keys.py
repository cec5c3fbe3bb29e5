"""The bounds of an attention's walk over keys: what a mask leaves some row of the program's tile, and in between what it leaves all of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bascule.dialect.analysis.bodies.backward_slice import needed
from bascule.dialect.analysis.products.attention import yielded
from bascule.dialect.analysis.products.mask_conditions import MaskCondition, mask_conditions
from bascule.dialect.analysis.products.visible_keys import Masks, extreme, visible_keys
from bascule.dialect.ir.shapes import expr
from bascule.dialect.mlir import ir

from ..body.emitter import Loop, unsupported
from ..values.scalars import divide_floor
from ..values.tiles import Tile, elementwise
from .attention import axis_of
from .loop_body import LoopBody

FAR = 1 << 30  # beyond all keys, with what is added to it
OPS = {"+": "arith.addi", "*": "arith.muli"}


@dataclass(frozen=True)
class WalkedKeys:
    """Keys are walked from `begin` on, a multiple of the step, and before `end`. The steps from `shown` on, another multiple or `end`, and
    before `hidden` have nothing hidden of any row: the conditions `settled` are known in them. None: it is the walk's own."""

    begin: Tile
    end: Tile
    shown: Tile | None = None
    hidden: Tile | None = None
    settled: Sequence[MaskCondition] = ()


def walked_keys(e: LoopBody, ops: Sequence[ir.Operation], loop: Loop) -> WalkedKeys:
    """The walk of the loops `ops`: over keys that one of their rows of scores needs."""
    ix = e.ix
    rows = [op for op in ops if op.name == "bascule.compute"]
    if not rows:
        raise unsupported(ops[0], "a schedule that skips keys of what hides none")
    bounds = [_bounds(e, row, weight=len(ops) == 2 * len(rows)) for row in rows]
    (begin, end), *others = [bound for each in bounds for bound in each]
    for other, last in others:
        begin, end = ix.op("arith.minsi", begin, other), ix.op("arith.maxsi", end, last)
    step = axis_of(loop).extent
    begin = _times(e, ix.op("arith.divui", begin, ix.number(step)), step)
    settled = [found for row in rows for found in mask_conditions(row, Masks(*_known(e, row)))]
    return _parted(e, settled, begin, end, step)


def _parted(e: LoopBody, settled: Sequence[MaskCondition], begin: Tile, end: Tile, step: int) -> WalkedKeys:
    """The walk from `begin` to `end`, with the steps between in which all of `settled` hold. An interval that hides keys in the midst of others
    counts as one that hides those after it too."""
    ix, shown, hidden = e.ix, list[Tile](), list[Tile]()
    for interval in (interval for found in settled for interval in found.hiding):
        first = interval.first
        one, *others = [_extreme(e, bound, bool(first)) for bound in first or interval.end]
        for other in others:
            one = ix.op("arith.maxsi" if first else "arith.minsi", one, other)
        (hidden if first else shown).append(one)
    after = begin
    for each in shown:
        after = ix.op("arith.maxsi", after, each)
    if shown:
        after = _times(e, ix.op("arith.divui", ix.op("arith.addi", after, ix.number(step - 1)), ix.number(step)), step)
        after = ix.op("arith.minsi", after, end)
    before = end
    for each in hidden:
        before = ix.op("arith.minsi", before, each)
    if hidden:
        before = _times(e, ix.op("arith.divui", ix.op("arith.maxsi", before, ix.number(0)), ix.number(step)), step)
        before = ix.op("arith.maxsi", before, after)
    return WalkedKeys(begin, end, after if shown else None, before if hidden else None, settled)


def _times(e: LoopBody, count: Tile, step: int) -> Tile:
    return e.ix.op("arith.muli", count, e.ix.number(step))


def _bounds(e: LoopBody, scores: ir.Operation, *, weight: bool) -> list[tuple[Tile, Tile]]:
    """From which key on and before which the row `scores` has something in some row of the tile: of each interval."""
    ix = e.ix
    key, sizes, index = _known(e, scores)
    visible = visible_keys(yielded(scores), key, sizes, index, weight=weight)
    if visible is None:
        raise unsupported(scores, "a schedule that skips keys of what hides none")
    found = []
    for interval in visible:
        begin, end = ix.number(0), ix.evaluate(sizes[key])
        for bound in interval.first:
            begin = ix.op("arith.maxsi", begin, _extreme(e, bound, True))
        for bound in interval.end:
            end = ix.op("arith.minsi", end, _extreme(e, bound, False))
        found.append((begin, end))
    return found


def _known(
    e: LoopBody, scores: ir.Operation
) -> tuple[int, dict[int, ir.AffineExpr], Callable[[ir.Value], ir.AffineExpr | None]]:
    """For `Masks` of the row `scores`: the number of the key's index, sizes of indices, index values as expressions of these."""
    (argument,) = scores.regions[0].blocks[0].arguments
    key = e.expressions.of(argument).position
    sizes = {atom: e.expressions.extents[atom] for atom in (*e.domain, key)}
    block = scores.regions[0].blocks[0]

    def index(value: ir.Value) -> ir.AffineExpr | None:
        if isinstance(value.type, ir.IndexType):
            return e.expressions.of(value)
        return _length(e, value, block)

    return key, sizes, index


def _length(e: LoopBody, value: ir.Value, block: ir.Block) -> ir.AffineExpr | None:
    """An integer that is read as an expression, where it is one for the program's tile; what is above or below all keys is near them."""
    slice_ = needed([value], block)
    if slice_.arguments:
        return None
    for op in slice_.ops:
        e._op(op)
    if e.tile(value).axes:
        return None
    b, number = e.b, e.tile(value).value
    wide = b.convert("arith.extsi", number, b.i64) if number.type != b.i64 else number
    for name, most in (("arith.maxsi", -FAR), ("arith.minsi", FAR)):
        wide = b.same(name, wide, b.constant(b.i64, most))
    near = wide if e.ix.type == b.i64 else b.convert("arith.trunci", wide, e.ix.type)
    found = e.expressions.of(value)
    e.ix.put(found.position, Tile(near), positive=False)
    return found


def _extreme(e: LoopBody, bound: ir.AffineExpr, least: bool) -> Tile:
    """The least or the largest of `bound` among the points of the program's tile, or beyond."""
    ix = e.ix

    def at(atom: int, least: bool) -> Tile:
        tile = ix.at[atom]()
        if not tile.axes:
            return tile
        start = ix.starts.get(tile.value)
        if start is None:  # its points do not follow each other
            return ix.number(0) if least else ix.evaluate(expr(e.expressions.extents[atom] - 1))
        return start if least else ix.op("arith.addi", start, ix.number(tile.axes[0].extent - 1))

    def apply(name: str, x: Tile, y: Tile) -> Tile:
        return _quotient(e, x, y) if name == "//" else ix.op(OPS[name], x, y)

    return extreme(bound, least, at, ix.number, apply)


def _quotient(e: LoopBody, x: Tile, y: Tile) -> Tile:
    return elementwise(e.b, lambda p, q: divide_floor(e.b, p, q)[0], [x, y])

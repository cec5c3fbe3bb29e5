"""The bounds of an attention's walk over keys: what a mask leaves some row of the program's tile."""

from collections.abc import Sequence

from bascule.dialect.analysis.bodies.attention import yielded
from bascule.dialect.analysis.bodies.visible_keys import extreme, visible_keys
from bascule.dialect.ir.shapes import constant
from bascule.dialect.mlir import ir

from ..body.emitter import Loop, unsupported
from ..values.scalars import divide_floor
from ..values.tiles import Tile, elementwise
from .attention import axis_of
from .loop_body import LoopBody

OPS = {"+": "arith.addi", "*": "arith.muli"}


def walked_keys(e: LoopBody, ops: Sequence[ir.Operation], loop: Loop) -> tuple[Tile, Tile]:
    """From which key on the loops `ops` walk, a multiple of the step, and before which they end: what one of their rows of scores needs."""
    ix = e.ix
    rows = [op for op in ops if op.name == "bascule.compute"]
    bounds = [_bounds(e, row, weight=len(ops) == 2 * len(rows)) for row in rows]
    if not bounds:
        raise unsupported(ops[0], "a schedule that skips keys of what hides none")
    (begin, end), *others = [bound for each in bounds for bound in each]
    for other, last in others:
        begin, end = ix.op("arith.minsi", begin, other), ix.op("arith.maxsi", end, last)
    step = ix.number(axis_of(loop).extent)
    return ix.op("arith.muli", ix.op("arith.divui", begin, step), step), end


def _bounds(e: LoopBody, scores: ir.Operation, *, weight: bool) -> list[tuple[Tile, Tile]]:
    """From which key on and before which the row `scores` has something in some row of the tile: of each interval."""
    ix = e.ix
    (argument,), (size,) = scores.regions[0].blocks[0].arguments, scores.attributes["ranges"].value.results
    key, known = e.expressions.of(argument).position, constant(size)
    atoms = {atom: e.expressions.extents[atom] for atom in (*e.domain, key)}
    extents = {atom: n for atom, extent in atoms.items() if (n := constant(extent)) is not None}
    visible = visible_keys(yielded(scores), key, extents, e.expressions.of, weight=weight)
    if visible is None or known is None:
        raise unsupported(scores, "a schedule that skips keys of what hides none")
    found = []
    for interval in visible:
        begin, end = ix.number(0), ix.number(known)
        for bound in interval.first:
            begin = ix.op("arith.maxsi", begin, _extreme(e, bound, extents, True))
        for bound in interval.end:
            end = ix.op("arith.minsi", end, _extreme(e, bound, extents, False))
        found.append((begin, end))
    return found


def _extreme(e: LoopBody, bound: ir.AffineExpr, extents: dict[int, int], least: bool) -> Tile:
    """The least or the largest of `bound` among the points of the program's tile, or beyond."""
    ix = e.ix

    def at(atom: int, least: bool) -> Tile:
        tile = ix.at[atom]()
        if not tile.axes:
            return tile
        start = ix.starts.get(tile.value)
        if start is None:  # its points do not follow each other
            return ix.number(0 if least else extents[atom] - 1)
        return start if least else ix.op("arith.addi", start, ix.number(tile.axes[0].extent - 1))

    def apply(name: str, x: Tile, y: Tile) -> Tile:
        return _quotient(e, x, y) if name == "//" else ix.op(OPS[name], x, y)

    return extreme(bound, least, at, ix.number, apply)


def _quotient(e: LoopBody, x: Tile, y: Tile) -> Tile:
    return elementwise(e.b, lambda p, q: divide_floor(e.b, p, q)[0], [x, y])

"""Rows in segments: which of them a program has, found by where the segments end, which are data.

Tiles of rows are numbered through the segments. Each ends where its segment does, so that all but the last tile of a segment are whole, and no
more than a tile for each segment is not. Rows after the last segment's are one more.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from bascule.dialect.analysis.bodies.nested_loops import inner_loops
from bascule.dialect.analysis.products.segments import Segments, segments_of
from bascule.dialect.ir.functions import CHECKED
from bascule.dialect.ir.locations import operators_of
from bascule.dialect.ir.shapes import constant, expr
from bascule.dialect.mlir import ir
from bascule.dialect.scheduling.gpu.schedule_form import DomainSchedule

from ..body.emitter import unsupported
from ..values.reduction_kinds import REDUCTIONS, SCANS, reduce_together, scan_along
from ..values.tiles import Axis, Tile, elementwise, spread
from .loop_body import INNER, LoopBody


@dataclass(frozen=True)
class SegmentRows:
    """Those of a program: from `first` to before `end`, of segment `number`; `any`: whether there are some, for the grid has programs for the
    most tiles that there can be."""

    first: Tile
    end: Tile
    number: Tile
    any: ir.Value


def counts_of(op: ir.Operation, domain: DomainSchedule) -> list[Segments]:
    """The counts of segments that the schedule has a program of `op` know; they are alike."""
    found = list[Segments]()
    for loop, schedule in zip(inner_loops(op), domain.loops):
        if schedule.segments:
            segments = segments_of(loop)
            if segments is None or segments.row not in list(op.regions[0].blocks[0].arguments):
                raise unsupported(loop, "a schedule for rows in segments of what counts none")
            found.append(segments)
    return found


def enter(e: LoopBody, counts: Sequence[Segments], tile: Tile, axis: Axis, conditions: ExitStack) -> tuple[Tile, Tile]:
    """The rows along `axis` of tile `tile`, and which of them there are; `conditions`: what is emitted under it is where there are some."""
    b, ix, (first, *_) = e.b, e.ix, counts
    rows = constant(expr(e.expressions.extents[e.expressions.of(first.row).position]))
    if rows is None:
        raise unsupported(first.reduce, "segments of rows whose number is not known")
    own = rows_of(e, first, tile, axis.extent, rows)
    for each in counts:
        (result,) = each.reduce.results
        e.env[result] = Tile(_converted(e, own.number.value, result.type))
        e.done.add(each.reduce)
    e.segments, e.inside = counts, b.compare("slt", own.number.value, ix.number(first.count).value)
    e.origins.append(own.first)
    conditions.enter_context(_where(e, own.any))
    at = ix.op("arith.addi", own.first, ix.steps(axis))
    return at, elementwise(b, lambda p, n: b.compare("slt", p, n), [at, own.end])


@contextmanager
def _where(e: LoopBody, condition: ir.Value) -> Iterator[None]:
    branch = e.b.op("scf.if", [], [condition], regions=2).regions[0].blocks.append()
    with e.b.inside(branch):
        yield
        e.b.op("scf.yield")


def _converted(e: LoopBody, value: ir.Value, to: ir.IntegerType) -> ir.Value:
    if value.type == to:
        return value
    return e.b.convert("arith.extsi" if to.width > value.type.width else "arith.trunci", value, to)


def rows_of(e: LoopBody, segments: Segments, tile: Tile, extent: int, rows: int) -> SegmentRows:
    """Those of tile `tile` of so many rows, of `rows` in all."""
    b, ix = e.b, e.ix
    axis = Axis(INNER, 1 << segments.count.bit_length())  # one more at least: what is after the last
    place = ix.steps(axis)
    before = ix.op("arith.maxsi", ix.op("arith.subi", place, ix.number(1)), ix.number(0))
    starts, ends = _ends(e, segments, before, axis, rows, checked=False), _ends(e, segments, place, axis, rows)
    none = spread(b, ix.number(0), (axis,))
    starts = b.select(b.compare("eq", place.value, none), none, starts)
    _assert_rising(e, segments, starts, ends)
    size = b.same("arith.maxsi", b.same("arith.subi", ends, starts), none)
    step = spread(b, ix.number(extent), (axis,))
    tiles = b.same("arith.divui", b.same("arith.addi", size, spread(b, ix.number(extent - 1), (axis,))), step)
    (through,) = scan_along(b, SCANS["sum"], [tiles], 0)
    inside = b.same("arith.subi", spread(b, tile, (axis,)), b.same("arith.subi", through, tiles))
    mine = b.same("arith.andi", b.compare("sge", inside, none), b.compare("slt", inside, tiles))
    first = b.same("arith.addi", starts, b.same("arith.muli", inside, step))
    chosen = [b.select(mine, value, none) for value in (first, ends, place.value)]
    (row,), (end,), (number,) = reduce_together(b, [(REDUCTIONS["sum"], [value]) for value in chosen], 0)
    return SegmentRows(Tile(row), Tile(end), Tile(number), b.compare("sgt", end, ix.number(0).value))


def _ends(e: LoopBody, segments: Segments, number: Tile, axis: Axis, rows: int, *, checked: bool = True) -> ir.Value:
    """Where the segments of `number` end, along `axis`; after the last of them all rows do."""
    b, ix = e.b, e.ix
    (index,) = segments.reduce.regions[0].blocks[0].arguments
    ix.put(e.expressions.of(index).position, number, positive=True)
    count = spread(b, ix.number(segments.count), (axis,))
    there = Tile(b.compare("slt", number.value, count), (axis,))
    before, e.checks = e.checks, checked
    with e.under(there, False):
        for op in segments.ops:
            e._op(op)
    e.checks = before
    last = spread(b, ix.number(rows), (axis,))
    return b.select(there.value, spread(b, e.tile(segments.end), (axis,)), last)


def _assert_rising(e: LoopBody, segments: Segments, starts: ir.Value, ends: ir.Value) -> None:
    """That no segment ends before it begins, where its end is checked."""
    if any(CHECKED in op.attributes for op in segments.ops):
        operator = "".join(f"{name}: " for name in operators_of(segments.reduce.location)[:1])
        message = ir.StringAttr.get(f"{operator}the offsets of the groups decrease")
        e.b.op("tt.assert", [], [e.b.compare("sle", starts, ends)], {"message": message})

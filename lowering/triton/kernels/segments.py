"""Rows in segments: which of them a program has, found by where the segments end, which are data.

Tiles of rows are numbered through the segments. Each ends where its segment does, so that all but the last tile of a segment are whole, and no
more than a tile for each segment is not. Rows after the last segment's are one more.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from bascule.dialect.analysis.bodies.nested_loops import inner_loops
from bascule.dialect.analysis.products.segments import Segments, segments_of
from bascule.dialect.ir.functions import CHECKED
from bascule.dialect.ir.locations import operators_of
from bascule.dialect.ir.shapes import constant, expr
from bascule.dialect.mlir import ir
from bascule.dialect.scheduling.gpu.machine import WARP
from bascule.dialect.scheduling.gpu.schedule_form import DomainSchedule

from ..body.emitter import unsupported
from ..values.builder import Builder
from ..values.reduction_kinds import REDUCTIONS, SCANS, reduce_together, scan_along
from ..values.tiles import Axis, Tile, elementwise, spread
from .loop_body import INNER, LoopBody


@dataclass(frozen=True)
class SegmentRows:
    """Those of a tile: from `first` to before `end`, of segment `number`. `inside`: whether it is one, None: it is; `any`: whether there are
    rows, None: there are."""

    first: Tile
    end: Tile
    number: Tile
    inside: ir.Value | None
    any: ir.Value | None


@dataclass(frozen=True)
class Rows:
    """Rows in tiles of `extent`: where each segment begins and ends, the tiles that are its own and those up to its end, along `axis`, on which
    the rows after the last segment are one more."""

    counts: Sequence[Segments]
    extent: int
    axis: Axis
    starts: ir.Value
    ends: ir.Value
    own: ir.Value
    through: ir.Value

    def at(self, e: LoopBody, tile: Tile) -> SegmentRows:
        """Those of tile number `tile`, of the most that there can be."""
        b, ix, axis = e.b, e.ix, (self.axis,)
        none, place = spread(b, ix.number(0), axis), ix.steps(self.axis)
        inside = b.same("arith.subi", spread(b, tile, axis), b.same("arith.subi", self.through, self.own))
        mine = b.same("arith.andi", b.compare("sge", inside, none), b.compare("slt", inside, self.own))
        steps = b.same("arith.muli", inside, spread(b, ix.number(self.extent), axis))
        first = b.same("arith.addi", self.starts, steps)
        row, end, number = _summed(b, [b.select(mine, value, none) for value in (first, self.ends, place.value)])
        is_inside = b.compare("slt", number.value, ix.number(self.counts[0].count).value)
        return SegmentRows(row, end, number, is_inside, b.compare("sgt", end.value, ix.number(0).value))

    def apart(self, e: LoopBody) -> "tuple[RowsInside, RowsAfter]":
        """The rows of segments, and those after the last segment."""
        b, ix, count = e.b, e.ix, self.counts[0].count
        none, limit = (spread(b, ix.number(number), (self.axis,)) for number in (0, count))
        place = ix.steps(self.axis).value
        chosen = [b.select(b.compare("slt", place, limit), self.own, none)]
        chosen += [b.select(b.compare("eq", place, limit), value, none) for value in (self.own, self.starts, self.ends)]
        inside, after, first, end = _summed(b, chosen)
        return RowsInside(self, inside), RowsAfter(self, after, first, end)


@dataclass(frozen=True)
class RowsInside:
    """Those of segments, in so many `tiles`."""

    rows: Rows
    tiles: Tile

    def at(self, e: LoopBody, tile: Tile) -> SegmentRows:
        own, last = self.rows.at(e, tile), e.ix.number(self.rows.counts[0].count - 1)
        # Triton sees by the last that the number is one of a segment.
        return replace(own, number=e.ix.op("arith.minsi", own.number, last), inside=None, any=None)


@dataclass(frozen=True)
class RowsAfter:
    """Those after the last segment, from `first` to before `end`, in so many `tiles`."""

    rows: Rows
    tiles: Tile
    first: Tile
    end: Tile

    def at(self, e: LoopBody, tile: Tile) -> SegmentRows:
        ix = e.ix
        first = ix.op("arith.addi", self.first, ix.op("arith.muli", tile, ix.number(self.rows.extent)))
        return SegmentRows(first, self.end, ix.number(self.rows.counts[0].count), e.b.constant(e.b.i1, 0), None)


def _summed(b: Builder, values: Sequence[ir.Value]) -> list[Tile]:
    """The sum of each, alone: so a warp takes one instruction, of whose result the assembler knows that all threads have the same."""
    return [Tile(reduce_together(b, [(REDUCTIONS["sum"], [value])], 0)[0][0]) for value in values]


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


def enter(
    e: LoopBody, counts: Sequence[Segments], own: SegmentRows, axis: Axis, conditions: ExitStack
) -> tuple[Tile, Tile]:
    """The rows `own` of a tile along `axis`, and which of them there are; `conditions`: what is emitted under it is where there are some."""
    b, ix = e.b, e.ix
    for each in counts:
        (result,) = each.reduce.results
        e.env[result] = Tile(_converted(e, own.number.value, result.type))
        e.done.add(each.reduce)
    e.segments, e.inside = counts, own.inside
    e.origins.append(own.first)
    if own.any is not None:
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


def rows_among(e: LoopBody, counts: Sequence[Segments], extent: int) -> Rows:
    """Rows whose segments `counts` count, in tiles of `extent`."""
    b, ix, (segments, *_) = e.b, e.ix, counts
    rows = constant(expr(e.expressions.extents[e.expressions.of(segments.row).position]))
    if rows is None:
        raise unsupported(segments.reduce, "segments of rows whose number is not known")
    axis = Axis(INNER, max(WARP, 1 << segments.count.bit_length()))  # one more at least: what is after the last
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
    return Rows(counts, extent, axis, starts, ends, tiles, through)


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

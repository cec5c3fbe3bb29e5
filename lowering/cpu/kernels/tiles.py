"""The tiles of a loop: what is shared among threads. A tile is one point of the loop's other groups and a block of one group.

Tiles are numbered row-major, blocks innermost. The blocks do not depend on the number of threads, so neither do results.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bascule.dialect.analysis.bodies.body_tree import Block
from bascule.dialect.mlir import ir
from bascule.dialect.scheduling.cpu.schedule_form import Tasks

from ..body.emitter import Emitter
from ..body.schedule import LoopPlan
from ..values.builder import Index
from ..values.indexing import Indexing
from ..values.pairwise_sums import Stretches
from ..values.scalars import Scalars
from .loops import Step, clear, group_size, serial_loop, vector_loop
from .transposition import Transposed


@dataclass(frozen=True)
class Domain:
    """A loop that threads share, cut as `tasks` says."""

    body: Block
    loop: LoopPlan
    tasks: Tasks
    transposed: Transposed | None = None

    @property
    def blocked(self) -> int:
        return self.tasks.blocked

    @property
    def outer(self) -> list[int]:
        """The groups of which a tile has one point."""
        return [g for g in range(len(self.loop.groups)) if g != self.blocked and g not in self.tasks.serial]

    def count(self, ix: Indexing, size: Callable[[tuple[int, ...]], Index]) -> tuple[Index, Index]:
        """The number of tiles, none if there are no points, and of points; `size` gives that of a group."""
        tiles, points = Index(offset=1), Index(offset=1)
        for g, group in enumerate(self.loop.groups):
            points = ix.multiply(points, size(group))
            if g == self.blocked:
                tiles = ix.multiply(tiles, self._blocks(ix, size(group)))
            elif g not in self.tasks.serial:
                tiles = ix.multiply(tiles, self._points(ix, g, size(group)))
            else:
                tiles = ix.multiply(tiles, ix.least(size(group), Index(offset=1)))
        return tiles, points

    def _blocks(self, ix: Indexing, size: Index, block: int = 0) -> Index:
        block = block or self.tasks.block
        if size.constant is not None:
            return Index(offset=-(-size.constant // block))
        return ix.divide(ix.add(size, Index(offset=block - 1)), Index(offset=block))[0]

    def _points(self, ix: Indexing, g: int, size: Index) -> Index:
        """Tiles along an outer group: one a point, or one for every row of tiles where reads are transposed."""
        return (
            self._blocks(ix, size, self.tasks.rows)
            if self.transposed is not None and g == self.transposed.group
            else size
        )

    def run(
        self, e: Emitter, tile: Index, carried: list[ir.Value], step: Step, stretches: Stretches | None = None
    ) -> list[ir.Value]:
        """The points of tile number `tile`: `step` emits the body, with the loop's indices set, and returns the carried values.
        `stretches`: of what is summed over many steps."""
        clear(e, self.body)
        groups = self.loop.groups
        first, last, size = Index(), Index(), Index()
        if self.blocked >= 0:
            size = group_size(e, self.loop, groups[self.blocked])
            last = size
            blocks = self._blocks(e.ix, size)
            if blocks.constant != 1:
                tile, at = (tile, tile) if not self.outer else e.ix.divide(tile, blocks)
                first = e.ix.scale(at, self.tasks.block)
                last = e.ix.least(e.ix.add(first, Index(offset=self.tasks.block)), size)
        for g in reversed(self.outer):
            at = tile
            if g != self.outer[0]:
                tile, at = e.ix.divide(tile, self._points(e.ix, g, group_size(e, self.loop, groups[g])))
            e.env[self._argument(g)] = at
        order = sorted(self.tasks.serial)

        def nest(k: int, values: list[ir.Value]) -> Sequence[ir.Value]:
            if k < len(order):
                bounds = (Index(), group_size(e, self.loop, groups[order[k]]))
                lanes = self.loop.width if self.loop.vector >= 0 else 1
                return serial_loop(e, self._argument(order[k]), bounds, values, lambda v: nest(k + 1, v), inside=lanes)
            if self.blocked < 0:
                return step(values)
            argument = self._argument(self.blocked)
            if self.transposed is not None:
                return self._transposed(e, self.transposed, (first, last), step)
            if self.blocked != self.loop.vector:
                return serial_loop(e, argument, (first, last), values, step, stretches, self.tasks.block)
            whole = size.constant is not None and size.constant % self.loop.width == 0
            return vector_loop(
                e,
                argument,
                (first, last),
                self.loop.width,
                values,
                step,
                whole=whole,
                stretches=stretches,
                most=self.tasks.block,
            )

        return list(nest(0, carried))

    def _transposed(
        self, e: Emitter, transposed: Transposed, bounds: tuple[Index, Index], step: Step
    ) -> list[ir.Value]:
        """The points of the transposed group in a row of tiles: whole tiles first, then what is left over without them."""
        b, ix, width, height = e.b, e.ix, self.loop.width, self.tasks.rows
        across, along = self._argument(transposed.group), self._argument(self.loop.vector)
        rows = group_size(e, self.loop, self.loop.groups[transposed.group])
        first = ix.scale(e.index(across), height)
        end = ix.least(ix.add(first, Index(offset=height)), rows)
        start, stop = bounds
        even = all(
            size.constant is not None and size.constant % step == 0
            for size, step in ((rows, height), (group_size(e, self.loop, self.loop.groups[self.loop.vector]), width))
        )
        tiled = stop
        if not even:
            points = ix.add(stop, ix.scale(start, -1))
            whole = ix.add(start, ix.scale(ix.divide(points, Index(offset=width))[0], width))
            full = Scalars(b).compare("eq", ix.scalar(ix.add(first, Index(offset=height))), ix.scalar(end))
            tiled = Index(Scalars(b).select(full, ix.scalar(whole), ix.scalar(start)), level=b.level, multiple=width)

        def row(number: Index, column: Index, values: list[ir.Value]) -> list[ir.Value]:
            e.env[across] = ix.add(first, number)
            e.env[along] = Index(column.base, stride=1, level=column.level, multiple=width)
            ix.width, e.lane = width, along
            results = list(step(values))
            ix.width, e.lane = 1, None
            return results

        def tile(iv: ir.Value, values: list[ir.Value]) -> list[ir.Value]:
            column = Index(iv, level=b.level, multiple=width)
            if transposed.in_registers:
                for number, held in enumerate(transposed.hold(e, self.body, (across, first), (along, column))):
                    e.held = held
                    values = row(Index(offset=number), column, values)
                e.held = {}
                return values
            transposed.fill(e, self.body, (across, first), (along, column), width)

            def rolled(number: ir.Value, values: list[ir.Value]) -> list[ir.Value]:
                e.row = Index(number, level=b.level, multiple=1)
                return row(e.row, column, values)

            zero, one = b.constant(b.index, 0), b.constant(b.index, 1)
            return b.loop(zero, b.constant(b.index, height), one, values, rolled)

        b.loop(ix.scalar(start), ix.scalar(tiled), b.constant(b.index, width), [], tile)
        e.tiles.clear()
        if not even:
            serial_loop(e, across, (first, end), [], lambda v: vector_loop(e, along, (tiled, stop), width, v, step))
        return []

    def _argument(self, g: int) -> int:
        return self.body.arguments[self.loop.groups[g][-1]]

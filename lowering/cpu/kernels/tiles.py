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
from .fission import in_phases
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

    def digits(self, e: Emitter, tile: Index) -> list[Index]:
        """The number of a tile as those of its block and of its point of each outer group, from the last on."""
        found = []
        for size in self._sizes(e)[:-1]:
            tile, at = e.ix.divide(tile, size)
            found.append(at)
        return [*found, tile]

    def following(self, e: Emitter, digits: Sequence[Index]) -> list[Index]:
        """The digits of the next tile. Counting costs less than divisions by sizes that are not known."""
        b, scalars, found = e.b, Scalars(e.b), list[Index]()
        zero, one = b.constant(b.index, 0), b.constant(b.index, 1)
        carry = one
        for digit, size in zip(digits, self._sizes(e)):
            more = b.value("arith.addi", b.index, [e.ix.scalar(digit), carry])
            if len(found) + 1 < len(digits):
                full = scalars.compare("eq", more, e.ix.scalar(size))
                more, carry = scalars.select(full, zero, more), scalars.select(full, one, zero)
            found.append(Index(more, level=b.level, multiple=1))
        return found

    def is_counted(self, e: Emitter) -> bool:
        """Whether the digits of tiles are counted: some of their sizes are not known."""
        return any(size.constant is None for size in self._sizes(e)[:-1])

    def _sizes(self, e: Emitter) -> list[Index]:
        """How many values each digit of a tile's number has."""
        sizes = []
        if self.blocked >= 0:
            sizes.append(self._blocks(e.ix, group_size(e, self.loop, self.loop.groups[self.blocked])))
        for g in reversed(self.outer):
            sizes.append(self._points(e.ix, g, group_size(e, self.loop, self.loop.groups[g])))
        return sizes or [Index(offset=1)]

    def run(
        self,
        e: Emitter,
        digits: Sequence[Index],
        carried: list[ir.Value],
        step: Step,
        stretches: Stretches | None = None,
    ) -> list[ir.Value]:
        """The points of a tile: `step` emits the body, with the loop's indices set, and returns the carried values. `digits`: of its number.
        `stretches`: of what is summed over many steps."""
        clear(e, self.body)
        groups, digits = self.loop.groups, list(digits)
        first, last, size = Index(), Index(), Index()
        if self.blocked >= 0:
            size = group_size(e, self.loop, groups[self.blocked])
            last, at = size, digits.pop(0)
            if self._blocks(e.ix, size).constant != 1:
                first = e.ix.scale(at, self.tasks.block)
                last = e.ix.least(e.ix.add(first, Index(offset=self.tasks.block)), size)
        for g, at in zip(reversed(self.outer), digits):
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
            if self.tasks.fission:
                in_phases(e, self.body, argument, (first, last), self.tasks.block, self.tasks.fission)
                return values
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

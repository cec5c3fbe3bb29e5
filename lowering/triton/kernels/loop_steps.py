"""The steps of a walk: all tiles of what is held, each apart, or one after the other in a loop."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial, reduce

from bascule.dialect.analysis.products.descriptors import ALIGNMENT
from bascule.dialect.ir.shapes import constant
from bascule.dialect.ir.types import byte_width
from bascule.dialect.mlir import ir
from bascule.dialect.scheduling.gpu.schedule_form import LoopSchedule

from ..body.emitter import Loop
from ..values.reduction_kinds import Values
from ..values.tiles import Tile, elementwise
from .loop_body import LoopBody
from .loop_kinds import Walker, join_states
from .walked_keys import WalkedKeys


@dataclass(eq=False)
class Walk:
    """Loops over the same ranges, `size` points, at the same time. `groups`: of each walker, the indices that a position binds; `part`: from
    which point on and before which, of a sum that is cut; `wanted`: whether the program needs any of the whole steps."""

    e: LoopBody
    loop: Loop
    schedule: LoopSchedule
    size: ir.AffineExpr
    walkers: Sequence[Walker]
    groups: Sequence[list[tuple[list[int], ir.AffineExpr]]]
    keys: WalkedKeys | None = None  # what of the points has to be walked
    part: tuple[Tile, Tile] | None = None
    wanted: ir.Value | None = None

    def __post_init__(self) -> None:
        self.known = constant(self.size)

    def run(self) -> None:
        """Emits all steps, and what the walkers make of their states; the loop's axis is in force."""
        states = self._states()
        for walker in self.walkers:
            if self.loop.whole:
                walker.width = walker.whole_width
            walker.finish([state[: walker.width] for state in states])
            states = [state[walker.width :] for state in states]
        join_states(self.e.b, self.walkers, len(self.e.axes) - 1)

    def _states(self) -> list[Values]:
        """The values carried at the end; of a loop that is held, those that each tile gives."""
        if not self.walkers:
            return [[]]
        if self.known == 1:
            return [self._at(self.e.ix.number(0), self._start())]
        if self.loop.whole:
            return [self._tile(number) for number in range(self.loop.tiles)]
        return [self._walked(self.known or 0)]

    def _start(self) -> Values:
        start: Values = []
        for walker in self.walkers:
            values = walker.start()
            walker.width = len(values)
            start += values
        return start

    def _tile(self, number: int) -> Values:
        """Tile `number` of what is held; programs of a cluster have their tiles one after the other's."""
        e, loop, step = self.e, self.loop, self.schedule.step
        loop.number = number
        start = e.ix.number(number * step)
        if e.cluster > 1:
            first = e.ix.op("arith.muli", e.member, e.ix.number(loop.tiles * step))
            start = e.ix.op("arith.addi", first, start)
        return self._at(self._positions(start), [], number)

    def _walked(self, known: int) -> Values:
        """Step by step, `known` points or, if 0, as many as there are. Steps that are kept stand before the loop, one that is not whole
        after it, unless all walkers take it as one that is."""
        e, axis = self.e, self.loop.axis
        stride = 1 if axis is None else axis.extent
        first = self.schedule.kept if axis is not None and self.known != 0 else 0
        padded = all(walker.pads for walker in self.walkers)
        last = -(-known // stride) if padded else known // stride
        carried = self._start()
        if self.part is not None:
            return self._parted(*self.part, carried)
        if self.keys is not None:
            return self._between(self.keys, last, carried)
        if self.known is None and self.schedule.dot and not padded and self.wanted is None:
            return self._between(WalkedKeys(e.ix.number(0), e.ix.evaluate(self.size)), last, carried)
        for number in range(first):
            carried = self._apart(number, carried)
        if not known or last > first:
            end = e.ix.number(last * stride) if known else e.ix.evaluate(self.size)
            if self.wanted is not None:
                end = Tile(e.b.select(self.wanted, end.value, e.ix.number(0).value))
            bounds = e.ix.number(first * stride).value, end.value, e.ix.number(stride).value
            carried = e.b.loop(bounds, carried, self._step, e.stages, runs=bool(known))
        if known % stride and not padded:
            carried = self._apart(last, carried)
        return carried

    def _parted(self, first: Tile, end: Tile, carried: Values) -> Values:
        """The steps from `first` on that are whole, then the rest before `end`, which is masked. Where boxes of tensor descriptors have to
        begin at aligned places, whole steps do, and what is before them is in a masked step too."""
        b, ix, step, aligned = (
            self.e.b,
            self.e.ix,
            self.e.ix.number(self.schedule.step),
            self.e.ix.number(self._aligned),
        )
        begin = first
        if self._aligned > 1:
            begin = ix.op("arith.addi", first, ix.number(self._aligned - 1))
            begin = ix.op("arith.muli", ix.op("arith.divui", begin, aligned), aligned)
        steps = ix.op("arith.divui", ix.op("arith.maxsi", ix.op("arith.subi", end, begin), ix.number(0)), step)
        whole = ix.op("arith.addi", begin, ix.op("arith.muli", steps, step))
        carried = b.loop((begin.value, whole.value, step.value), carried, self._step, self.e.stages)

        def rest(start: ir.Value, values: Values) -> Values:
            self.loop.start = start
            position = self._positions(Tile(start))
            bound = elementwise(b, partial(b.compare, "slt"), [position, end])
            if begin is not first:
                inside = elementwise(b, partial(b.compare, "sge"), [position, first])
                bound = elementwise(b, partial(b.same, "arith.andi"), [bound, inside])
            return self._masked(position, values, bound)

        if begin is first:
            return b.loop((whole.value, end.value, step.value), carried, rest)
        before = ix.op("arith.subi", begin, step)

        def either(number: ir.Value, values: Values) -> Values:
            return rest(b.select(b.compare("eq", number, ix.number(0).value), before.value, whole.value), values)

        low = b.select(b.compare("slt", first.value, begin.value), ix.number(0).value, ix.number(1).value)
        high = b.select(b.compare("slt", whole.value, end.value), ix.number(2).value, ix.number(1).value)
        return b.loop((low, high, ix.number(1).value), carried, either)

    @cached_property
    def _aligned(self) -> int:
        """Of how many points the hardware begins a box at multiples alone, where memory runs along them: at others it stops the kernel, as
        an illegal instruction (H200, 2026-11-27)."""
        found = self.e.described.items()
        runs = [load.operands[0].type.element_type for load, each in found if not each.is_transposed]
        return max((ALIGNMENT // byte_width(element) for element in runs), default=1)

    def _between(self, keys: WalkedKeys, last: int, carried: Values) -> Values:
        """The steps of the walk; the one after `last`, or after all that are whole where it is not known how many, in a loop that takes it or
        not. What does not vary in a loop is made before it, as if it took a step: no address is of another step's points."""
        b, ix, step = self.e.b, self.e.ix, self.schedule.step
        whole = ix.number(last * step) if self.known else self._multiple(ix.evaluate(self.size))
        bounds = keys.begin.value, ix.op("arith.minsi", keys.end, whole).value, ix.number(step).value
        carried = b.loop(
            bounds, carried, lambda start, values: self._whole(start, values, keys), self.e.stages, runs=True
        )
        if self.known == last * step:
            return carried
        bounds = whole.value, keys.end.value, ix.number(step).value
        return b.loop(bounds, carried, lambda start, values: self._last(start, values, last), runs=True)

    def _multiple(self, points: Tile) -> Tile:
        """Those of `points` that are in whole steps."""
        ix, step = self.e.ix, self.e.ix.number(self.schedule.step)
        return ix.op("arith.muli", ix.op("arith.divui", points, step), step)

    def _whole(self, start: ir.Value, values: Values, keys: WalkedKeys) -> Values:
        """A step that is whole. In many of them a mask hides nothing."""
        if not keys.settled:
            return self._inside(start, values)
        b = self.e.b
        ends = [("sge", keys.shown), ("slt", keys.hidden)]
        plain = [b.compare(predicate, start, end.value) for predicate, end in ends if end is not None]
        with self.e.settling(
            {each.condition: each.shown for each in keys.settled}, reduce(partial(b.same, "arith.andi"), plain)
        ):
            return self._inside(start, values)

    def _inside(self, start: ir.Value, values: Values) -> Values:
        """A step of which all points are inside of the loops."""
        self.loop.start = start
        return self._masked(self._positions(Tile(start)), values, None)

    def _last(self, start: ir.Value, values: Values, number: int) -> Values:
        self.loop.start = start
        return self._at(self._positions(Tile(start)), values, number if self.known else None)

    def _step(self, start: ir.Value, values: Values) -> Values:
        """Any step in the loop."""
        self.loop.start = start
        return self._at(self._positions(Tile(start)), values, 0 if self.known else None)

    def _apart(self, number: int, values: Values) -> Values:
        """Step `number`, which is not in the loop: later walks find what it reads in registers."""
        start = self.e.ix.number(number * self.schedule.step)
        self.loop.start, self.loop.keeps = start.value, True
        values = self._at(self._positions(start), values, number)
        self.loop.keeps = False
        return values

    def _positions(self, start: Tile) -> Tile:
        """Those of a step that begins at `start`."""
        return start if self.loop.axis is None else self.e.ix.range(self.loop.axis, start)

    def _at(self, position: Tile, values: Values, number: int | None = None) -> Values:
        """The loops' bodies at `position`, that of tile or step `number` (None: of any); what they carry on."""
        return self._masked(position, values, self._bound(position, number))

    def _masked(self, position: Tile, values: Values, bound: Tile | None) -> Values:
        """The loops' bodies at `position` where `bound` holds; what they carry on."""
        e, carried = self.e, list[ir.Value]()
        with e.under(bound, False):
            for walker, groups in zip(self.walkers, self.groups):
                own, values = values[: walker.width], values[walker.width :]
                if groups:
                    e.ix.bind(groups, position)
                carried += walker.step(own, position, bound)
        return carried

    def _bound(self, position: Tile, number: int | None) -> Tile | None:
        """The mask of `position` inside of the loops; None: all of it."""
        e, loop = self.e, self.loop
        if loop.axis is None:
            return None
        if number is None:
            return e.bounded(position, self.size, loop.axis.extent)
        return e.bounded_tile(position, self.size, (e.cluster - 1) * loop.tiles + number, loop.axis.extent)

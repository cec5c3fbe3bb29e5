"""A step of a walk taken into one state a thread, or, of columns, one for each that a thread loads together.

A tile of a step is seen as (columns, repeats, lanes, neighbours): a thread has all repeats and neighbours of a lane, where its loads are of
so many neighbours. So what it has is combined without other threads, and the state is (columns, lanes), however long the step.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, prod

from bascule.dialect.mlir import ir

from .builder import Builder, element
from .reductions import REDUCTIONS, Reduction, Values, over, reduce_along, softmax_power, welford
from .scalars import extreme

LONG_WALK = 64  # steps


@dataclass(frozen=True)
class Fold:
    """Of tiles of `columns` (none: a row) by `repeats * lanes * neighbours` elements, powers of two."""

    columns: tuple[int, ...]
    repeats: int
    lanes: int
    neighbours: int

    @staticmethod
    def of(columns: Sequence[int], step: int, neighbours: int, threads: int) -> "Fold":
        """`neighbours`: elements that a thread loads together, along the row, or along the columns."""
        if columns:
            lanes, neighbours = max(1, min(step, threads * neighbours // prod(columns))), 1
        else:
            lanes = min(threads, step // neighbours)
        return Fold(tuple(columns), step // (lanes * neighbours), lanes, neighbours)

    @property
    def points(self) -> int:
        """Elements of a state in a step."""
        return self.repeats * self.neighbours

    def state(self, scalar: ir.Type) -> ir.Type:
        """The type of a value of the state."""
        return ir.RankedTensorType.get([*self.columns, self.lanes], scalar)

    def split(self, b: Builder, tile: ir.Value) -> ir.Value:
        shape = [*self.columns, self.repeats, self.lanes, self.neighbours]
        return b.value("tt.reshape", ir.RankedTensorType.get(shape, element(tile.type)), [tile])

    def along(self, b: Builder, reduction: Reduction, parts: Values) -> Values:
        """What each state has of split tiles, combined."""
        axis = len(self.columns)
        return reduce_along(b, reduction, reduce_along(b, reduction, parts, axis + 2), axis)

    def over(self, b: Builder, value: ir.Value, parts: ir.Value) -> ir.Value:
        """A value of the state at each element of a split tile."""
        axis = len(self.columns)
        middle = ir.RankedTensorType.get([*self.columns, self.lanes, self.neighbours], element(value.type))
        return over(b, over(b, value, middle, axis + 1), parts.type, axis)


@dataclass(frozen=True)
class Folding:
    """What a walk carries for one kind of reduction over elements of type `type`, where its positions are of type `index`. `steps`: how many it
    takes, None: not known."""

    fold: Fold
    kind: str
    type: ir.Type
    index: ir.Type
    steps: int | None

    @property
    def reduction(self) -> Reduction:
        return REDUCTIONS[self.kind]

    @property
    def _compensated(self) -> bool:
        """Whether roundings are carried beside the sum: of so many steps they add up."""
        return (
            self.kind == "sum"
            and isinstance(self.type, ir.FloatType)
            and (self.steps is None or self.steps > LONG_WALK)
        )

    def start(self, b: Builder) -> Values:
        state = self.reduction.start(b, self.type, self.index, self.fold.state)
        beside = self._compensated or self.kind == "welford"
        return [*state, b.constant(state[0].type, 0.0)] if beside else state

    def take(
        self, b: Builder, state: Values, elements: Values, inside: ir.Value | None, number: Callable[[], ir.Value]
    ) -> Values:
        """`state` with a step more. `elements`: the states of its elements; `inside`: which count, None: all; `number()`: the steps there
        have been, this one with them, as a float of the elements' type."""
        if self.kind in _FOLDS:
            return _FOLDS[self.kind](b, self.fold, state, elements[0], inside, number)
        if inside is not None:
            identity = self.reduction.identity(element(elements[0].type))
            nothing = [b.constant(value.type, number) for value, number in zip(elements, identity)]
            elements = [b.select(inside, value, none) for value, none in zip(elements, nothing)]
        step = self.fold.along(b, self.reduction, [self.fold.split(b, value) for value in elements])
        return _two_sum(b, state, step[0]) if self._compensated else self.reduction.combine(b, state, step)

    def finish(self, b: Builder, state: Values, axis: int) -> tuple[Values, ir.Value | None]:
        """The states of the reduction, and from where means among them are counted, if there are any: the same along `axis`."""
        if self.kind == "welford":
            mean, squares, count, origins = state
            (origin,) = reduce_along(b, REDUCTIONS["max"], [origins], axis)  # any that all threads agree on
            apart = b.same("arith.subf", origins, over(b, origin, origins.type, axis))
            return [b.same("arith.addf", mean, apart), squares, count], origin
        if not self._compensated:
            return state, None
        total, rest = state  # beside an infinite sum the rest is NaN
        return [b.select(b.compare("oeq", rest, rest), b.same("arith.addf", total, rest), total)], None


def _two_sum(b: Builder, state: Values, x: ir.Value) -> Values:
    """The sum and all that has been rounded off from it; see Knuth, The Art of Computer Programming, 4.2.2, theorem B."""
    before, rest = state
    total = b.same("arith.addf", before, x)
    taken = b.same("arith.subf", total, before)
    lost = b.same("arith.subf", before, b.same("arith.subf", total, taken))
    lost = b.same("arith.addf", lost, b.same("arith.subf", x, taken))
    return [total, b.same("arith.addf", rest, lost)]


def _softmax(
    b: Builder, fold: Fold, state: Values, x: ir.Value, inside: ir.Value | None, steps: Callable[[], ir.Value]
) -> Values:
    """The state is scaled once a step. Where the largest is -inf there is nothing yet: about 0 all factors are 0."""
    lowest = float("-inf")
    if inside is not None:
        x = b.select(inside, x, b.constant(x.type, lowest))
    parts = fold.split(b, x)
    (most,) = fold.along(b, REDUCTIONS["max"], [parts])
    largest = extreme(b, state[0], most, True)
    none = b.compare("oeq", largest, b.constant(largest.type, lowest))
    centre = b.select(none, b.constant(largest.type, 0.0), largest)
    factor = softmax_power(b, b.same("arith.subf", state[0], centre))
    powers = softmax_power(b, b.same("arith.subf", parts, fold.over(b, centre, parts)))
    (total,) = fold.along(b, REDUCTIONS["sum"], [powers])
    return [largest, b.value("math.fma", total.type, [state[1], factor, total])]


def _welford(
    b: Builder, fold: Fold, state: Values, x: ir.Value, inside: ir.Value | None, steps: Callable[[], ir.Value]
) -> Values:
    """The mean of what a thread has, the squares about it, and Chan's merge of those; whole steps need no division a thread.

    A fourth value is the mean of the first step, as it was rounded. Means are distances from it: far from zero the rounding of a mean itself
    would be as large as the distance between two of them.
    """
    mean, squares, count, origin = state
    total = REDUCTIONS["sum"]
    if inside is None:
        parts = fold.split(b, x)
        (middle,) = fold.along(b, total, [parts])
        each = b.constant(middle.type, 1.0 / fold.points)
        middle = b.same("arith.mulf", middle, each)
        deviation = b.same("arith.subf", parts, fold.over(b, middle, parts))
        (rounding,) = fold.along(b, total, [deviation])
        (deviations,) = fold.along(b, total, [b.same("arith.mulf", deviation, deviation)])
        distance, origin = _distance(b, middle, b.same("arith.mulf", rounding, each), count, origin)
        share = b.value("tt.splat", mean.type, [b.same("arith.divf", b.constant(element(x.type), 1.0), steps())])
        delta = b.same("arith.subf", distance, mean)
        after = b.same("arith.addf", mean, b.same("arith.mulf", delta, share))
        between = b.same("arith.mulf", delta, b.same("arith.subf", distance, after))
        points = b.constant(count.type, float(fold.points))
        more = b.same("arith.addf", deviations, b.same("arith.mulf", between, points))
        return [after, b.same("arith.addf", squares, more), b.same("arith.addf", count, points), origin]
    zero, one = b.constant(x.type, 0.0), b.constant(x.type, 1.0)
    here = fold.split(b, b.select(inside, one, zero))
    parts = fold.split(b, b.select(inside, x, zero))
    (counts,) = fold.along(b, total, [here])
    (sums,) = fold.along(b, total, [parts])
    divisor = b.same("arith.maximumf", counts, b.constant(counts.type, 1.0))
    divide = "tt.precise_divf" if element(x.type) == b.f32 else "arith.divf"
    middle = b.same(divide, sums, divisor)
    deviation = b.same("arith.mulf", here, b.same("arith.subf", parts, fold.over(b, middle, parts)))
    (rounding,) = fold.along(b, total, [deviation])
    (deviations,) = fold.along(b, total, [b.same("arith.mulf", deviation, deviation)])
    distance, origin = _distance(b, middle, b.same(divide, rounding, divisor), count, origin)
    return [*welford(b, [mean, squares, count], [distance, deviations, counts]), origin]


def _distance(
    b: Builder, middle: ir.Value, rounding: ir.Value, count: ir.Value, origin: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """The distance of `middle` + `rounding` from the origin, and the origin: the first `middle`, if it is finite."""
    zero = b.constant(middle.type, 0.0)
    finite = b.compare("olt", b.same("math.absf", middle), b.constant(middle.type, inf))
    first = b.same("arith.andi", finite, b.compare("oeq", count, zero))
    origin = b.select(first, middle, origin)
    rounding = b.select(b.compare("oeq", rounding, rounding), rounding, zero)  # about infinity it is NaN
    return b.same("arith.addf", b.same("arith.subf", middle, origin), rounding), origin


_FOLDS: dict[str, Callable[[Builder, Fold, Values, ir.Value, ir.Value | None, Callable[[], ir.Value]], Values]] = {
    "softmax": _softmax,
    "welford": _welford,
}  # the others combine their elements' states

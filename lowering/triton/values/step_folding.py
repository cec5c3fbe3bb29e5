"""A step of a walk taken into one state a thread, or, of columns, one for each that a thread loads together.

A tile of a step is seen as (columns, repeats, lanes, neighbours): a thread has all repeats and neighbours of a lane, where its loads are of
so many neighbours. So what it has is combined without other threads, and the state is (columns, lanes), however long the step.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from bascule.dialect.mlir import ir

from .builder import Builder, element
from .reduction_kinds import REDUCTIONS, Reduction, Values, over, reduce_along, softmax_power, welford
from .scalars import extreme


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
        """Combines what each state has of split tiles."""
        axis = len(self.columns)
        return reduce_along(b, reduction, reduce_along(b, reduction, parts, axis + 2), axis)

    def over(self, b: Builder, value: ir.Value, parts: ir.Value) -> ir.Value:
        """A value of the state at each element of a split tile."""
        axis = len(self.columns)
        middle = ir.RankedTensorType.get([*self.columns, self.lanes, self.neighbours], element(value.type))
        return over(b, over(b, value, middle, axis + 1), parts.type, axis)


def take(
    b: Builder,
    fold: Fold,
    kind: str,
    state: Values,
    elements: Values,
    inside: ir.Value | None,
    steps: Callable[[], ir.Value],
) -> Values:
    """`state`, of a reduction of `kind`, with a step more. `elements`: the states of its elements; `inside`: which count, None: all;
    `steps()`: how many there have been, this one with them, as a float of the elements' type."""
    if kind in _FOLDS:
        return _FOLDS[kind](b, fold, state, elements[0], inside, steps)
    reduction = REDUCTIONS[kind]
    if inside is not None:
        identity = reduction.identity(element(elements[0].type))
        nothing = [b.constant(value.type, number) for value, number in zip(elements, identity)]
        elements = [b.select(inside, value, none) for value, none in zip(elements, nothing)]
    return reduction.combine(b, state, fold.along(b, reduction, [fold.split(b, value) for value in elements]))


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
    """The mean of what a thread has, the squares about it, and Chan's merge of those; whole steps need no division a thread."""
    mean, squares, count = state
    total = REDUCTIONS["sum"]
    if inside is None:
        parts = fold.split(b, x)
        (middle,) = fold.along(b, total, [parts])
        middle = b.same("arith.mulf", middle, b.constant(middle.type, 1.0 / fold.points))
        deviation = b.same("arith.subf", parts, fold.over(b, middle, parts))
        (deviations,) = fold.along(b, total, [b.same("arith.mulf", deviation, deviation)])
        share = b.value("tt.splat", mean.type, [b.same("arith.divf", b.constant(element(x.type), 1.0), steps())])
        delta = b.same("arith.subf", middle, mean)
        after = b.same("arith.addf", mean, b.same("arith.mulf", delta, share))
        between = b.same("arith.mulf", delta, b.same("arith.subf", middle, after))
        points = b.constant(count.type, float(fold.points))
        more = b.same("arith.addf", deviations, b.same("arith.mulf", between, points))
        return [after, b.same("arith.addf", squares, more), b.same("arith.addf", count, points)]
    zero, one = b.constant(x.type, 0.0), b.constant(x.type, 1.0)
    here = fold.split(b, b.select(inside, one, zero))
    parts = fold.split(b, b.select(inside, x, zero))
    (counts,) = fold.along(b, total, [here])
    (sums,) = fold.along(b, total, [parts])
    divisor = b.same("arith.maximumf", counts, b.constant(counts.type, 1.0))
    middle = b.same("tt.precise_divf" if element(x.type) == b.f32 else "arith.divf", sums, divisor)
    deviation = b.same("arith.subf", parts, fold.over(b, middle, parts))
    counted = b.same("arith.mulf", deviation, b.same("arith.mulf", deviation, here))
    (deviations,) = fold.along(b, total, [counted])
    return welford(b, state, [middle, deviations, counts])


_FOLDS: dict[str, Callable[[Builder, Fold, Values, ir.Value, ir.Value | None, Callable[[], ir.Value]], Values]] = {
    "softmax": _softmax,
    "welford": _welford,
}  # the others combine their elements' states

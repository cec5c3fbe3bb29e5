"""Means and variances in one pass: the mean, the sum of squared deviations from it, and the count.

Sets are put together as in Chan, Golub, LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances" (1979); one
element at a time that is Welford's method.
"""

from dataclasses import dataclass
from math import inf
from typing import TypeAlias

from bascule.dialect.mlir import ir
from bascule.dialect.scheduling.cpu.schedule_form import SHORT

from ..values.lanes import extract, halves, pieces
from ..values.scalars import Scalars, element

Values: TypeAlias = list[ir.Value]


@dataclass(frozen=True)
class Welford:
    """Element by element: scalars, or a set a lane, where all lanes have seen as many.

    A fourth accumulator is the first element. Means are distances from it: far from zero the rounding of a mean itself, once an element,
    would be as large as the distance between two of them. The fifth is by how much the mean is too large for its roundings, as in Kahan,
    "Further remarks on reducing truncation errors" (1965).
    """

    positions, sums = False, True

    def of_all_lanes(self, whole: bool, vectors: int | None = None) -> "Welford":
        """The kind where all lanes become one result. `whole`: there are no masks; `vectors`: how many there are, where that is known."""
        if vectors is not None and 1 < vectors <= SHORT:
            return ShiftedWelford(vectors)
        return WelfordOfLanes(whole)

    def start(self, s: Scalars, type_: ir.Type) -> Values:
        return [s.constant(type_, 0.0)] * 5

    def take(self, s: Scalars, state: Values, x: ir.Value, mask: ir.Value | None, position: ir.Value | None) -> Values:
        mean, squares, count, origin, excess = state
        origin = s.select(s.compare("oeq", count, s.constant(x.type, 0.0)), x, origin)
        count = s.op("arith.addf", count, s.constant(x.type, 1.0))
        x = s.op("arith.subf", x, origin)
        delta = s.op("arith.subf", x, mean)
        step = s.op("arith.subf", self._share(s, delta, count), excess)
        before, mean = mean, s.op("arith.addf", mean, step)
        excess = s.op("arith.subf", s.op("arith.subf", mean, before), step)
        squares = s.op("arith.addf", squares, s.op("arith.mulf", delta, s.op("arith.subf", x, mean)))
        return [mean, squares, count, origin, excess]

    def closed(self, s: Scalars, state: Values) -> Values:
        """The mean, the squares and the count. The mean of one element is that element, an infinite one too."""
        mean, squares, count, origin, excess = state
        mean = s.op("arith.addf", origin, s.op("arith.subf", mean, excess))
        is_one = s.compare("oeq", count, s.constant(count.type, 1.0))
        return [s.select(is_one, origin, mean), squares, count]

    @staticmethod
    def _share(s: Scalars, delta: ir.Value, count: ir.Value) -> ir.Value:
        """`delta` / `count`; of lanes, with one division for all."""
        if not isinstance(delta.type, ir.VectorType):
            return s.op("arith.divf", delta, count)
        one = s.constant(element(count.type), 1.0)
        return s.op("arith.mulf", delta, spread(s, count.type, s.op("arith.divf", one, extract(s, count, 0))))

    def merge(self, s: Scalars, x: Values, y: Values) -> Values:
        count = s.op("arith.addf", x[2], y[2])
        delta = s.op("arith.subf", y[0], x[0])
        share = s.op("arith.divf", y[2], _at_least_one(s, count))
        mean = s.op("arith.addf", x[0], s.op("arith.mulf", delta, share))
        cross = s.op("arith.mulf", delta, s.op("arith.mulf", delta, s.op("arith.mulf", x[2], share)))
        squares = s.op("arith.addf", s.op("arith.addf", x[1], y[1]), cross)
        return [mean, squares, count]

    def fresh(self, s: Scalars, state: Values) -> Values:
        """The accumulators that a stretch of a long loop starts from: squares are summed in each on its own."""
        mean, squares, *others = state
        return [mean, s.constant(squares.type, 0.0), *others]

    def close(self, s: Scalars, before: Values, after: Values) -> Values:
        mean, squares, *others = after
        return [mean, s.op("arith.addf", before[1], squares), *others]

    def finish(self, s: Scalars, state: Values) -> Values:
        return state


@dataclass(frozen=True)
class WelfordOfLanes(Welford):
    """Vector by vector, with a set for each lane of one register: the registers that a vector fills are a set of their own, whose
    mean and deviations need no division, and that is then put to the others. So operations wait for each other once a vector.

    The fourth accumulator is the mean of the first such set, as it was rounded.
    """

    whole: bool = False  # all lanes see as many

    def start(self, s: Scalars, type_: ir.Type) -> Values:
        lanes = min(type_.shape[0], s.b.register // element(type_).width)
        return [s.constant(ir.VectorType.get([lanes], element(type_)), 0.0)] * 4

    def take(self, s: Scalars, state: Values, x: ir.Value, mask: ir.Value | None, position: ir.Value | None) -> Values:
        mean, squares, count, origin = state
        zero, one = (s.constant(mean.type, number) for number in (0.0, 1.0))
        lanes = mean.type.shape[0]
        parts, masks = pieces(s, x, lanes), [] if mask is None else pieces(s, mask, lanes)

        def within(values: Values) -> Values:
            return [s.select(m, value, zero) for m, value in zip(masks, values)] if masks else values

        if masks:
            more = _total(s, within([one] * len(parts)))
            inverse = s.op("arith.divf", one, _at_least_one(s, more))
        else:
            more, inverse = (s.constant(mean.type, number) for number in (len(parts), 1 / len(parts)))
        middle = s.op("arith.mulf", _total(s, within(parts)), inverse)
        deviations = within([s.op("arith.subf", part, middle) for part in parts])
        new = s.op("arith.mulf", deviations[0], deviations[0])
        for deviation in deviations[1:]:
            new = s.fma(deviation, deviation, new)
        rounding = s.op("arith.mulf", _total(s, deviations), inverse)  # how far `middle` is from the mean
        origin = s.select(s.compare("oeq", count, zero), middle, origin)
        total = s.op("arith.addf", count, more)
        weight = s.op("arith.divf", more, _at_least_one(s, total) if masks else total)
        delta = s.op("arith.subf", s.op("arith.addf", s.op("arith.subf", middle, origin), rounding), mean)
        between = s.op("arith.mulf", delta, s.op("arith.mulf", delta, s.op("arith.mulf", count, weight)))
        squares = s.op("arith.addf", squares, s.op("arith.addf", new, between))
        return [s.fma(delta, weight, mean), squares, total, origin]

    def fold(self, s: Scalars, state: Values) -> Values:
        """One set from those of all lanes: the mean of the means, and deviations from that, all as distances from the first lane's
        fourth accumulator."""
        means, squares, counts, origins = state
        lanes, origin = means.type.shape[0], extract(s, origins, 0)
        means = s.op("arith.addf", means, s.op("arith.subf", origins, spread(s, means.type, origin)))
        if self.whole:
            total = s.op("arith.mulf", extract(s, counts, 0), s.constant(origin.type, lanes))
            mean = s.op("arith.mulf", _lanes_sum(s, means), s.constant(origin.type, 1 / lanes))
        else:
            total = _lanes_sum(s, counts)
            mean = s.op("arith.divf", _lanes_sum(s, s.op("arith.mulf", means, counts)), _at_least_one(s, total))
        delta = s.op("arith.subf", means, spread(s, means.type, mean))
        cross = s.op("arith.mulf", delta, s.op("arith.mulf", delta, counts))
        return [s.op("arith.addf", origin, mean), _lanes_sum(s, s.op("arith.addf", squares, cross)), total]


@dataclass(frozen=True)
class ShiftedWelford(Welford):
    """A few whole vectors: the sum of the distances from an origin and of their squares, for each lane. Three operations a register, which
    wait for nobody.

    The origin is the mean of the first vector. So it is no further from the mean than the elements it was made from are, and the squares are
    at most `vectors` + 1 times those of the distances from the mean: what cancels is no more than that.
    """

    vectors: int

    def first(self, s: Scalars, x: ir.Value) -> Values:
        """The accumulators after the first vector: the origin, the sums, the squares."""
        parts = pieces(s, x, min(x.type.shape[0], s.b.register // element(x.type).width))
        share = s.constant(parts[0].type, 1 / x.type.shape[0])
        middle = _lanes_sum(s, s.op("arith.mulf", _total(s, parts), share))
        origin = spread(s, parts[0].type, middle)
        sums = [s.op("arith.subf", part, origin) for part in parts]
        return [middle, *sums, *(s.op("arith.mulf", d, d) for d in sums)]

    def take(self, s: Scalars, state: Values, x: ir.Value, mask: ir.Value | None, position: ir.Value | None) -> Values:
        middle, count = state[0], len(state) // 2
        origin = spread(s, state[1].type, middle)
        distances = [s.op("arith.subf", part, origin) for part in pieces(s, x, origin.type.shape[0])]
        sums = [s.op("arith.addf", total, d) for total, d in zip(state[1 : 1 + count], distances)]
        squares = [s.fma(d, d, total) for total, d in zip(state[1 + count :], distances)]
        return [middle, *sums, *squares]

    def fresh(self, s: Scalars, state: Values) -> Values:
        return state

    def close(self, s: Scalars, before: Values, after: Values) -> Values:
        return after

    def fold(self, s: Scalars, state: Values) -> Values:
        """One set from those of all lanes."""
        middle, parts = state[0], len(state) // 2
        count = self.vectors * parts * state[1].type.shape[0]
        total = _lanes_sum(s, _total(s, state[1 : 1 + parts]))
        squares = _lanes_sum(s, _total(s, state[1 + parts :]))
        mean = s.op("arith.mulf", total, s.constant(middle.type, 1 / count))
        within = s.op("arith.subf", squares, s.op("arith.mulf", total, mean))
        is_beyond = s.compare("oeq", squares, s.constant(squares.type, inf))
        is_finite = s.compare("oeq", s.op("arith.subf", total, total), s.constant(total.type, 0.0))
        within = s.select(s.op("arith.andi", is_beyond, is_finite), squares, within)
        return [s.op("arith.addf", middle, mean), within, s.constant(middle.type, count)]


def spread(s: Scalars, type_: ir.Type, x: ir.Value) -> ir.Value:
    return s.b.value("vector.broadcast", type_, [x], None, s.level)


def _at_least_one(s: Scalars, count: ir.Value) -> ir.Value:
    """For a divisor: a lane that has seen nothing has a sum of 0."""
    return s.extreme(count, s.constant(count.type, 1.0), True)


def _total(s: Scalars, parts: Values) -> ir.Value:
    """The sum, as a tree; the number of `parts` is a power of two."""
    while len(parts) > 1:
        parts = [s.op("arith.addf", x, y) for x, y in zip(parts[::2], parts[1::2])]
    return parts[0]


def _lanes_sum(s: Scalars, x: ir.Value) -> ir.Value:
    """The sum of all lanes, as a tree."""
    while x.type.shape[0] > 1:
        x = s.op("arith.addf", *halves(s, x))
    return extract(s, x, 0)

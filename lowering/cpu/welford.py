"""Means and variances in one pass: the mean, the sum of squared deviations from it, and the count.

Sets are put together as in Chan, Golub, LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances" (1979); one
element at a time that is Welford's method.
"""

from dataclasses import dataclass
from typing import TypeAlias

from bascule.dialect.mlir import ir

from .registers import extract, halves, pieces
from .scalars import Scalars, element

Values: TypeAlias = list[ir.Value]


@dataclass(frozen=True)
class Welford:
    """Element by element: scalars, or a set a lane, where all lanes have seen as many."""

    positions = False

    def of_all_lanes(self, whole: bool) -> "Welford":
        """The kind where all lanes become one result. `whole`: there are no masks."""
        return WelfordOfLanes(whole)

    def start(self, s: Scalars, type_: ir.Type) -> Values:
        return [s.constant(type_, 0.0)] * 3

    def take(self, s: Scalars, state: Values, x: ir.Value, mask: ir.Value | None, position: ir.Value | None) -> Values:
        mean, squares, count = state
        count = s.op("arith.addf", count, s.constant(x.type, 1.0))
        delta = s.op("arith.subf", x, mean)
        mean = s.op("arith.addf", mean, self._share(s, delta, count))
        squares = s.op("arith.addf", squares, s.op("arith.mulf", delta, s.op("arith.subf", x, mean)))
        return [mean, squares, count]

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
        cross = s.op("arith.mulf", s.op("arith.mulf", delta, delta), s.op("arith.mulf", x[2], share))
        squares = s.op("arith.addf", s.op("arith.addf", x[1], y[1]), cross)
        return [mean, squares, count]

    def finish(self, s: Scalars, state: Values) -> Values:
        return state


@dataclass(frozen=True)
class WelfordOfLanes(Welford):
    """Vector by vector, with a set for each lane of one register: the registers that a vector fills are a set of their own, whose
    mean and deviations need no division, and that is then put to the others. So operations wait for each other once a vector.

    A fourth accumulator is the mean of the first such set, as it was rounded. Means are distances from it: far from zero the rounding of
    a mean itself would be as large as the distance between two of them.
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
        between = s.op("arith.mulf", s.op("arith.mulf", delta, delta), s.op("arith.mulf", count, weight))
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
        cross = s.op("arith.mulf", counts, s.op("arith.mulf", delta, delta))
        return [s.op("arith.addf", origin, mean), _lanes_sum(s, s.op("arith.addf", squares, cross)), total]


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

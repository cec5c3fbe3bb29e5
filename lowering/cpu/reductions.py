"""The kinds of `bascule.reduce` and `bascule.scan`: what the accumulators start from, take in, and how two sets of them meet.

Accumulators are values of one width (scalars, or one a lane). `merge` is associative up to rounding and commutative, except
that of two equal extremes the one at the smaller position stays.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf, nan
from typing import TypeAlias

from bascule.dialect.mlir import ir

from .registers import extract, halves, joined, registers
from .scalars import Scalars, element, is_float, like

Values: TypeAlias = list[ir.Value]


def lanes_sum(s: Scalars, x: ir.Value) -> ir.Value:
    """The sum of all lanes, as a tree."""
    while x.type.shape[0] > 1:
        x = s.op("arith.addf", *halves(s, x))
    return extract(s, x, 0)


def lowest(type_: ir.Type, unsigned: bool = False) -> int | float:
    e = element(type_)
    if isinstance(e, ir.FloatType):
        return -inf
    return 0 if unsigned else -(1 << (e.width - 1))


def highest(type_: ir.Type, unsigned: bool = False) -> int | float:
    e = element(type_)
    if isinstance(e, ir.FloatType):
        return inf
    return -1 if unsigned else (1 << (e.width - 1)) - 1  # -1: all bits set


@dataclass(frozen=True)
class Kind:
    """One accumulator, combined by `combine`; `identity` is the number it starts from. `together`: a cheaper way to combine where all
    lanes become one result."""

    identity: Callable[[ir.Type], int | float]
    combine: Callable[[Scalars, ir.Value, ir.Value], ir.Value]
    together: Callable[[Scalars, ir.Value, ir.Value], ir.Value] | None = None

    positions = False

    def start(self, s: Scalars, type_: ir.Type) -> Values:
        return [s.constant(type_, self.identity(type_))]

    def take(self, s: Scalars, state: Values, x: ir.Value, mask: ir.Value | None, position: ir.Value | None) -> Values:
        """`state` after the element `x`; lanes not in `mask` keep theirs."""
        if mask is not None:
            x = s.select(mask, x, s.constant(x.type, self.identity(x.type)))
        return [self.combine(s, state[0], x)]

    def of_all_lanes(self) -> "Kind":
        """The kind where all lanes become one result."""
        return self if self.together is None else replace(self, combine=self.together)

    def merge(self, s: Scalars, x: Values, y: Values) -> Values:
        return [self.combine(s, x[0], y[0])]

    def finish(self, s: Scalars, state: Values) -> Values:
        return state


@dataclass(frozen=True)
class Position:
    """argmax, argmin: the value and the position where it stands first (`last`: last, then there is no `merge`); NaN wins."""

    largest: bool
    last: bool = False
    positions = True

    def start(self, s: Scalars, type_: ir.Type) -> Values:
        worst = (lowest if self.largest else highest)(type_)
        return [s.constant(type_, worst), s.constant(like(type_, s.b.i64), 0)]

    def _better(self, s: Scalars, x: ir.Value, y: ir.Value) -> ir.Value:
        """Whether `x` comes before `y` by value alone."""
        if not is_float(x.type):
            return s.compare(("sge" if self.last else "sgt") if self.largest else ("sle" if self.last else "slt"), x, y)
        order = ("oge" if self.last else "ogt") if self.largest else ("ole" if self.last else "olt")
        better, nan = s.compare(order, x, y), s.is_nan(x)
        if not self.last:
            nan = s.op("arith.andi", nan, s.compare("ord", y, y))
        return s.op("arith.ori", better, nan)

    def take(self, s, state, x, mask, position):
        better = self._better(s, x, state[0])
        if mask is not None:
            better = s.op("arith.andi", better, mask)
        return [s.select(better, x, state[0]), s.select(better, position, state[1])]

    def merge(self, s, x, y):
        better = self._better(s, y[0], x[0])
        worse = self._better(s, x[0], y[0])
        equal = s.invert(s.op("arith.ori", better, worse))
        earlier = s.op("arith.andi", equal, s.compare("slt", y[1], x[1]))
        take = s.op("arith.ori", better, earlier)
        return [s.select(take, y[0], x[0]), s.select(take, y[1], x[1])]

    def finish(self, s, state):
        return [state[1]]


@dataclass(frozen=True)
class Welford:
    """Mean, sum of squared deviations, count. `uneven`: masked lanes may have come before whole vectors; the lanes in a mask are always
    the first ones, and always as many."""

    uneven: bool = False
    positions = False

    def start(self, s: Scalars, type_: ir.Type) -> Values:
        zero = s.constant(type_, 0.0)
        return [zero, zero, zero]

    def take(self, s, state, x, mask, position):
        mean, squares, count = state
        one = s.constant(x.type, 1.0)
        if mask is not None:
            one = s.select(mask, one, s.constant(x.type, 0.0))
            x = s.select(mask, x, mean)
        count = s.op("arith.addf", count, one)
        delta = s.op("arith.subf", x, mean)
        mean = s.op("arith.addf", mean, self._share(s, delta, count, mask))
        squares = s.op("arith.addf", squares, s.op("arith.mulf", delta, s.op("arith.subf", x, mean)))
        return [mean, squares, count]

    def _share(self, s: Scalars, delta: ir.Value, count: ir.Value, mask: ir.Value | None) -> ir.Value:
        """`delta` / `count`."""
        one = s.constant(delta.type, 1.0)
        if mask is not None:  # a lane that has seen nothing divides 0 by 0: its count is put at 1
            return s.op("arith.divf", delta, s.extreme(count, one, True))
        if not isinstance(delta.type, ir.VectorType):
            return s.op("arith.divf", delta, count)
        # All lanes have seen as many, or those that masks take as many, and the others: one division for all of them.
        share = self._inverse(s, count, 0)
        if self.uneven:
            taken = s.compare("oeq", count, self._spread(s, count.type, extract(s, count, 0)))
            share = s.select(taken, share, self._inverse(s, count, count.type.shape[0] - 1))
        return s.op("arith.mulf", delta, share)

    def _inverse(self, s: Scalars, count: ir.Value, lane: int) -> ir.Value:
        """1 / `count` of one lane, in all lanes."""
        one = s.constant(element(count.type), 1.0)
        return self._spread(s, count.type, s.op("arith.divf", one, extract(s, count, lane)))

    @staticmethod
    def _spread(s: Scalars, type_: ir.Type, x: ir.Value) -> ir.Value:
        return s.b.value("vector.broadcast", type_, [x], None, s.level)

    def fold(self, s: Scalars, state: Values) -> Values:
        """One set from those of all lanes: the mean of the means, and deviations from that."""
        means, squares, counts = state
        total = lanes_sum(s, counts)
        divisor = s.extreme(total, s.constant(total.type, 1.0), True)
        mean = s.op("arith.divf", lanes_sum(s, s.op("arith.mulf", means, counts)), divisor)
        delta = s.op("arith.subf", means, self._spread(s, means.type, mean))
        cross = s.op("arith.mulf", counts, s.op("arith.mulf", delta, delta))
        return [mean, lanes_sum(s, s.op("arith.addf", squares, cross)), total]

    def merge(self, s, x, y):
        count = s.op("arith.addf", x[2], y[2])
        delta = s.op("arith.subf", y[0], x[0])
        one = s.constant(count.type, 1.0)
        share = s.op("arith.divf", y[2], s.extreme(count, one, True))
        mean = s.op("arith.addf", x[0], s.op("arith.mulf", delta, share))
        cross = s.op("arith.mulf", s.op("arith.mulf", delta, delta), s.op("arith.mulf", x[2], share))
        squares = s.op("arith.addf", s.op("arith.addf", x[1], y[1]), cross)
        return [mean, squares, count]

    def finish(self, s, state):
        return state


@dataclass(frozen=True)
class Softmax:
    """The largest value, and the sum of exp(x - largest)."""

    exp: Callable[[Scalars, ir.Value], ir.Value]
    positions = False

    def start(self, s: Scalars, type_: ir.Type) -> Values:
        return [s.constant(type_, -inf), s.constant(type_, 0.0)]

    def _scaled(self, s: Scalars, total: ir.Value, old: ir.Value, new: ir.Value) -> ir.Value:
        # While nothing is larger than -inf, the difference is NaN and the factor is put at 1 (of a total of 0, or NaN stays).
        same = s.compare("oeq", old, new)
        factor = self.exp(s, s.op("arith.subf", old, new))
        return s.select(same, total, s.op("arith.mulf", total, factor))

    def take(self, s, state, x, mask, position):
        if mask is not None:
            x = s.select(mask, x, s.constant(x.type, -inf))
        return self.merge(s, state, [x, s.constant(x.type, 1.0)])

    def merge(self, s, x, y):
        largest = s.extreme(x[0], y[0], True)
        total = s.op("arith.addf", self._scaled(s, x[1], x[0], largest), self._scaled(s, y[1], y[0], largest))
        return [largest, total]

    def finish(self, s, state):
        return state


def _arithmetic(floating: str, integer: str) -> Callable:
    def combine(s: Scalars, x: ir.Value, y: ir.Value) -> ir.Value:
        return s.op(floating if is_float(x.type) else integer, x, y)

    return combine


def _extreme(largest: bool) -> Callable:
    def combine(s: Scalars, x: ir.Value, y: ir.Value) -> ir.Value:
        if is_float(x.type):
            return s.extreme(y, x, largest)
        return s.op("arith.maxsi" if largest else "arith.minsi", x, y)

    return combine


def _extreme_of_all(largest: bool) -> Callable:
    """The same where a NaN may show in any lane."""
    combine = _extreme(largest)

    def together(s: Scalars, x: ir.Value, y: ir.Value) -> ir.Value:
        if not is_float(x.type) or registers(s, x) == 1:
            return combine(s, x, y)
        # One instruction that keeps a NaN of x and passes over one of y, and for two registers one that finds those of y.
        best = s.select(s.compare("ogt" if largest else "olt", y, x), y, x)
        found = s.compare("uno", *halves(s, y))
        return joined(s, [s.select(found, s.constant(half.type, nan), half) for half in halves(s, best)])

    return together


Reduction = Kind | Position | Welford | Softmax
Function = Callable[[Scalars, ir.Value], ir.Value]


def reductions(exp: Function) -> dict[str, Reduction]:
    """Kinds of `bascule.reduce`, by name. `exp` builds the exponential."""
    return {
        "sum": Kind(lambda t: 0, _arithmetic("arith.addf", "arith.addi")),
        "prod": Kind(lambda t: 1, _arithmetic("arith.mulf", "arith.muli")),
        "max": Kind(lowest, _extreme(True), _extreme_of_all(True)),
        "min": Kind(highest, _extreme(False), _extreme_of_all(False)),
        "maxu": Kind(lambda t: lowest(t, True), lambda s, x, y: s.op("arith.maxui", x, y)),
        "minu": Kind(lambda t: highest(t, True), lambda s, x, y: s.op("arith.minui", x, y)),
        "any": Kind(lambda t: 0, lambda s, x, y: s.op("arith.ori", x, y)),
        "all": Kind(lambda t: -1, lambda s, x, y: s.op("arith.andi", x, y)),
        "xor": Kind(lambda t: 0, lambda s, x, y: s.op("arith.xori", x, y)),
        "argmax": Position(True),
        "argmin": Position(False),
        "welford": Welford(),
        "softmax": Softmax(exp),
    }


def scans(exp: Function, log1p: Function) -> dict[str, Reduction]:
    """Kinds of `bascule.scan`, by name."""
    shared = ("sum", "prod", "max", "min", "maxu", "minu")

    def logaddexp(s: Scalars, x: ir.Value, y: ir.Value) -> ir.Value:
        """log(exp(x) + exp(y)); of equal infinities, that infinity."""
        largest, smallest = s.extreme(x, y, True), s.extreme(x, y, False)
        sum_ = s.op("arith.addf", largest, log1p(s, exp(s, s.op("arith.subf", smallest, largest))))
        return s.select(s.compare("oeq", x, y), s.select(_infinite(s, x), x, sum_), sum_)

    return {
        **{name: kind for name, kind in reductions(exp).items() if name in shared},
        "logaddexp": Kind(lowest, logaddexp),
        "argmax": Position(True, last=True),
        "argmin": Position(False, last=True),
    }


def _infinite(s: Scalars, x: ir.Value) -> ir.Value:
    return s.compare("oeq", s.b.value("math.absf", x.type, [x], None, s.level), s.constant(x.type, inf))

"""The kinds of `bascule.reduce` and `bascule.scan`: what the accumulators start from, take in, and how two sets of them meet.

Accumulators are values of one width (scalars, or one a lane). `merge` is associative up to rounding and commutative, except
that of two equal extremes the one at the smaller position stays.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf, nan

from bascule.dialect.mlir import ir

from ..values.lanes import halves, joined, registers
from ..values.scalars import Scalars, element, is_float, like
from .welford import Values, Welford


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
    lanes become one result. `sums`: roundings of what it takes add up, so that many steps are taken in stretches."""

    identity: Callable[[ir.Type], int | float]
    combine: Callable[[Scalars, ir.Value, ir.Value], ir.Value]
    together: Callable[[Scalars, ir.Value, ir.Value], ir.Value] | None = None
    sums: bool = False

    positions = False

    def start(self, s: Scalars, type_: ir.Type) -> Values:
        return [s.constant(type_, self.identity(type_))]

    def take(self, s: Scalars, state: Values, x: ir.Value, mask: ir.Value | None, position: ir.Value | None) -> Values:
        """`state` after the element `x`; lanes not in `mask` keep theirs."""
        if mask is not None:
            x = s.select(mask, x, s.constant(x.type, self.identity(x.type)))
        return [self.combine(s, state[0], x)]

    def of_all_lanes(self, whole: bool, vectors: int | None = None) -> "Kind":
        """The kind where all lanes become one result. `whole`: there are no masks; `vectors`: how many there are, where that is known."""
        return self if self.together is None else replace(self, combine=self.together)

    def merge(self, s: Scalars, x: Values, y: Values) -> Values:
        return [self.combine(s, x[0], y[0])]

    def fresh(self, s: Scalars, state: Values) -> Values:
        """The accumulators that a stretch of a long loop starts from."""
        return self.start(s, state[0].type) if self._apart(state) else state

    def close(self, s: Scalars, before: Values, after: Values) -> Values:
        """Carries on after a stretch: combines what was carried into it with what it ends with."""
        return self.merge(s, before, after) if self._apart(before) else after

    def _apart(self, state: Values) -> bool:
        return self.sums and is_float(state[0].type)

    def finish(self, s: Scalars, state: Values) -> Values:
        return state


@dataclass(frozen=True)
class Position:
    """argmax, argmin: the value and the position where it stands first (`last`: last, then there is no `merge`); NaN wins."""

    largest: bool
    last: bool = False
    positions, sums = True, False

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

    def fresh(self, s, state):
        return state

    def close(self, s, before, after):
        return after

    def finish(self, s, state):
        return [state[1]]


@dataclass(frozen=True)
class Softmax:
    """The largest value, and the sum of exp(x - largest)."""

    exp: Callable[[Scalars, ir.Value], ir.Value]
    positions, sums = False, True

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

    def fresh(self, s, state):
        return [state[0], s.constant(state[1].type, 0.0)]

    def close(self, s, before, after):
        return [after[0], s.op("arith.addf", self._scaled(s, before[1], before[0], after[0]), after[1])]

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
        "sum": Kind(lambda t: 0, _arithmetic("arith.addf", "arith.addi"), sums=True),
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

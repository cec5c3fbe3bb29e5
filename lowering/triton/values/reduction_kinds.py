"""The kinds of `bascule.reduce` and `bascule.scan` as monoids: the state of one element, its identity, and how two states meet.

One `combine` serves everywhere: on accumulators between the steps of a walked row, and in the region of `tt.reduce` and `tt.scan`. It is
associative up to rounding and commutative.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import islice
from math import inf
from typing import Any

from bascule.dialect.mlir import ir

from . import approximations
from .builder import Builder, element
from .scalars import call, extreme, to_index

Values = list[ir.Value]


@dataclass(frozen=True)
class Reduction:
    """`identity`: a number for each value of a state, from the element's type; `combine(b, x, y)`: two states, x first.

    `add(b, state, x, number, exact)`, if there is one: a state with one more element, the `number`-th (a float of one lane's count);
    `collapse(b, states, axis, points, exact)`, if there is one: the states along an axis of tiles, and of all those tiles, combined, of
    `points` elements in all if that is known. Both are cheaper than `combine`, and so is what they may approximate if not `exact`.
    `lift(b, x, position)`: the state of an element, whose position `position()` gives; `finish(b, state, type)`: the results, of element
    type `type`; `types(b, type, index)`: the element types of a state, where positions are of type `index` (None: all the element's).
    """

    identity: Callable[[ir.Type], list[int | float]]
    combine: Callable[[Builder, Values, Values], Values]
    lift: Callable[[Builder, ir.Value, Callable[[], ir.Value]], Values] = lambda b, x, position: [x]
    finish: Callable[[Builder, Values, ir.Type], Values] = lambda b, state, type_: state
    types: Callable[[Builder, ir.Type, ir.Type], list[ir.Type]] | None = None
    add: Callable[[Builder, Values, ir.Value, ir.Value, bool], Values] | None = None
    collapse: Callable[[Builder, list[Values], int, int | None, bool], Values] | None = None

    def start(self, b: Builder, type_: ir.Type, index: ir.Type, shape: Callable[[ir.Type], ir.Type]) -> Values:
        """The identity over elements of type `type_`; `shape` gives the type of each value from its element's."""
        numbers = self.identity(type_)
        types = self.types(b, type_, index) if self.types is not None else [type_] * len(numbers)
        return [b.constant(shape(t), n) for t, n in zip(types, numbers)]


def _is_float(x: ir.Value) -> bool:
    return isinstance(element(x.type), ir.FloatType)


def lowest(type_: ir.Type) -> int | float:
    return -inf if isinstance(type_, ir.FloatType) else -(1 << (type_.width - 1))


def highest(type_: ir.Type) -> int | float:
    return inf if isinstance(type_, ir.FloatType) else (1 << (type_.width - 1)) - 1


def _one(
    number: Callable[[ir.Type], int | float], function: Callable[[Builder, ir.Value, ir.Value], ir.Value], **more: Any
) -> Reduction:
    return Reduction(lambda t: [number(t)], lambda b, x, y: [function(b, x[0], y[0])], **more)


def _arithmetic(floating: str, integer: str) -> Callable:
    return lambda b, x, y: b.same(floating if _is_float(x) else integer, x, y)


def _from_zero(b: Builder, state: Values, type_: ir.Type) -> Values:
    """A sum begins with 0.0: of nothing but -0.0, and where no lane had the identity, it is 0.0 too."""
    return [b.same("arith.addf", x, b.constant(x.type, 0.0)) if _is_float(x) else x for x in state]


def add_products(b: Builder, total: ir.Value, x: ir.Value) -> ir.Value:
    """`total` and `x`; where that is a sum of products, one after the other: each is one instruction with its sum."""
    terms = list[ir.Value]()
    rest = x
    while (owner := _made_by(rest)) is not None and owner.name == "arith.addf":
        rest, last = owner.operands
        terms.append(last)
    terms.append(rest)
    if any((owner := _made_by(term)) is None or owner.name != "arith.mulf" for term in terms):
        terms = [x]
    for term in reversed(terms):
        total = b.same("arith.addf" if _is_float(x) else "arith.addi", total, term)
    return total


def _made_by(x: ir.Value) -> ir.Operation | None:
    return None if isinstance(x.owner, ir.Block) else x.owner.operation


def _extreme(largest: bool) -> Callable:
    name = "arith.maxsi" if largest else "arith.minsi"
    return lambda b, x, y: extreme(b, x, y, largest) if _is_float(x) else b.same(name, x, y)


def _boolean(name: str, identity: int) -> Reduction:
    """`any` and `all`, in 32 bits: Triton shuffles and stores no i1."""
    return Reduction(
        identity=lambda t: [identity],
        combine=lambda b, x, y: [b.same(name, x[0], y[0])],
        lift=lambda b, x, position: [b.convert("arith.extui", x, b.i32)],
        finish=lambda b, s, t: [b.compare("ne", s[0], b.constant(s[0].type, 0))],
        types=lambda b, t, index: [b.i32],
    )


def _position(largest: bool, last: bool = False) -> Reduction:
    """argmax, argmin: NaN wins; of equals the first, or the `last`."""

    def better(b: Builder, x: ir.Value, y: ir.Value) -> ir.Value:
        if not _is_float(x):
            return b.compare("sgt" if largest else "slt", x, y)
        nan = b.same("arith.andi", b.is_nan(x), b.compare("ord", y, y))
        return b.same("arith.ori", b.compare("ogt" if largest else "olt", x, y), nan)

    def combine(b: Builder, x: Values, y: Values) -> Values:
        neither = b.compare("eq", better(b, x[0], y[0]), better(b, y[0], x[0]))
        preferred = b.same("arith.andi", neither, b.compare("sgt" if last else "ult", x[1], y[1]))
        take = b.same("arith.ori", better(b, x[0], y[0]), preferred)
        return [b.select(take, p, q) for p, q in zip(x, y)]

    return Reduction(
        identity=lambda t: [(lowest if largest else highest)(t), -1],  # unsigned the largest position, signed the least
        combine=combine,
        lift=lambda b, x, position: [x, position()],
        finish=lambda b, s, t: [to_index(b, t, s[1])],
        types=lambda b, t, index: [t, index],
    )


def welford(b: Builder, x: Values, y: Values) -> Values:
    """Chan's merge of (mean, sum of squared deviations, count); two empty states stay empty. A square, which may be
    infinite, is never multiplied by a weight of 0."""
    count = b.same("arith.addf", x[2], y[2])
    one = b.constant(count.type, 1.0)
    empty = b.compare("oeq", count, b.constant(count.type, 0.0))
    divide = "tt.precise_divf" if element(count.type) == b.f32 else "arith.divf"
    share = b.same(divide, y[2], b.select(empty, one, count))
    delta = b.same("arith.subf", y[0], x[0])
    mean = b.same("arith.addf", x[0], b.same("arith.mulf", delta, share))
    cross = b.same("arith.mulf", delta, b.same("arith.mulf", delta, b.same("arith.mulf", x[2], share)))
    return [mean, b.same("arith.addf", b.same("arith.addf", x[1], y[1]), cross), count]


def _lift_welford(b: Builder, x: ir.Value, position: Callable[[], ir.Value]) -> Values:
    return [x, b.constant(x.type, 0.0), b.constant(x.type, 1.0)]


def _add_welford(b: Builder, state: Values, x: ir.Value, number: ir.Value, exact: bool) -> Values:
    """Welford's step: the division is by a number that all lanes share. What it is off by is corrected in later steps."""
    mean, squares, count = state
    share = b.same("arith.divf", b.constant(element(x.type), 1.0), number)
    if isinstance(x.type, ir.RankedTensorType):
        share = b.value("tt.splat", x.type, [share])
    delta = b.same("arith.subf", x, mean)
    mean = b.same("arith.addf", mean, b.same("arith.mulf", delta, share))
    squares = b.same("arith.addf", squares, b.same("arith.mulf", delta, b.same("arith.subf", x, mean)))
    return [mean, squares, b.same("arith.addf", count, b.constant(count.type, 1.0))]


def _total(b: Builder, tiles: Values, axis: int) -> ir.Value:
    (total,) = reduce_along(b, REDUCTIONS["sum"], [reduce(partial(b.same, "arith.addf"), tiles)], axis)
    return total


def _collapse_welford(b: Builder, states: list[Values], axis: int, points: int | None, exact: bool) -> Values:
    """The mean of the means, then the squares about it: what `welford` gives in a tree, without its divisions."""
    scalar = element(states[0][0].type)
    sums = _total(b, [b.same("arith.mulf", count, mean) for mean, _, count in states], axis)
    counts = _total(b, [count for _, _, count in states], axis) if points is None else b.constant(sums.type, points)
    empty = b.compare("oeq", counts, b.constant(counts.type, 0.0))
    divisor = b.select(empty, b.constant(counts.type, 1.0), counts)
    middle = b.same("tt.precise_divf" if scalar == b.f32 else "arith.divf", sums, divisor)
    deviations = []
    for mean, squares, count in states:
        delta = b.same("arith.subf", mean, over(b, middle, mean.type, axis))
        weighted = b.same("arith.mulf", delta, b.same("arith.mulf", delta, count))
        deviations.append(b.same("arith.addf", squares, weighted))
    return [middle, _total(b, deviations, axis), counts]


def over(b: Builder, value: ir.Value, type_: ir.Type, axis: int) -> ir.Value:
    """`value` spread along tensor dimension `axis` of `type_`, which it lacks."""
    scalar = element(type_)
    if not isinstance(value.type, ir.RankedTensorType):
        return b.value("tt.splat", type_, [value])
    shape = list(value.type.shape)
    shape.insert(axis, 1)
    flat = ir.RankedTensorType.get(shape, scalar)
    value = b.value("tt.expand_dims", flat, [value], {"axis": b.number(b.i32, axis)})
    return b.value("tt.broadcast", type_, [value])


def _exp(b: Builder, x: ir.Value, exact: bool = True) -> ir.Value:
    return call(b, "math.exp", [x]) if exact or element(x.type) != b.f32 else approximations.exp(b, x)


def softmax_power(b: Builder, x: ir.Value) -> ir.Value:
    """exp(x) of x <= 0, a term of a sum with a term exp(0): in f32 the instruction's error, 2 ulp and |x| exp(x) of them, is no more than
    that sum's own."""
    return _exp(b, x, exact=element(x.type) != b.f32)


def power_about(b: Builder, x: ir.Value, most: ir.Value) -> ir.Value:
    """exp(x - most) of scores. They are subtracted first: of numbers beyond f32's over log2(e), by which masks hide, or of which one has not
    the digits, the multiples differ by anything."""
    return softmax_power(b, b.same("arith.subf", x, most))


def _softmax(b: Builder, x: Values, y: Values) -> Values:
    """(largest, sum of exp(x - largest))."""
    largest = extreme(b, x[0], y[0], True)
    parts = [_scaled(b, state, largest, True) for state in (x, y)]
    return [largest, b.same("arith.addf", *parts)]


def _scaled(b: Builder, state: Values, largest: ir.Value, exact: bool) -> ir.Value:
    """The sum of a state about another largest value. Between equal infinities the difference is NaN; the factor is 1 there."""
    factor = _exp(b, b.same("arith.subf", state[0], largest), exact)
    return b.select(b.compare("oeq", state[0], largest), state[1], b.same("arith.mulf", state[1], factor))


def _add_softmax(b: Builder, state: Values, x: ir.Value, number: ir.Value, exact: bool) -> Values:
    """With one exponential: of the two factors one is 1."""
    most, total = state
    distance = b.same("math.absf", b.same("arith.subf", x, most))
    one, zero = b.constant(x.type, 1.0), b.constant(x.type, 0.0)
    factor = _exp(b, b.same("arith.subf", zero, distance), exact)
    factor = b.select(b.compare("oeq", x, most), one, factor)
    larger = b.compare("ogt", x, most)
    total = b.value("math.fma", x.type, [b.select(larger, total, one), factor, b.select(larger, one, total)])
    return [extreme(b, most, x, True), total]


def _collapse_softmax(b: Builder, states: list[Values], axis: int, points: int | None, exact: bool) -> Values:
    most = reduce(lambda x, y: extreme(b, x, y, True), [largest for largest, _ in states])
    (largest,) = reduce_along(b, REDUCTIONS["max"], [most], axis)
    scaled = [_scaled(b, state, over(b, largest, state[0].type, axis), exact) for state in states]
    return [largest, _total(b, scaled, axis)]


REDUCTIONS: dict[str, Reduction] = {
    "sum": _one(lambda t: 0, _arithmetic("arith.addf", "arith.addi"), finish=_from_zero),
    "prod": _one(lambda t: 1, _arithmetic("arith.mulf", "arith.muli")),
    "max": _one(lowest, _extreme(True)),
    "min": _one(highest, _extreme(False)),
    "maxu": _one(lambda t: 0, lambda b, x, y: b.same("arith.maxui", x, y)),
    "minu": _one(lambda t: -1, lambda b, x, y: b.same("arith.minui", x, y)),  # all bits set
    "xor": _one(lambda t: 0, lambda b, x, y: b.same("arith.xori", x, y)),
    "any": _boolean("arith.ori", 0),
    "all": _boolean("arith.andi", 1),
    "argmax": _position(True),
    "argmin": _position(False),
    "welford": Reduction(
        lambda t: [0.0, 0.0, 0.0], welford, _lift_welford, add=_add_welford, collapse=_collapse_welford
    ),
    "softmax": Reduction(
        lambda t: [-inf, 0.0],
        _softmax,
        lambda b, x, p: [x, b.constant(x.type, 1.0)],
        add=_add_softmax,
        collapse=_collapse_softmax,
    ),
}


def _logaddexp(b: Builder, x: ir.Value, y: ir.Value) -> ir.Value:
    """log(exp(x) + exp(y)); between equal infinities the difference is NaN, and x the answer."""
    largest, least = extreme(b, x, y, True), extreme(b, x, y, False)
    more = call(b, "math.log1p", [_exp(b, b.same("arith.subf", least, largest))])
    infinite = b.same(
        "arith.andi",
        b.compare("oeq", x, y),
        b.compare("oeq", b.same("math.absf", x), b.constant(x.type, inf)),
    )
    return b.select(infinite, x, b.same("arith.addf", largest, more))


SCANS = {name: REDUCTIONS[name] for name in ("sum", "prod", "max", "min", "maxu", "minu")} | {
    "logaddexp": _one(lowest, _logaddexp, finish=_from_zero),
    "argmax": _position(True, last=True),
    "argmin": _position(False, last=True),
}


def reduce_along(b: Builder, reduction: Reduction, state: Values, axis: int) -> Values:
    """The states along tensor dimension `axis` combined, by `tt.reduce`."""
    (combined,) = reduce_together(b, [(reduction, state)], axis)
    return combined


def reduce_together(b: Builder, parts: Sequence[tuple[Reduction, Values]], axis: int) -> list[Values]:
    """The states of several reductions along tensor dimension `axis` of one shape, by one `tt.reduce`: threads meet once."""
    values = [value for _, state in parts for value in state]
    shape = list(values[0].type.shape)
    del shape[axis]
    types = [ir.RankedTensorType.get(shape, element(v.type)) if shape else element(v.type) for v in values]

    def combine(b: Builder, x: Values, y: Values) -> Values:
        taken = _cut([len(state) for _, state in parts], x), _cut([len(state) for _, state in parts], y)
        return [v for (reduction, _), p, q in zip(parts, *taken) for v in reduction.combine(b, p, q)]

    results = _with_region(b, combine, "tt.reduce", types, values, {"axis": b.number(b.i32, axis)})
    return _cut([len(state) for _, state in parts], results)


def _cut(lengths: Sequence[int], values: Values) -> list[Values]:
    left = iter(values)
    return [list(islice(left, length)) for length in lengths]


def scan_along(b: Builder, reduction: Reduction, state: Values, axis: int) -> Values:
    """The running combination along tensor dimension `axis`, by `tt.scan`."""
    attributes: dict[str, ir.Attribute] = {"axis": b.number(b.i32, axis), "reverse": ir.BoolAttr.get(False)}
    return _with_region(b, reduction.combine, "tt.scan", [v.type for v in state], state, attributes)


def _with_region(
    b: Builder,
    combine: Callable[[Builder, Values, Values], Values],
    name: str,
    types: list[ir.Type],
    state: Values,
    attributes: dict,
) -> Values:
    made = b.op(name, types, state, attributes, regions=1)
    scalars = [element(value.type) for value in state]
    block = made.regions[0].blocks.append(*scalars, *scalars, arg_locs=[b.location] * (2 * len(scalars)))
    arguments = list(block.arguments)
    with b.isolated(block):
        b.op(f"{name}.return", [], combine(b, arguments[: len(scalars)], arguments[len(scalars) :]))
    return list(made.results)

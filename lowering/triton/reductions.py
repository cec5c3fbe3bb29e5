"""The kinds of `bascule.reduce` and `bascule.scan` as monoids: the state of one element, its identity, and how two states meet.

One `combine` serves everywhere: on accumulators between the steps of a walked row, and in the region of `tt.reduce` and `tt.scan`. It is
associative up to rounding and commutative.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from bascule.dialect.mlir import ir

from .builder import Builder, element
from .scalars import call, extreme, to_index

Values = list[ir.Value]


@dataclass(frozen=True)
class Reduction:
    """`identity`: a number for each value of a state, from the element's type; `combine(b, x, y)`: two states, x first.

    `lift(b, x, position)`: the state of an element, whose position `position()` gives; `finish(b, state, type)`: the results, of element
    type `type`; `types(b, type, index)`: the element types of a state, where positions are of type `index` (None: all the element's).
    """

    identity: Callable[[ir.Type], list[int | float]]
    combine: Callable[[Builder, Values, Values], Values]
    lift: Callable[[Builder, ir.Value, Callable[[], ir.Value]], Values] = lambda b, x, position: [x]
    finish: Callable[[Builder, Values, ir.Type], Values] = lambda b, state, type_: state
    types: Callable[[Builder, ir.Type, ir.Type], list[ir.Type]] | None = None

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


def _one(number: Callable[[ir.Type], int | float], function: Callable[[Builder, ir.Value, ir.Value], ir.Value]):
    return Reduction(lambda t: [number(t)], lambda b, x, y: [function(b, x[0], y[0])])


def _arithmetic(floating: str, integer: str) -> Callable:
    return lambda b, x, y: b.same(floating if _is_float(x) else integer, x, y)


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


def _position(largest: bool) -> Reduction:
    """argmax, argmin: NaN wins; of equals the first."""

    def better(b: Builder, x: ir.Value, y: ir.Value) -> ir.Value:
        if not _is_float(x):
            return b.compare("sgt" if largest else "slt", x, y)
        nan = b.same("arith.andi", b.is_nan(x), b.compare("ord", y, y))
        return b.same("arith.ori", b.compare("ogt" if largest else "olt", x, y), nan)

    def combine(b: Builder, x: Values, y: Values) -> Values:
        neither = b.compare("eq", better(b, x[0], y[0]), better(b, y[0], x[0]))
        earlier = b.same("arith.andi", neither, b.compare("ult", x[1], y[1]))
        take = b.same("arith.ori", better(b, x[0], y[0]), earlier)
        return [b.select(take, p, q) for p, q in zip(x, y)]

    return Reduction(
        identity=lambda t: [(lowest if largest else highest)(t), -1],  # the largest position, unsigned
        combine=combine,
        lift=lambda b, x, position: [x, position()],
        finish=lambda b, s, t: [to_index(b, t, s[1])],
        types=lambda b, t, index: [t, index],
    )


def _welford(b: Builder, x: Values, y: Values) -> Values:
    """Chan's merge of (mean, sum of squared deviations, count); two empty states stay empty."""
    count = b.same("arith.addf", x[2], y[2])
    one = b.constant(count.type, 1.0)
    empty = b.compare("oeq", count, b.constant(count.type, 0.0))
    divide = "tt.precise_divf" if element(count.type) == b.f32 else "arith.divf"
    share = b.same(divide, y[2], b.select(empty, one, count))
    delta = b.same("arith.subf", y[0], x[0])
    mean = b.same("arith.addf", x[0], b.same("arith.mulf", delta, share))
    cross = b.same("arith.mulf", b.same("arith.mulf", delta, delta), b.same("arith.mulf", x[2], share))
    return [mean, b.same("arith.addf", b.same("arith.addf", x[1], y[1]), cross), count]


def _lift_welford(b: Builder, x: ir.Value, position: Callable[[], ir.Value]) -> Values:
    return [x, b.constant(x.type, 0.0), b.constant(x.type, 1.0)]


def _softmax(b: Builder, x: Values, y: Values) -> Values:
    """(largest, sum of exp(x - largest))."""
    largest = extreme(b, x[0], y[0], True)

    def scaled(state: Values) -> ir.Value:
        # Between equal infinities the difference is NaN; the factor is 1 there.
        factor = call(b, "math.exp", [b.same("arith.subf", state[0], largest)])
        return b.select(b.compare("oeq", state[0], largest), state[1], b.same("arith.mulf", state[1], factor))

    return [largest, b.same("arith.addf", scaled(x), scaled(y))]


REDUCTIONS: dict[str, Reduction] = {
    "sum": _one(lambda t: 0, _arithmetic("arith.addf", "arith.addi")),
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
    "welford": Reduction(lambda t: [0.0, 0.0, 0.0], _welford, _lift_welford),
    "softmax": Reduction(lambda t: [-inf, 0.0], _softmax, lambda b, x, p: [x, b.constant(x.type, 1.0)]),
}

SCANS = {name: REDUCTIONS[name] for name in ("sum", "prod", "max", "min", "maxu", "minu")}


def reduce_along(b: Builder, reduction: Reduction, state: Values, axis: int) -> Values:
    """The states along tensor dimension `axis` combined, by `tt.reduce`."""
    shape = list(state[0].type.shape)
    del shape[axis]
    types = [ir.RankedTensorType.get(shape, element(v.type)) if shape else element(v.type) for v in state]
    return _with_region(b, reduction, "tt.reduce", types, state, {"axis": b.number(b.i32, axis)})


def scan_along(b: Builder, reduction: Reduction, state: Values, axis: int) -> Values:
    """The running combination along tensor dimension `axis`, by `tt.scan`."""
    attributes: dict[str, ir.Attribute] = {"axis": b.number(b.i32, axis), "reverse": ir.BoolAttr.get(False)}
    return _with_region(b, reduction, "tt.scan", [v.type for v in state], state, attributes)


def _with_region(
    b: Builder, reduction: Reduction, name: str, types: list[ir.Type], state: Values, attributes: dict
) -> Values:
    made = b.op(name, types, state, attributes, regions=1)
    scalars = [element(value.type) for value in state]
    block = made.regions[0].blocks.append(*scalars, *scalars, arg_locs=[b.location] * (2 * len(scalars)))
    arguments = list(block.arguments)
    with b.isolated(block):
        b.op(f"{name}.return", [], reduction.combine(b, arguments[: len(scalars)], arguments[len(scalars) :]))
    return list(made.results)

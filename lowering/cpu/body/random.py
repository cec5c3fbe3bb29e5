"""`bascule.random`: where lanes are neighbours from a whole counter on, each counter is computed once and its numbers shuffled into place."""

from collections.abc import Sequence

from bascule.dialect.analysis.bodies.body_tree import Node
from bascule.dialect.ir.philox import NUMBERS, Floats, Words, drawn, number, philox
from bascule.dialect.mlir import ir

from ..functions.transcendental import Functions
from ..values.builder import Index, Scalar
from ..values.lanes import shuffle
from ..values.scalars import Scalars, like
from .emitter import Emitter, rule


class _Words(Words[ir.Value]):
    """In 64 bits each, of which the lower 32 count: a product of those is one instruction."""

    def __init__(self, s: Scalars):
        self.s = s

    def _with(self, name: str, x: ir.Value, number: int) -> ir.Value:
        return self.s.op(name, x, self.s.constant(x.type, number))

    def add(self, x: ir.Value, number: int) -> ir.Value:
        return self._with("arith.addi", x, number)

    def xor(self, x: ir.Value, y: ir.Value) -> ir.Value:
        if x.type != y.type:  # a word of the key is one for all lanes
            y = self.s.b.value("vector.broadcast", x.type, [y], None, self.s.level)
        return self.s.op("arith.xori", x, y)

    def product(self, x: ir.Value, number: int) -> tuple[ir.Value, ir.Value]:
        whole = self._with("arith.muli", self._with("arith.andi", x, 0xFFFFFFFF), number)
        return whole, self._with("arith.shrui", whole, 32)

    def joined(self, low: ir.Value, high: ir.Value) -> ir.Value:
        low, high = self._with("arith.andi", low, 0xFFFFFFFF), self._with("arith.shli", high, 32)
        return self.s.op("arith.ori", low, high)

    def quarter_back(self, x: ir.Value, width: int) -> ir.Value:
        return self._with("arith.addi", x, -(1 << (width - 2)))


class _Floats(Floats[ir.Value]):
    def __init__(self, s: Scalars, functions: Functions):
        self.s, self.functions = s, functions

    def op(self, name: str, *operands: ir.Value | float) -> ir.Value:
        (first, *_), b = operands, self.s.b
        values = [x if isinstance(x, ir.Value) else b.constant(first.type, x) for x in operands]  # type: ignore[union-attr]
        return self.functions.build(self.s, name, values) if name in self.functions else self.s.op(name, *values)

    def convert(self, name: str, x: ir.Value, type_: ir.Type) -> ir.Value:
        return self.s.convert(name, x, type_)


@rule("bascule.random")
def _random(e: Emitter, node: Node) -> None:
    type_, distribution = node.types[0], node.op.attributes["distribution"].value
    seed, position = e.scalar(node.operands[0]), e.index(node.operands[1])
    count, lanes = NUMBERS[type_.width], seed.lanes or position.lanes
    level = max(seed.level, position.level)
    s = Scalars(e.b, level)
    key = e.spread(seed) if seed.lanes else seed.value

    def draws(counter: ir.Value) -> list[tuple[ir.Value, ...]]:
        words, zero = _Words(s), s.constant(counter.type, 0)
        high = [s.op("arith.shrui", x, s.constant(x.type, 32)) for x in (counter, key)]
        return drawn(words, distribution, type_.width, philox(words, [counter, high[0], zero, zero], [key, high[1]]))

    if not seed.lanes and _neighbours(position, e.lanes, count):
        bits = [_in_place(s, column) for column in zip(*draws(_counters(e, s, position, count)))]
    else:
        at = e.ix.value(position)
        place = e.spread(at) if lanes else at.value
        place = s.convert("arith.index_cast", place, e.b.i64)
        numbers = draws(s.op("arith.shrui", place, s.constant(place.type, count.bit_length() - 1)))
        bits = [_chosen(s, column, place) for column in zip(*numbers)]
    integer = ir.IntegerType.get_signless(type_.width)
    bits = [x if x.type == like(x.type, integer) else s.convert("arith.trunci", x, integer) for x in bits]
    value = number(_Floats(s, e.functions), distribution, type_, bits)
    e.define(node.results[0], Scalar(value, lanes, level))


def _neighbours(position: Index, lanes: int, count: int) -> bool:
    """Whether lanes stand at neighbouring positions, the first of them a multiple of `count`."""
    if position.vector is not None or position.stride != 1 or lanes % count:
        return False
    return position.offset % count == 0 and position.multiple % count == 0


def _counters(e: Emitter, s: Scalars, position: Index, count: int) -> ir.Value:
    """The counters of all lanes, one a `count` of them."""
    b, n = e.b, e.lanes // count
    start = s.convert("arith.index_cast", e.ix.scalar(position), b.i64)
    first = s.op("arith.shrui", start, b.constant(b.i64, count.bit_length() - 1))
    type_ = ir.VectorType.get([n], b.i64)
    numbers = ir.DenseElementsAttr.get([ir.IntegerAttr.get(b.i64, k) for k in range(n)], type_)
    steps = b.cached(0, ("counters", n), lambda: b.value("arith.constant", type_, [], {"value": numbers}, 0))
    return s.op("arith.addi", b.value("vector.broadcast", type_, [first], None, s.level), steps)


def _in_place(s: Scalars, column: Sequence[ir.Value]) -> ir.Value:
    """The numbers of each counter side by side: four of 32 bits, or two of 64."""
    words, b = _Words(s), s.b
    x, y = column if len(column) == 2 else (words.joined(*column[:2]), words.joined(*column[2:]))
    n = x.type.shape[0]
    both = shuffle(s, x, y, [k for lane in range(n) for k in (lane, n + lane)])
    if len(column) == 2:
        return both
    return b.value("vector.bitcast", ir.VectorType.get([4 * n], b.i32), [both], None, s.level)


def _chosen(s: Scalars, column: Sequence[ir.Value], place: ir.Value) -> ir.Value:
    """Number `place` mod their count."""
    values, bit = list(column), 1
    while len(values) > 1:
        odd = s.op("arith.andi", place, s.constant(place.type, bit))
        condition = s.compare("ne", odd, s.constant(place.type, 0))
        values = [s.select(condition, y, x) for x, y in zip(values[::2], values[1::2])]
        bit *= 2
    return values[0]

"""An attention in a walk over keys: scores and the sums of values by tensor cores, and an online softmax between them.

Milakov and Gimelshein, "Online normalizer calculation for softmax"; Dao et al., "FlashAttention".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from bascule.dialect.analysis.bodies.attention import Weights, weights_of
from bascule.dialect.mlir import ir

from ..body.emitter import Loop, Row, unsupported
from ..values.builder import element
from ..values.reduction_kinds import REDUCTIONS, Values, reduce_along, softmax_power
from ..values.scalars import extreme
from ..values.tiles import Axis, Tile, shaped, spread, union
from .contractions import product_of
from .loop_body import LoopBody
from .loop_kinds import Walker


@dataclass(eq=False)
class Step:
    """The values of the step at hand that its loops share. `powers`: exp(score - largest); `factor`: exp(largest before - largest)."""

    powers: Tile | None = None
    factor: Tile | None = None


class ScoresWalker(Walker):
    """A row of scores: of the step at hand, for the loops that walk with it."""

    def step(self, values: Values, position: Tile, bound: Tile | None) -> Values:
        (tile,) = self.e.block(self.block)
        self.e.rows[self.op.results[0]] = Row(self.op, (tile,), self.loop.order)
        return []

    def leave(self) -> None:
        self.e.rows[self.op.results[0]] = Row(self.op, (), self.loop.order)


class OnlineWalker(Walker):
    """The maximum and the sum of exponentials about it, so far: it carries both, of each row."""

    def __init__(self, emitter: LoopBody, op: ir.Operation, loop: Loop, shared: Step):
        super().__init__(emitter, op, loop)
        self.shared, self.rows = shared, self.outside[-2:-1]
        self.state: Values = []

    def start(self) -> Values:
        type_ = shaped(self.op.results[0].type, self.rows)
        return [self.e.b.constant(type_, -inf), self.e.b.constant(type_, 0.0)]

    def step(self, values: Values, position: Tile, bound: Tile | None) -> Values:
        b = self.e.b
        (score,) = self.e.block(self.block)
        axes = union(self.rows, (axis_of(self.loop),))
        x = spread(b, score, axes)
        if bound is not None:
            x = b.select(spread(b, bound, axes), x, b.constant(x.type, -inf))
        before, total = values or self.start()
        (most,) = reduce_along(b, REDUCTIONS["max"], [x], 1)
        largest = extreme(b, before, most, True)
        # A row whose scores are all -inf so far has no exponentials yet: they are about 0.
        finite = b.select(
            b.compare("oeq", largest, b.constant(largest.type, -inf)), b.constant(largest.type, 0.0), largest
        )
        powers = softmax_power(b, b.same("arith.subf", x, spread(b, Tile(finite, self.rows), axes)))
        factor = softmax_power(b, b.same("arith.subf", before, finite))
        (added,) = reduce_along(b, REDUCTIONS["sum"], [powers], 1)
        self.shared.powers, self.shared.factor = Tile(powers, axes), Tile(factor, self.rows)
        return [largest, b.value("math.fma", total.type, [total, factor, added])]

    def finish(self, states: list[Values]) -> None:
        (self.state,) = states

    def leave(self) -> None:
        for result, value in zip(self.op.results, self.state):
            self.e.env[result] = Tile(value, self.rows)


class WeightedWalker(Walker):
    """The sum of values that the exponentials weigh: it carries that, about the maximum so far."""

    def __init__(self, emitter: LoopBody, op: ir.Operation, loop: Loop, shared: Step):
        super().__init__(emitter, op, loop)
        self.shared, self.sides = shared, self.outside[-2:]
        self.weights = found(op)
        self.state: Values = []

    def start(self) -> Values:
        return [self.e.b.constant(shaped(self.op.results[0].type, self.sides), 0.0)]

    def step(self, values: Values, position: Tile, bound: Tile | None) -> Values:
        b, columns = self.e.b, self.sides[1]
        axis = axis_of(self.loop)
        weights, factor = self.shared.powers, self.shared.factor
        assert weights is not None and factor is not None
        read = self._values()
        if not set(read.axes) <= {columns, axis}:
            raise unsupported(self.op, "values of rows in an attention")
        axes = union((columns, axis))
        value = spread(b, read, axes)
        if bound is not None:
            value = b.select(spread(b, bound, axes), value, b.constant(value.type, 0.0))
        (total,) = values or self.start()
        total = b.same("arith.mulf", total, spread(b, factor, self.sides))
        rounded = b.convert("arith.truncf", weights.value, element(value.type))
        return [product_of(b, rounded, value, total)]

    def _values(self) -> Tile:
        """The values of the step at hand: of the loop's body the ops that they are made of."""
        needed, wanted = list[ir.Operation](), [self.weights.values]
        while wanted:
            value = wanted.pop()
            owner = value.owner
            if (
                not isinstance(owner, ir.Block)
                and owner.operation.block == self.block
                and owner.operation not in needed
            ):
                needed.append(owner.operation)
                wanted += owner.operands
        for view in self.block.operations:
            if view.operation in needed:
                self.e._op(view.operation)
        return self.e.tile(self.weights.values)

    def finish(self, states: list[Values]) -> None:
        (self.state,) = states

    def leave(self) -> None:
        self.e.env[self.op.results[0]] = Tile(self.state[0], self.sides)


def found(op: ir.Operation) -> Weights:
    weights = weights_of(op)
    if weights is None:
        raise unsupported(op, "a schedule for an attention of what weighs no values")
    return weights


def axis_of(loop: Loop) -> Axis:
    assert loop.axis is not None
    return loop.axis


def walkers_of(emitter: LoopBody, ops: Sequence[ir.Operation], loop: Loop) -> list[Walker]:
    """Those of the loops of an attention: scores, their softmax, and the weighted sum of values."""
    kinds = [op.attributes["kind"].value if "kind" in op.attributes else op.name for op in ops]
    if kinds != ["bascule.compute", "softmax", "sum"] or loop.axis is None or len(emitter.axes) != 2 or loop.whole:
        raise unsupported(ops[0], f"tensor cores for a walk of {', '.join(kinds)}")
    scores, softmax, weighted = ops
    shared = Step()
    return [
        ScoresWalker(emitter, scores, loop),
        OnlineWalker(emitter, softmax, loop, shared),
        WeightedWalker(emitter, weighted, loop, shared),
    ]

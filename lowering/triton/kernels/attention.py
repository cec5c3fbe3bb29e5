"""An attention in a walk over keys: scores and the sums of values by tensor cores, and an online softmax between them.

Milakov and Gimelshein, "Online normalizer calculation for softmax"; Dao et al., "FlashAttention".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from bascule.dialect.analysis.bodies.backward_slice import needed
from bascule.dialect.analysis.products.attention import RowWeights, Weights, row_weights_of, weights_of
from bascule.dialect.ir.shapes import constant
from bascule.dialect.mlir import ir

from ..body.emitter import Loop, Row, unsupported
from ..values.approximations import scaled_by
from ..values.builder import element
from ..values.reduction_kinds import REDUCTIONS, Values, power_about, reduce_along
from ..values.scalars import extreme
from ..values.tiles import Axes, Axis, Tile, shaped, spread, union
from .contractions import dot, precision_of, rounded, transposed
from .descriptors import load_of
from .loop_body import LoopBody
from .loop_kinds import Walker

PLAIN = ["bascule.compute", "sum"]
WALKED = (PLAIN, [*PLAIN, *PLAIN], ["bascule.compute", "softmax", "sum"])


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
        x, scale = scaled_by(b, spread(b, score, axes))
        if bound is not None:
            x = b.select(spread(b, bound, axes), x, b.constant(x.type, -inf))
        before, total = values or self.start()
        (most,) = reduce_along(b, REDUCTIONS["max"], [x], 1)
        largest = extreme(b, before, self._times(most, scale), True)
        # A row whose scores are all -inf so far has no exponentials yet: they are about 0.
        finite = b.select(
            b.compare("oeq", largest, b.constant(largest.type, -inf)), b.constant(largest.type, 0.0), largest
        )
        powers = power_about(b, self._times(x, scale), spread(b, Tile(finite, self.rows), axes))
        factor = power_about(b, before, finite)
        (added,) = reduce_along(b, REDUCTIONS["sum"], [powers], 1)
        self.shared.powers, self.shared.factor = Tile(powers, axes), Tile(factor, self.rows)
        return [largest, b.value("math.fma", total.type, [total, factor, added])]

    def _times(self, x: ir.Value, scale: float | None) -> ir.Value:
        """Scores as they are. Rounding keeps their order, so that the largest is that of the largest before it was scaled, and one instruction
        scales a score and subtracts from it."""
        return x if scale is None else self.e.b.same("arith.mulf", x, self.e.b.constant(x.type, scale))

    def finish(self, states: list[Values]) -> None:
        (self.state,) = states

    def leave(self) -> None:
        for result, value in zip(self.op.results, self.state):
            self.e.env[result] = Tile(value, self.rows)


class SumsWalker(Walker):
    """The sum of values that what is in the row weighs: it carries that."""

    def __init__(self, emitter: LoopBody, op: ir.Operation, loop: Loop):
        super().__init__(emitter, op, loop)
        self.sides = self.outside[-2:]
        self.weights, self.precision = self._found(), precision_of(op)
        self.scale: float | None = None  # of the sum, where the weights are not scaled
        self.state: Values = []

    def _found(self) -> Weights | RowWeights:
        return found(self.op, row_weights_of(self.op))

    def start(self) -> Values:
        return [self.e.b.constant(shaped(self.op.results[0].type, self.sides), 0.0)]

    def step(self, values: Values, position: Tile, bound: Tile | None) -> Values:
        b, (total,) = self.e.b, values or self.start()
        value = self._values(position, bound)
        total = self._before(total)
        weights = self._narrow(self._weights(bound), element(value.type))
        return [dot(b, weights, value, total, precision=self.precision)]

    def _narrow(self, weights: ir.Value, to: ir.Type) -> ir.Value:
        if element(weights.type) == to:
            return rounded(self.e.b, weights, self.precision)
        return self.e.b.convert("arith.truncf", weights, to)

    def _values(self, position: Tile, bound: Tile | None) -> ir.Value:
        """The values of the step at hand: summed x columns. Where one tile has all columns they are read as the scores' products read their
        operands, summed x deep: what is both is there once."""
        e, columns, axis = self.e, self.sides[1], axis_of(self.loop)
        load = load_of(self.weights.values, self.op)
        if load in e.described:
            piece = e.described[load].load(e, position)
            return piece if e.described[load].is_transposed else transposed(e.b, piece)
        atoms = [atom for atom in e.domain if columns in e.ix.at[atom]().axes]
        extents = [constant(e.expressions.extents[atom]) for atom in atoms]
        if extents != [columns.extent]:
            value = self._inside(self._read(columns), (columns, axis), bound)
            return transposed(e.b, rounded(e.b, value, self.precision))
        deep, before = Axis(axis.order + 1, columns.extent), e.ix.at[atoms[0]]
        e.ix.at[atoms[0]] = lambda: e.ix.steps(deep)
        try:
            return rounded(e.b, self._inside(self._read(deep), (axis, deep), bound), self.precision)
        finally:
            e.ix.at[atoms[0]] = before

    def _read(self, columns: Axis) -> Tile:
        read = self._made(self.weights.values)
        if not set(read.axes) <= {columns, axis_of(self.loop)}:
            raise unsupported(self.op, "values of rows in an attention")
        return read

    def _weights(self, bound: Tile | None) -> ir.Value:
        """Those of the step at hand: rows x summed. What multiplies them all multiplies their sum instead, where their type has f32's range."""
        weights = self._made(self.weights.score)
        if not isinstance(element(self.weights.values.type), ir.F16Type):
            unscaled, self.scale = scaled_by(self.e.b, weights.value)
            weights = Tile(unscaled, weights.axes)
        return self._inside(weights, (self.sides[0], axis_of(self.loop)), bound)

    def _before(self, total: ir.Value) -> ir.Value:
        """The total of the steps before, as the one at hand needs it."""
        return total

    def _inside(self, tile: Tile, axes: Axes, bound: Tile | None) -> ir.Value:
        """`tile` over `axes`, 0 beyond what is summed."""
        b, axes = self.e.b, union(axes)
        value = spread(b, tile, axes)
        return value if bound is None else b.select(spread(b, bound, axes), value, b.constant(value.type, 0.0))

    def _made(self, value: ir.Value) -> Tile:
        """`value` at the step at hand: of the loop's body the ops that it is made of."""
        for op in needed([value], self.block).ops:
            self.e._op(op)
        return self.e.tile(value)

    def finish(self, states: list[Values]) -> None:
        (self.state,) = states

    def leave(self) -> None:
        b, (total,) = self.e.b, self.state
        if self.scale is not None:
            total = b.same("arith.mulf", total, b.constant(total.type, self.scale))
        self.e.env[self.op.results[0]] = Tile(total, self.sides)


class WeightedWalker(SumsWalker):
    """The sum of values that the exponentials weigh, about the maximum so far."""

    def __init__(self, emitter: LoopBody, op: ir.Operation, loop: Loop, shared: Step):
        super().__init__(emitter, op, loop)
        self.shared = shared

    def _found(self) -> Weights | RowWeights:
        return found(self.op, weights_of(self.op))

    def _weights(self, bound: Tile | None) -> ir.Value:
        assert self.shared.powers is not None and isinstance(self.weights, Weights)
        power, weight = self.weights.power.results[0], self.weights.weight
        if weight == power:
            return self.shared.powers.value
        self.e.env[power] = self.shared.powers
        for op in needed([weight], self.block, [power]).ops:
            self.e._op(op)
        return self._inside(self.e.tile(weight), (self.sides[0], axis_of(self.loop)), bound)

    def _before(self, total: ir.Value) -> ir.Value:
        b, factor = self.e.b, self.shared.factor
        assert factor is not None
        return b.same("arith.mulf", total, spread(b, factor, self.sides))


def found(op: ir.Operation, weights: Weights | RowWeights | None) -> Weights | RowWeights:
    if weights is None:
        raise unsupported(op, "a schedule for an attention of what weighs no values")
    return weights


def axis_of(loop: Loop) -> Axis:
    assert loop.axis is not None
    return loop.axis


def walkers_of(emitter: LoopBody, ops: Sequence[ir.Operation], loop: Loop) -> list[Walker]:
    """Those of the loops of an attention: scores, their softmax or none, and the weighted sum of values; without softmax, of two together."""
    names = [op.attributes["kind"].value if "kind" in op.attributes else op.name for op in ops]
    if names not in WALKED or loop.axis is None or len(emitter.axes) != 2 or loop.whole:
        raise unsupported(ops[0], f"tensor cores for a walk of {', '.join(names)}")
    emitter.precision.scores.update(op for op in ops if op.name == "bascule.compute")
    if len(ops) != 3:
        kinds = {"bascule.compute": ScoresWalker, "bascule.reduce": SumsWalker}
        return [kinds[op.name](emitter, op, loop) for op in ops]
    scores, softmax, weighted = ops
    shared = Step()
    return [
        ScoresWalker(emitter, scores, loop),
        OnlineWalker(emitter, softmax, loop, shared),
        WeightedWalker(emitter, weighted, loop, shared),
    ]

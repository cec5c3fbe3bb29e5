"""The kinds of loops in a walk: what each carries, does at a tile of its points, and leaves.

A loop that is held (`loop.whole`) begins each of its tiles with nothing, and ends with what each of them gives.
"""

from collections.abc import Sequence
from functools import partial, reduce

from bascule.dialect.analysis.bodies.nested_loops import inner_loops
from bascule.dialect.ir.regions import end_of
from bascule.dialect.ir.shapes import constant
from bascule.dialect.ir.types import scalar_type
from bascule.dialect.mlir import ir

from ..body.emitter import Loop, Row, unsupported
from ..values.builder import Builder, element
from ..values.reduction_kinds import (
    REDUCTIONS,
    SCANS,
    Reduction,
    Values,
    add_products,
    reduce_along,
    reduce_together,
    scan_along,
)
from ..values.step_folding import Fold, take
from ..values.tiles import Axes, Tile, shaped, spread
from .loop_body import LoopBody


class Walker:
    """A foreach: it carries nothing. `width`: the values it carries. `pads`: whether its steps may go beyond the last point without a bound."""

    pads = False

    def __init__(self, emitter: LoopBody, op: ir.Operation, loop: Loop):
        self.e, self.op, self.loop = emitter, op, loop
        self.width = 0
        self.outside: Axes = emitter.axes  # those in force around the loop

    @property
    def block(self) -> ir.Block:
        return self.op.regions[0].blocks[0]

    @property
    def whole_width(self) -> int:
        """The values that a tile of a loop that is held gives."""
        return 0

    def walks(self) -> bool:
        """Whether there is anything to do in the walk."""
        return True

    def start(self) -> Values:
        """The values carried into the first step."""
        return []

    def step(self, values: Values, position: Tile, bound: Tile | None) -> Values:
        """Emits the loop's body at a tile; what is carried on. No `bound`: all positions are inside."""
        if self.op in self.e.columns:
            self.e.env.update(self.e.columns[self.op][self.loop.number])
            self.e.done.update(inner_loops(self.op))
        self.e.block(self.block)
        return []

    def finish(self, states: list[Values]) -> None:
        """Takes what the last step carried, or what each tile gave; the loop's axis is still in force."""

    def leave(self) -> None:
        """Ends the walk; the loop's axis is no longer in force."""


class ReduceWalker(Walker):
    """A reduction: accumulators over all axes, combined along the loop's at the end."""

    def __init__(self, emitter: LoopBody, op: ir.Operation, loop: Loop):
        super().__init__(emitter, op, loop)
        self.kind = op.attributes["kind"].value
        self.reduction: Reduction = REDUCTIONS[self.kind]
        end = end_of(self.block)
        self.type = emitter.checked(op, end.operands[0].type)
        self.state: Values = []
        self.apart = False  # the state is one for each point of the loop's axis still
        self.exact = any(emitter.precision.exact(result) for result in op.results)
        self.fold: Fold | None = None
        if loop.fold and loop.axis is not None and not loop.whole:
            columns = [axis.extent for axis in self.outside]
            self.fold = Fold.of(columns, loop.axis.extent, loop.fold, emitter.threads)

    def _identity(self) -> Values:
        e = self.e
        return self.reduction.start(e.b, self.type, e.ix.type, lambda t: shaped(t, e.axes))

    @property
    def whole_width(self) -> int:
        return len(self.reduction.identity(self.type))

    def start(self) -> Values:
        if self.fold is not None:
            return self.reduction.start(self.e.b, self.type, self.e.ix.type, self.fold.state)
        return self._identity()

    def step(self, values: Values, position: Tile, bound: Tile | None) -> Values:
        b, axes = self.e.b, self.e.axes
        (x,) = self.e.block(self.block)
        x_tile = spread(b, x, axes)
        if self.fold is not None:
            elements = self.reduction.lift(b, x_tile, lambda: spread(b, position, axes))
            inside = None if bound is None else spread(b, bound, axes)
            return take(b, self.fold, self.kind, values, elements, inside, self._number)
        if values and self.reduction.add is not None:
            state = self.reduction.add(b, values, x_tile, self._number(), self.exact)
            outside = values
        else:
            state = self.reduction.lift(b, x_tile, lambda: spread(b, position, axes))
            outside = self._identity()
        if bound is not None:
            inside = spread(b, bound, axes)
            state = [b.select(inside, v, n) for v, n in zip(state, outside)]
        if not values or self.reduction.add is not None:
            return state
        if self.kind == "sum" and bound is None:
            return [add_products(b, values[0], x_tile)]
        return self.reduction.combine(b, values, state)

    def _number(self) -> ir.Value:
        """How many elements each lane has seen, the one at hand with them."""
        b, loop = self.e.b, self.loop
        if loop.start is None:
            return b.constant(self.type, 1)
        stride = b.constant(loop.start.type, loop.axis.extent if loop.axis is not None else 1)
        steps = b.same("arith.divui", loop.start, stride)
        return b.convert("arith.sitofp", b.same("arith.addi", steps, b.constant(steps.type, 1)), self.type)

    def finish(self, states: list[Values]) -> None:
        if self.loop.axis is None:
            (self.state,) = states
        elif self.reduction.collapse is not None:
            axis = len(self.e.axes) - 1
            self.state = self.reduction.collapse(self.e.b, states, axis, self.loop.points, self.exact)
        else:
            self.state = reduce(partial(self.reduction.combine, self.e.b), states)
            self.apart = True

    def leave(self) -> None:
        e = self.e
        result_type = scalar_type(self.op.results[0].type)
        begun = self.kind == "sum" and self.loop.axis is None  # with 0.0, each
        values = self.state if begun else self.reduction.finish(e.b, self.state, result_type)
        for result, value in zip(self.op.results, values):
            e.env[result] = Tile(value, self.outside)


def join_states(b: Builder, walkers: Sequence[Walker], axis: int) -> None:
    """Combines what the reductions of a walk have along `axis`, those of one shape together."""
    shapes: dict[tuple[int, ...], list[ReduceWalker]] = {}
    for walker in walkers:
        if isinstance(walker, ReduceWalker) and walker.apart:
            shapes.setdefault(tuple(walker.state[0].type.shape), []).append(walker)
    for together in shapes.values():
        joined = reduce_together(b, [(walker.reduction, walker.state) for walker in together], axis)
        for walker, state in zip(together, joined):
            walker.state, walker.apart = state, False


class ComputeWalker(Walker):
    """A row kept near the processor: a tile if it is one, else it is computed again where it is read."""

    def __init__(self, emitter: LoopBody, op: ir.Operation, loop: Loop):
        super().__init__(emitter, op, loop)
        emitter.rows[op.results[0]] = Row(op, (), loop.order)

    def walks(self) -> bool:
        return self.loop.whole

    def step(self, values: Values, position: Tile, bound: Tile | None) -> Values:
        before = self.e.rows[self.op.results[0]].held
        self.e.rows[self.op.results[0]] = Row(self.op, (*before, *self.e.block(self.block)), self.loop.order)
        return []


class ScanWalker(Walker):
    """A scan: of each tile, then combined with what came before it. Loops of the same walk read the tile at hand.

    What is carried has the loop's dimension too, of size 1: Triton takes a sum that a loop carries, of tiles' sums, for a reduction whose
    result is used after the loop, and fails if it is not.
    """

    def __init__(self, emitter: LoopBody, op: ir.Operation, loop: Loop):
        super().__init__(emitter, op, loop)
        kind = op.attributes["kind"].value
        sizes = op.attributes["ranges"].value.results
        if kind not in SCANS or any(constant(n) != 1 for d, n in enumerate(sizes) if d != op.attributes["dim"].value):
            raise unsupported(op, f"a scan of kind '{kind}' over {', '.join(map(str, sizes))}")
        if loop.axis is None and not all(constant(n) == 1 for n in sizes):
            raise unsupported(op, "a scan point by point")
        if loop.whole and loop.tiles > 1:
            raise unsupported(op, "a scan of several tiles that are held")
        self.scan = SCANS[kind]
        end = end_of(self.block)
        self.type = emitter.checked(op, end.operands[0].type)

    def start(self) -> Values:
        return self.scan.start(self.e.b, self.type, self.e.ix.type, self._carried)

    def _carried(self, scalar: ir.Type) -> ir.Type:
        return ir.RankedTensorType.get([*(axis.extent for axis in self.outside), 1], scalar) if self.outside else scalar

    def step(self, values: Values, position: Tile, bound: Tile | None) -> Values:
        e, b, axes, loop = self.e, self.e.b, self.e.axes, self.loop
        (x,) = e.block(self.block)
        state = self.scan.lift(b, spread(b, x, axes), lambda: spread(b, position, axes))
        if loop.axis is None:
            self._hold(state)
            return values
        along = len(axes) - 1
        scanned = scan_along(b, self.scan, state, along)
        carried: Values = []
        if values:
            if bound is not None:
                inside = spread(b, bound, axes)
                identity = self.scan.start(b, self.type, e.ix.type, lambda t: shaped(t, axes))
                state = [b.select(inside, value, nothing) for value, nothing in zip(state, identity)]
            name = "tt.broadcast" if self.outside else "tt.splat"
            before = [b.value(name, shaped(element(value.type), axes), [value]) for value in values]
            scanned = self.scan.combine(b, before, scanned)
            tile = reduce_along(b, self.scan, state, along)
            if self.outside:
                axis = {"axis": b.number(b.i32, along)}
                tile = [b.value("tt.expand_dims", self._carried(element(value.type)), [value], axis) for value in tile]
            carried = self.scan.combine(b, values, tile)
        self._hold(scanned)
        return carried

    def _hold(self, state: Values) -> None:
        """Gives the tile at hand to those that read it."""
        e, result = self.e, self.op.results[0]
        (value,) = self.scan.finish(e.b, state, scalar_type(result.type.element_type))
        e.rows[result] = Row(self.op, (Tile(value, e.axes),), self.loop.order)

    def leave(self) -> None:
        if self.loop.axis is not None and not self.loop.whole:
            self.e.rows[self.op.results[0]] = Row(self.op, (), self.loop.order)  # the tile at hand is gone


class ColumnsWalker(Walker):
    """Reductions at each point of a foreach that is held, over the rows that another loop walks: see `along` in `schedule-kernels`."""

    def __init__(self, emitter: LoopBody, op: ir.Operation, loop: Loop):
        super().__init__(emitter, op, loop)
        self.reduces = inner_loops(op)
        if loop.axis is not None or any(
            r.attributes["ranges"] != loop.ops[0].attributes["ranges"] for r in self.reduces
        ):
            raise unsupported(op, "columns along a walk over other rows, or over several at once")
        points = constant(emitter.ix.product([([], n) for n in op.attributes["ranges"].value.results]))
        step = emitter.plan[op].step
        if points is None or points == 1 or (points > step and not emitter.plan[op].held):
            raise unsupported(op, "columns along a walk that are not held")
        self.tiles = -(-points // step)

    def start(self) -> Values:
        e = self.e
        values: Values = []
        self.walkers: list[list[ReduceWalker]] = []  # of each tile
        for number in range(self.tiles):
            with e.tile_of(self.op, number):
                e.prefix(self.op)
                self.walkers.append([ReduceWalker(e, inner, self.loop) for inner in self.reduces])
                for walker in self.walkers[-1]:
                    own = walker.start()
                    walker.width = len(own)
                    values += own
        return values

    def step(self, values: Values, position: Tile, bound: Tile | None) -> Values:
        e = self.e
        carried: Values = []
        for number, walkers in enumerate(self.walkers):
            with e.tile_of(self.op, number):
                for walker in walkers:
                    own, values = values[: walker.width], values[walker.width :]
                    e.ix.bind(e.groups_of(walker.op, self.loop.order), position)
                    carried += walker.step(own, position, None)
        return carried

    def finish(self, states: list[Values]) -> None:
        (values,) = states
        for walkers in self.walkers:
            for walker in walkers:
                own, values = values[: walker.width], values[walker.width :]
                walker.finish([own])

    def leave(self) -> None:
        results = [result for op in self.reduces for result in op.results]
        found = self.e.columns[self.op] = []
        for walkers in self.walkers:
            for walker in walkers:
                walker.leave()
            found.append({result: self.e.env[result] for result in results})


WALKERS: dict[str, type[Walker]] = {
    "bascule.foreach": Walker,
    "bascule.reduce": ReduceWalker,
    "bascule.compute": ComputeWalker,
    "bascule.scan": ScanWalker,
}

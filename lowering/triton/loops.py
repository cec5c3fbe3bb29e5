"""The loops of a kernel's body: all at once along an axis of tiles, in steps, or point by point."""

from collections.abc import Callable

from bascule.dialect.ir.shapes import constant, expr
from bascule.dialect.ir.types import scalar_type
from bascule.dialect.mlir import ir

from .body import RULES, Body, Loop, unsupported
from .reductions import REDUCTIONS, SCANS, Reduction, Values, reduce_along, scan_along
from .schedule import power_of_two
from .tiles import Axes, Axis, Tile, elementwise, shaped, spread, union

Step = Callable[[Values, Tile, Tile | None], Values]  # (carried, position, bound) -> carried


class Emitter(Body):
    """Emits whole kernel bodies; `rblock` is the longest loop that is one tile, and the step of longer ones."""

    rblock = 1

    def bounded(self, position: Tile, size: ir.AffineExpr, extent: int) -> Tile | None:
        """`position` < `size`, unless whole steps of `extent` make it always so."""
        known = constant(size)
        if known and known % extent == 0:
            return None
        return elementwise(self.b, lambda p, n: self.b.compare("slt", p, n), [position, self.ix.evaluate(expr(size))])

    def _walk(self, op: ir.Operation, carried: Callable[[Axes], Values], step: Step) -> tuple[Values, Loop]:
        """Runs `step` at the points of the loop `op`, under its axis and bound. `carried` gives the values to begin with, over all
        axes in force; a loop that is one tile carries nothing."""
        b, ix = self.b, self.ix
        groups = list(self.expressions.groups(op.regions[0].blocks[0].arguments, op.attributes["ranges"].value.results))
        size = ix.product(groups)
        known = constant(size)
        whole = known is not None and power_of_two(known) <= self.rblock
        outer_axes, outer_loop = self.axes, self.loop
        axis = None
        if outer_loop is None and known != 1:
            axis = Axis(1, power_of_two(known) if known is not None and whole else self.rblock)
        self.loop = loop = Loop(op, axis, whole and axis is not None)
        self.axes = outer_axes if axis is None else union(outer_axes, (axis,))

        def at(position: Tile, values: Values) -> Values:
            ix.bind(groups, position)
            bound = None if axis is None else self.bounded(position, size, axis.extent)
            with self._under(bound, False):
                return step(values, position, bound)

        if known == 1:
            values = at(ix.number(0), carried(self.axes))
        elif loop.whole:
            values = at(self.range(loop.axis, ix.number(0)), [])
        else:
            stride = axis.extent if axis is not None else 1
            bounds = ix.number(0).value, ix.evaluate(size).value, ix.number(stride).value
            initial = carried(self.axes)

            def body(iv: ir.Value, values: list[ir.Value]) -> Values:
                return at(Tile(iv) if axis is None else self.range(axis, Tile(iv)), values)

            values = b.loop(bounds, initial, body)
        self.axes, self.loop = outer_axes, outer_loop
        return values, loop

    def range(self, axis: Axis | None, start: Tile) -> Tile:
        """start, start + 1, ... along `axis`."""
        b = self.b
        assert axis is not None
        limits = {"start": b.number(b.i32, 0), "end": b.number(b.i32, axis.extent)}
        lanes = b.value("tt.make_range", shaped(b.i32, (axis,)), [], limits)
        if self.ix.type != b.i32:
            lanes = b.convert("arith.extsi", lanes, self.ix.type)
        tile = Tile(lanes, (axis,))
        return tile if start == self.ix.number(0) else self.ix.op("arith.addi", start, tile)

    def _foreach(self, op: ir.Operation) -> None:
        def step(values: Values, position: Tile, bound: Tile | None) -> Values:
            self.block(op.regions[0].blocks[0])
            return values

        self._walk(op, lambda axes: [], step)

    def _reduce(self, op: ir.Operation) -> None:
        b = self.b
        reduction: Reduction = REDUCTIONS[op.attributes["kind"].value]
        block = op.regions[0].blocks[0]
        type_ = self._checked(op, block.operations[len(block.operations) - 1].operation.operands[0].type)

        def start(axes: Axes) -> Values:
            return reduction.start(b, type_, self.ix.type, lambda t: shaped(t, axes))

        def step(values: Values, position: Tile, bound: Tile | None) -> Values:
            (x,) = self.block(block)
            axes = self.axes
            state = reduction.lift(b, spread(b, x, axes), lambda: spread(b, position, axes))
            if bound is not None:
                inside = spread(b, bound, axes)
                state = [b.select(inside, v, n) for v, n in zip(state, start(axes))]
            return reduction.combine(b, values, state) if values else state

        state, loop = self._walk(op, start, step)
        if loop.axis is not None:
            state = reduce_along(b, reduction, state, len(self.axes))
        result_type = scalar_type(op.results[0].type)
        for result, value in zip(op.results, reduction.finish(b, state, result_type)):
            self.env[result] = Tile(value, self.axes)

    def _compute(self, op: ir.Operation) -> None:
        held: list[Tile] = []

        def step(values: Values, position: Tile, bound: Tile | None) -> Values:
            held.extend(self.block(op.regions[0].blocks[0]))
            return values

        if self._holds(op):
            self._walk(op, lambda axes: [], step)
        self.rows[op.results[0]] = op, held[0] if held else None

    def _holds(self, op: ir.Operation) -> bool:
        """Whether a row over the op's ranges is one tile."""
        sizes = [constant(size) for size in op.attributes["ranges"].value.results]
        points = 1
        for size in sizes:
            if size is None:
                return False
            points *= size
        return self.loop is None and points > 1 and power_of_two(points) <= self.rblock

    def _scan(self, op: ir.Operation) -> None:
        b, kind = self.b, op.attributes["kind"].value
        sizes = op.attributes["ranges"].value.results
        if (
            kind not in SCANS
            or not self._holds(op)
            or any(constant(size) != 1 for i, size in enumerate(sizes) if i != op.attributes["dim"].value)
        ):
            raise unsupported(op, f"a scan of kind '{kind}' over {sizes} in steps of {self.rblock}")
        held: list[Tile] = []

        def step(values: Values, position: Tile, bound: Tile | None) -> Values:
            (x,) = self.block(op.regions[0].blocks[0])
            (value,) = scan_along(b, SCANS[kind], [spread(b, x, self.axes)], len(self.axes) - 1)
            held.append(Tile(value, self.axes))
            return values

        self._walk(op, lambda axes: [], step)
        self.rows[op.results[0]] = op, held[0]


RULES.update(
    {
        "bascule.foreach": Emitter._foreach,
        "bascule.reduce": Emitter._reduce,
        "bascule.compute": Emitter._compute,
        "bascule.scan": Emitter._scan,
    }
)

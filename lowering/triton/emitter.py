"""The body of a kernel, op by op, at tiles."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from bascule.dialect.errors import UnsupportedError
from bascule.dialect.ir.locations import operators_of, source_of
from bascule.dialect.ir.shapes import constant, expr
from bascule.dialect.ir.types import scalar_type
from bascule.dialect.mlir import ir

from . import scalars
from .builder import Builder, element
from .expressions import Expressions, stored
from .indexing import Indexing
from .memory import Condition, Memory
from .reductions import REDUCTIONS, SCANS, Reduction, Values, reduce_along, scan_along
from .schedule import power_of_two
from .tiles import Axis, Tile, elementwise, shaped, spread, union


def unsupported(op: ir.Operation, what: str) -> UnsupportedError:
    names = operators_of(op.location)
    operator = names[0] if names else op.name
    return UnsupportedError(f"{what}: no Triton lowering yet", operator=operator, location=source_of(op.location))


@dataclass(eq=False)
class Loop:
    """An inner loop in force. `axis`: its points are a dimension of tiles, all at once (`whole`) or some in each step; None: one at a time."""

    op: ir.Operation
    axis: Axis | None
    whole: bool


Step = Callable[[Values, Tile, Tile | None], Values]  # (carried, position, bound) -> carried


class Emitter:
    def __init__(self, b: Builder, expressions: Expressions, indexing: Indexing, buffers: dict[ir.Value, ir.Value]):
        self.b, self.expressions, self.ix, self.buffers = b, expressions, indexing, buffers
        self.memory = Memory(b)
        self.env: dict[ir.Value, Tile] = {}
        self.rows: dict[
            ir.Value, tuple[ir.Operation, Tile | None]
        ] = {}  # a compute or scan, and its tile if it is held
        self.axes: tuple[Axis, ...] = ()  # in force
        self.loop: Loop | None = None
        self.rblock = 1

    # Blocks and scalars

    def block(self, block: ir.Block) -> list[Tile]:
        """Emits a block; what its yield gives."""
        for view in block.operations:
            op = view.operation
            if op.name in ("bascule.yield", "scf.yield"):
                return [self.tile(value) for value in op.operands]
            before, self.b.location = self.b.location, op.location
            self._op(op)
            self.b.location = before
        return []

    def tile(self, value: ir.Value) -> Tile:
        if isinstance(value.type, ir.IndexType):
            return self.ix.evaluate(self.expressions.of(value))
        return self.env[value]

    def _op(self, op: ir.Operation) -> None:
        rule = _RULES.get(op.name)
        if rule is not None:
            rule(self, op)
        elif op.name == "arith.constant":
            self._constant(op)
        elif scalars.supports(op.name):
            self._scalar(op)
        else:
            raise unsupported(op, f"'{op.name}'")

    def _define(self, value: ir.Value, tile: Tile) -> None:
        if not isinstance(value.type, ir.IndexType):
            self.env[value] = tile
            return
        e = self.expressions.of(value)
        if isinstance(e, ir.AffineDimExpr):  # an atom: it came from data
            self.ix.at[e.position] = lambda: tile

    def _constant(self, op: ir.Operation) -> None:
        type_ = op.results[0].type
        if not isinstance(type_, ir.IndexType):
            self._checked(op, type_)
            self.env[op.results[0]] = Tile(self.b.constant(type_, op.attributes["value"].value))

    def _scalar(self, op: ir.Operation) -> None:
        results = list(op.results)
        if isinstance(results[0].type, ir.IndexType) and not self._is_atom(results[0]):
            return  # an affine expression: emitted where it is used
        types = [self._checked(op, self.ix.type if isinstance(r.type, ir.IndexType) else r.type) for r in results]
        tiles = [self.tile(value) for value in op.operands]
        axes = union(*(tile.axes for tile in tiles))
        values = scalars.emit(self.b, op, types, [spread(self.b, tile, axes) for tile in tiles])
        for result, value in zip(results, values):
            self._define(result, Tile(value, axes))

    def _is_atom(self, value: ir.Value) -> bool:
        return isinstance(self.expressions.of(value), ir.AffineDimExpr) and value.owner.name != "affine.apply"

    def _checked(self, op: ir.Operation, type_: ir.Type) -> ir.Type:
        floats = ir.F16Type, ir.BF16Type, ir.F32Type, ir.F64Type
        if isinstance(type_, floats) or (isinstance(type_, ir.IntegerType) and type_.width in (1, 8, 16, 32, 64)):
            return type_
        raise unsupported(op, f"elements of type {type_}")

    # Memory

    def _load(self, op: ir.Operation) -> None:
        type_ = op.operands[0].type
        scalar = self._checked(op, scalar_type(type_.element_type))
        offset = self.ix.address(self.expressions.address(op))
        self.env[op.results[0]] = self.memory.load(self.buffers[op.operands[0]], offset, stored(type_), scalar)

    def _store(self, op: ir.Operation) -> None:
        value, dest = self.tile(op.operands[0]), op.operands[1]
        offset = self.ix.address(self.expressions.address(op))
        mode = op.attributes["mode"].value if "mode" in op.attributes else "set"
        base = self.buffers[dest]
        if mode == "set":
            self.memory.store(base, offset, value)
            return
        refused = self.memory.atomic(base, offset, value, mode, self.axes, scalar_type(dest.type.element_type))
        if refused:
            raise unsupported(op, refused)

    def _extract(self, op: ir.Operation) -> None:
        source, *indices = op.operands
        made, held = self.rows[source]
        if held is not None and self._aligned(made, indices):
            self.env[op.results[0]] = held
            return
        if made.name != "bascule.compute":
            raise unsupported(op, "a scan read at another index than its own")
        # Computed again, here: it is a pure function of its index.
        block = made.regions[0].blocks[0]
        tiles = [self.tile(index) for index in indices]
        for argument, tile in zip(block.arguments, tiles):
            atom = self.expressions.of(argument).position
            self.ix.at[atom] = lambda tile=tile: tile
            self.ix.positive.add(atom)
        self.env[op.results[0]] = self.block(block)[0]

    def _aligned(self, made: ir.Operation, indices: list[ir.Value]) -> bool:
        loop = self.loop
        if loop is None or not loop.whole or loop.op.attributes["ranges"] != made.attributes["ranges"]:
            return False
        arguments = loop.op.regions[0].blocks[0].arguments
        return [self.expressions.of(i) for i in indices] == [self.expressions.of(a) for a in arguments]

    # Conditions

    @contextmanager
    def _under(self, condition: Tile | None, guard: bool) -> Iterator[None]:
        if condition is not None:
            self.memory.conditions.append(Condition(condition, guard))
        try:
            yield
        finally:
            if condition is not None:
                self.memory.conditions.pop()

    def _if(self, op: ir.Operation) -> None:
        b, condition = self.b, self.tile(op.operands[0])
        opposite = elementwise(b, lambda c: b.same("arith.xori", c, b.constant(c.type, -1)), [condition])
        branches = []
        for region, guard in zip(op.regions, (condition, opposite)):
            if len(region.blocks):
                with self._under(guard, True):
                    branches.append(self.block(region.blocks[0]))
        for number, result in enumerate(op.results):
            chosen = elementwise(b, b.select, [condition, *(branch[number] for branch in branches)])
            self._define(result, chosen)

    # Loops

    def bounded(self, position: Tile, size: ir.AffineExpr, extent: int) -> Tile | None:
        """`position` < `size`, unless whole steps of `extent` make it always so."""
        known = constant(size)
        if known and known % extent == 0:
            return None
        return elementwise(self.b, lambda p, n: self.b.compare("slt", p, n), [position, self.ix.evaluate(expr(size))])

    def _walk(self, op: ir.Operation, carried: Callable[[tuple[Axis, ...]], Values], step: Step) -> tuple[Values, Loop]:
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

        def start(axes: tuple[Axis, ...]) -> Values:
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


_RULES: dict[str, Callable[[Emitter, ir.Operation], None]] = {
    "memref.load": Emitter._load,
    "tensor.extract": Emitter._extract,
    "bascule.store": Emitter._store,
    "bascule.foreach": Emitter._foreach,
    "bascule.reduce": Emitter._reduce,
    "bascule.compute": Emitter._compute,
    "bascule.scan": Emitter._scan,
    "scf.if": Emitter._if,
    "affine.apply": lambda emitter, op: None,  # an affine expression: emitted where it is used
}

__all__ = ["Emitter", "element", "unsupported"]

"""The body of a kernel at tiles, op by op; `loops.py` has the loops."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from bascule.dialect.errors import UnsupportedError
from bascule.dialect.ir.locations import operators_of, source_of
from bascule.dialect.ir.types import scalar_type
from bascule.dialect.mlir import ir

from . import scalars
from .builder import Builder
from .expressions import Expressions, stored
from .indexing import Indexing
from .memory import Condition, Memory
from .tiles import Axis, Tile, elementwise, spread, union


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


class Body:
    """Emits blocks of scalar operations, reads and writes at tiles."""

    def __init__(self, b: Builder, expressions: Expressions, indexing: Indexing, buffers: dict[ir.Value, ir.Value]):
        self.b, self.expressions, self.ix, self.buffers = b, expressions, indexing, buffers
        self.memory = Memory(b)
        self.env: dict[ir.Value, Tile] = {}
        # A compute or scan, and its tile if it is held.
        self.rows: dict[ir.Value, tuple[ir.Operation, Tile | None]] = {}
        self.axes: tuple[Axis, ...] = ()  # in force
        self.loop: Loop | None = None

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
        rule = RULES.get(op.name)
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
            self.ix.put(e.position, tile, positive=False)

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
            self.ix.put(self.expressions.of(argument).position, tile, positive=True)
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


RULES: dict[str, Callable[[Any, ir.Operation], None]] = {
    "memref.load": Body._load,
    "tensor.extract": Body._extract,
    "bascule.store": Body._store,
    "scf.if": Body._if,
    "affine.apply": lambda emitter, op: None,  # an affine expression: emitted where it is used
}  # and the loops, in `loops.py`

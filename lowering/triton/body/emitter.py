"""The body of a kernel at tiles, op by op; `lowering/triton/kernels/loops.py` has the loops."""

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from bascule.dialect.errors import UnsupportedError, UserError
from bascule.dialect.ir.attribute_names import TAIL
from bascule.dialect.ir.functions import CHECKED
from bascule.dialect.ir.locations import operators_of, source_of
from bascule.dialect.ir.regions import end_of
from bascule.dialect.mlir import ir

from ..values import scalars
from ..values.approximations import scaled_or_hidden
from ..values.builder import Builder
from ..values.float8 import FLOAT8
from ..values.precision import Precision
from ..values.tiles import Axes, Axis, Tile, elementwise, is_pair, spread, union
from .expressions import Expressions
from .indexing import Indexing
from .memory import Condition, Memory


def unsupported(op: ir.Operation, what: str) -> UnsupportedError:
    names = operators_of(op.location)
    operator = names[0] if names else op.name
    return UnsupportedError(f"{what}: no Triton lowering yet", operator=operator, location=source_of(op.location))


@dataclass(eq=False)
class Loop:
    """Inner loops in force, walked together. `axis`: their points are a dimension of tiles, all at once (`whole`: held, as one tile or
    several) or some in each step; None: one at a time. `start`: the first position of the step at hand, None outside of a walk; `points`:
    how many there are, if known; `number`: of the tile at hand, of what is held; `keeps`: whether the reads of the step at hand stay in
    registers for later walks; `walk`: its number; `tiles`: how many are held; `multiplies`: tensor cores do, or at its points."""

    ops: list[ir.Operation]
    order: tuple[int, ...]
    axis: Axis | None
    whole: bool
    evict: str = "normal"
    start: ir.Value | None = None
    points: int | None = None
    fold: int = 0
    number: int = 0
    keeps: bool = False
    walk: int = 0
    tiles: int = 1
    multiplies: bool = False


@dataclass(frozen=True)
class Row:
    """A compute or scan, the tiles that it is if it is held, and the order of its dims in them."""

    op: ir.Operation
    held: tuple[Tile, ...]
    order: tuple[int, ...]


class Body:
    """Emits blocks of scalar operations, reads and writes at tiles."""

    def __init__(
        self,
        b: Builder,
        expressions: Expressions,
        indexing: Indexing,
        buffers: dict[ir.Value, ir.Value],
        capability: int,
        stages: int,
        threads: int,
    ):
        self.b, self.expressions, self.ix, self.buffers = b, expressions, indexing, buffers
        self.memory, self.precision = Memory(b), Precision()
        self.env: dict[ir.Value, Tile] = {}
        self.rows: dict[ir.Value, Row] = {}
        self.columns: dict[ir.Operation, list[dict[ir.Value, Tile]]] = {}  # foreach -> its reductions, of each tile
        self.capability, self.stages, self.threads = capability, stages, threads
        self.nullable: Collection[ir.Value] = ()  # of the buffers, those whose address may be 0
        self.domain: set[int] = set()  # the atoms of the domain's indices
        self.guards = False  # whether the domain has conditions and no loops
        self.axes: tuple[Axis, ...] = ()  # in force
        self.loop: Loop | None = None
        self.cluster = 1  # programs that share a tile
        self.member: Tile  # which of several this is
        self.met = False  # whether they have exchanged something
        self.asserted: set[ir.Value] = set()
        self.checks = True  # whether what is marked to be checked is
        self.read_with: set[ir.Operation] = set()  # loads to come, whose elements an earlier one has read
        # Of conditions that are known in some steps of the loop at hand: how to choose by them.
        self.settled: dict[ir.Value, Callable[[ir.Value, ir.Value, ir.Value], ir.Value]] = {}

    def share(self, programs: int, member: Tile) -> None:
        """The program is number `member` of a cluster of `programs`, which share what it is given to do."""
        self.cluster, self.member = programs, member

    # Blocks and scalars

    def block(self, block: ir.Block) -> list[Tile]:
        """Emits a block; what its yield gives."""
        for view in block.operations:
            op = view.operation
            if op.name in ("bascule.yield", "scf.yield", "scf.condition"):
                return [self.tile(value) for value in op.operands]
            self._op(op)
        return []

    def tile(self, value: ir.Value) -> Tile:
        if isinstance(value.type, ir.IndexType):
            return self.ix.evaluate(self.expressions.of(value))
        if isinstance(value.type, ir.MemRefType | ir.RankedTensorType):
            what = "a buffer is chosen in a kernel, or handed on: no Triton lowering yet"
            raise UnsupportedError(what, location=source_of(self.b.location))
        if value not in self.env:  # both are in one walk
            what = "the schedule runs a loop before what it needs is there: what needs a loop's result has to be in a later walk"
            raise UserError(
                what, location=source_of(value.owner.location), hint="schedule-kernels{target=cuda} makes schedules"
            )
        return self.env[value]

    def _op(self, op: ir.Operation) -> None:
        before, self.b.location = self.b.location, op.location
        self._emit(op)
        self.b.location = before

    def _emit(self, op: ir.Operation) -> None:
        rule = RULES.get(op.name)
        if rule is not None:
            rule(self, op)
        elif op.name == "arith.constant":
            self._constant(op)
        elif scalars.supports(op.name):
            self.scalar(op)
        else:
            raise unsupported(op, f"'{op.name}'")

    def define(self, value: ir.Value, tile: Tile) -> None:
        if not isinstance(value.type, ir.IndexType):
            self.env[value] = tile
            return
        e = self.expressions.of(value)
        if isinstance(e, ir.AffineDimExpr):  # an atom: it came from data, or is the last one beyond a tail
            self.ix.put(e.position, tile, positive=TAIL in value.owner.attributes)

    def _constant(self, op: ir.Operation) -> None:
        type_ = op.results[0].type
        if not isinstance(type_, ir.IndexType):
            self.checked(op, type_)
            self.env[op.results[0]] = Tile(self.b.constant(type_, op.attributes["value"].value))

    def scalar(self, op: ir.Operation, tiles: Sequence[Tile] | None = None) -> None:
        """Emits an operation on scalars; `tiles`: its operands, where they are not the tiles of their values."""
        results = list(op.results)
        if isinstance(results[0].type, ir.IndexType) and not self._is_atom(results[0]):
            return  # an affine expression: emitted where it is used
        if op.name == "arith.select" and op.operands[0] in self.settled:
            self.define(results[0], self._chosen(op))
            return
        types = [self.checked(op, self.ix.type if isinstance(r.type, ir.IndexType) else r.type) for r in results]
        tiles = tiles or [self.tile(value) for value in op.operands]
        exact = self._exactly(op)
        key = op.name, exact, op.attributes.get("predicate"), *types, *tiles, self.way()
        made = self.b.known(key)
        if made is None:
            made = self._computed(op, types, tiles, exact)
            self.b.keep(key, made, [tile.value for tile in made])
        for result, tile in zip(results, made):
            self.define(result, tile)
        if CHECKED in op.attributes and self.checks:
            RULES[CHECKED](self, op)

    def _exactly(self, op: ir.Operation) -> bool:
        """Whether the last bits of what `op` gives may be seen; those of the others there is one form of."""
        floats = isinstance(op.results[0].type, ir.FloatType) and op.name not in scalars.CONVERSIONS
        return floats and self.precision.exact(op.results[0])

    def way(self) -> Hashable:
        """The axes in force, and how the loop at hand goes through its points, which decide about forms."""
        return self.axes, None if self.loop is None else (self.loop.axis, self.loop.multiplies)

    def _computed(self, op: ir.Operation, types: list[ir.Type], tiles: Sequence[Tile], exact: bool) -> list[Tile]:
        axes = union(*(tile.axes for tile in tiles))
        known = next(filter(None, (form(self, op, types[0], tiles, axes) for form in FORMS)), None)
        if known is not None:
            return [known]
        values = scalars.emit(self.b, op, types, [spread(self.b, tile, axes) for tile in tiles], exact=exact)
        return [Tile(value, axes) for value in values]

    def _chosen(self, op: ir.Operation) -> Tile:
        """A choice whose condition is settled in some steps. A score is scaled after it, where what is computed from it can be one instruction
        with that: the branch ends what is computed together."""
        condition, *sides = op.operands
        scaled = scaled_or_hidden(*sides)
        if scaled is None:
            return elementwise(self.b, self.settled[condition], [self.tile(value) for value in op.operands])
        sides, factor = scaled
        chosen = elementwise(self.b, self.settled[condition], [self.tile(value) for value in (condition, *sides)])
        return Tile(self.b.same("arith.mulf", chosen.value, self.b.constant(chosen.value.type, factor)), chosen.axes)

    def _is_atom(self, value: ir.Value) -> bool:
        return isinstance(self.expressions.of(value), ir.AffineDimExpr) and value.owner.name != "affine.apply"

    def checked(self, op: ir.Operation, type_: ir.Type) -> ir.Type:
        floats = ir.F16Type, ir.BF16Type, ir.F32Type, ir.F64Type
        words = isinstance(type_, ir.IntegerType) and type_.width in (1, 8, 16, 32, 64)
        if isinstance(type_, (*FLOAT8, *floats)) or words or (is_pair(type_) and op.name == "memref.load"):
            return type_
        raise unsupported(op, f"elements of type {type_}")

    # Conditions

    @contextmanager
    def under(self, condition: Tile | None, guard: bool, atoms: Set[int] | None = None) -> Iterator[None]:
        """`atoms`: the indices that a bound is about, if no other is out of range where it does not hold."""
        if condition is not None:
            self.memory.conditions.append(Condition(condition, guard, atoms))
        try:
            yield
        finally:
            if condition is not None:
                self.memory.conditions.pop()

    @contextmanager
    def settling(self, known: dict[ir.Value, bool], plain: ir.Value) -> Iterator[None]:
        """In what is emitted here the conditions `known` of choices need not be looked at where `plain` holds."""
        self.settled = {value: partial(self.b.select_unless, plain, shown) for value, shown in known.items()}
        try:
            yield
        finally:
            self.settled = {}

    def _if(self, op: ir.Operation) -> None:
        b, condition = self.b, self.tile(op.operands[0])
        filling = _filling(op)
        if filling is not None:
            with self.memory.filled(filling), self.under(condition, True):
                (self.env[op.results[0]],) = self.block(op.regions[0].blocks[0])
            return
        opposite = elementwise(b, lambda c: b.same("arith.xori", c, b.constant(c.type, -1)), [condition])
        branches = []
        for region, guard in zip(op.regions, (condition, opposite)):
            if len(region.blocks):
                with self.under(guard, True):
                    branches.append(self.block(region.blocks[0]))
        for number, result in enumerate(op.results):
            chosen = elementwise(b, b.select, [condition, *(branch[number] for branch in branches)])
            self.define(result, chosen)


def _filling(op: ir.Operation) -> int | float | None:
    """The number that an `scf.if` gives where its condition does not hold, if all it does elsewhere is to read what it gives; None otherwise."""
    if len(op.results) != 1 or isinstance(op.results[0].type, (*FLOAT8, ir.IntegerType)):
        return None
    read, other = (end_of(region.blocks[0]).operands[0].owner for region in op.regions)
    if isinstance(read, ir.Block) or isinstance(other, ir.Block) or other.name != "arith.constant":
        return None
    own = [view.operation for view in op.regions[0].blocks[0].operations if view.operation.name != "affine.apply"]
    return other.attributes["value"].value if read.name == "memref.load" and own[:-1] == [read.operation] else None


RULES: dict[str, Callable[[Any, ir.Operation], None]] = {
    "scf.if": Body._if,
    "affine.apply": lambda emitter, op: None,  # an affine expression: emitted where it is used
}  # and what files beside this one and `kernels/loops.py` add; of `CHECKED`: what follows a scalar operation that carries it

# Of an operation on scalars, its type, the tiles of its operands and their axes: its result in a cheaper form, None where that does not hold.
FORMS: list[Callable[[Body, ir.Operation, ir.Type, Sequence[Tile], Axes], Tile | None]] = []

"""The body of a kernel at tiles, op by op; `lowering/triton/kernels/loops.py` has the loops."""

from collections.abc import Callable, Collection, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from bascule.dialect.analysis.affine.linear_forms import dims_of
from bascule.dialect.errors import UnsupportedError, UserError
from bascule.dialect.ir.attribute_names import TAIL
from bascule.dialect.ir.functions import CHECKED
from bascule.dialect.ir.locations import operators_of, source_of
from bascule.dialect.ir.regions import end_of
from bascule.dialect.ir.types import carried, scalar_type
from bascule.dialect.mlir import ir

from ..values import scalars
from ..values.approximations import is_logistic, over_one_and_more, scaled_or_hidden, scaled_twice
from ..values.builder import Builder, element
from ..values.packed_values import MOST, bytes_less, shifted, widened
from ..values.precision import Precision
from ..values.reduction_kinds import REDUCTIONS, reduce_along
from ..values.tiles import Axes, Axis, Tile, elementwise, spread, union
from .expressions import Expressions, stored
from .indexing import Indexing
from .interleaved_loads import apart, neighbours, wide_range
from .memory import Condition, Memory


def _filling(op: ir.Operation) -> int | float | None:
    """The number that an `scf.if` gives where its condition does not hold, if all it does elsewhere is to read what it gives; None otherwise."""
    if len(op.results) != 1 or isinstance(op.results[0].type, (*scalars.FLOAT8, ir.IntegerType)):
        return None
    read, other = (end_of(region.blocks[0]).operands[0].owner for region in op.regions)
    if isinstance(read, ir.Block) or isinstance(other, ir.Block) or other.name != "arith.constant":
        return None
    own = [view.operation for view in op.regions[0].blocks[0].operations if view.operation.name != "affine.apply"]
    return other.attributes["value"].value if read.name == "memref.load" and own[:-1] == [read.operation] else None


NARROWEST = 1 << 30  # integers from which on 32 bits are too few, with those of lanes beyond the last point
WHOLE = 1 << 24  # integers up to which f32 has all
FROM_BYTES = {"arith.sitofp": True, "arith.uitofp": False}  # whether they are signed
SUMS = {"arith.addi": "arith.addf", "arith.subi": "arith.subf"}


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


FLOAT8_CAPABILITY = 89
EVICTIONS = {"normal": 1, "first": 2, "last": 3}  # Triton's numbers


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
            self._scalar(op)
        else:
            raise unsupported(op, f"'{op.name}'")

    def _define(self, value: ir.Value, tile: Tile) -> None:
        if not isinstance(value.type, ir.IndexType):
            self.env[value] = tile
            return
        e = self.expressions.of(value)
        if isinstance(e, ir.AffineDimExpr):  # an atom: it came from data, or is the last one beyond a tail
            self.ix.put(e.position, tile, positive=TAIL in value.owner.attributes)

    def _constant(self, op: ir.Operation) -> None:
        type_ = op.results[0].type
        if not isinstance(type_, ir.IndexType):
            self._checked(op, type_)
            self.env[op.results[0]] = Tile(self.b.constant(type_, op.attributes["value"].value))

    def _scalar(self, op: ir.Operation) -> None:
        results = list(op.results)
        if isinstance(results[0].type, ir.IndexType) and not self._is_atom(results[0]):
            return  # an affine expression: emitted where it is used
        if op.name == "arith.select" and op.operands[0] in self.settled:
            self._define(results[0], self._chosen(op))
            return
        types = [self._checked(op, self.ix.type if isinstance(r.type, ir.IndexType) else r.type) for r in results]
        tiles = self._compared(op) or [self.tile(value) for value in op.operands]
        axes = union(*(tile.axes for tile in tiles))
        known = (
            self._converted(op, types[0])
            or self._of_bytes(op, types[0])
            or self._approximated(op, types[0], tiles, axes)
        )
        if known is not None:
            self._define(results[0], known)
            return
        exact = op.name not in scalars.APPROXIMATE or self.precision.exact(results[0])
        values = scalars.emit(self.b, op, types, [spread(self.b, tile, axes) for tile in tiles], exact=exact)
        for result, value in zip(results, values):
            self._define(result, Tile(value, axes))
        if CHECKED in op.attributes and self.checks:
            RULES[CHECKED](self, op)

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

    def _compared(self, op: ir.Operation) -> list[Tile] | None:
        """The operands of a comparison of 64-bit integers that are computed of indices, in 32 bits; None where these are too few."""
        if op.name != "arith.cmpi" or op.operands[0].type != self.b.i64 or self.ix.type != self.b.i32:
            return None
        found = [self._narrow(value) for value in op.operands]
        return [tile for tile in found if tile is not None] if None not in found else None

    def _narrow(self, value: ir.Value) -> Tile | None:
        """An integer that is computed of indices, in 32 bits; None where these may be too few."""
        bound, owner = self.expressions.bound(value), value.owner
        if bound is None or bound >= NARROWEST:
            return None
        if isinstance(value.type, ir.IndexType):
            return self.tile(value)
        if isinstance(owner, ir.Block) or value.type.width < self.b.i32.width:
            return None
        if owner.name == "arith.constant":
            return Tile(self.b.constant(self.b.i32, owner.attributes["value"].value))
        sides = [tile for operand in owner.operands if (tile := self._narrow(operand)) is not None]
        if len(sides) < len(owner.operands):
            return None
        return elementwise(self.b, partial(self.b.same, owner.name), sides) if len(sides) == 2 else sides[0]

    def _converted(self, op: ir.Operation, type_: ir.Type) -> Tile | None:
        """A sum or difference of small integers over different axes, as a float: each is converted before it is spread over those of the other.
        None for something else."""
        if op.name != "arith.sitofp" or type_ != self.b.f32:
            return None
        made = op.operands[0].owner
        if isinstance(made, ir.Block) or made.name not in SUMS:
            return None
        sides, bound = [self.tile(operand) for operand in made.operands], self.expressions.bound(op.operands[0])
        one, other = (set(side.axes) for side in sides)
        if bound is None or bound > WHOLE or one <= other or other <= one:
            return None
        floats = [elementwise(self.b, lambda x: self.b.convert("arith.sitofp", x, type_), [side]) for side in sides]
        return elementwise(self.b, lambda x, y: self.b.same(SUMS[made.name], x, y), floats)

    def _approximated(self, op: ir.Operation, type_: ir.Type, tiles: Sequence[Tile], axes: Axes) -> Tile | None:
        """The f32 that `op` gives, in a cheaper form that is as near or nearly so; None where there is none, or its last bits are seen."""
        if type_ != self.b.f32:
            return None
        if self.loop is not None and op.name == "arith.extf" and self._widens(tiles[0].value, type_):
            return Tile(widened(self.b, tiles[0].value), axes)
        twice = scaled_twice(op)
        if (op.name != "arith.divf" and twice is None) or self.precision.exact(op.results[0]):
            return None
        if twice is not None:
            x = self.tile(twice[0])
            return Tile(self.b.same("arith.mulf", x.value, self.b.constant(x.value.type, twice[1])), x.axes)
        if tiles[1].axes != axes:
            return self._multiplied(tiles[0], tiles[1])
        return elementwise(self.b, partial(over_one_and_more, self.b), tiles) if is_logistic(op) else None

    def _widens(self, x: ir.Value, to: ir.Type) -> bool:
        apart = not isinstance(x.owner, ir.Block) and x.owner.name == "tt.split"  # in registers of their own
        tensor = isinstance(x.type, ir.RankedTensorType) and not apart
        return tensor and isinstance(element(x.type), ir.BF16Type) and to == self.b.f32

    def _of_bytes(self, op: ir.Operation, type_: ir.Type) -> Tile | None:
        """A tensor of bytes as f32, less an integer, or shifted right, by instructions on four of them. None for something else, and where
        tensor cores multiply: there Triton has to see what is computed."""
        b, loop = self.b, self.loop
        if loop is None or loop.axis is None or loop.multiplies:
            return None
        made, less = op, 0
        if op.name == "arith.subf" and not isinstance(op.operands[0].owner, ir.Block):
            number = b.numbers.get(self.tile(op.operands[1]).value)
            made, less = op.operands[0].owner, MOST + 1 if number is None or number % 1 else int(number)
        x = self.tile(made.operands[0]) if made.name in (*FROM_BYTES, "arith.shrui") else None
        if x is None or not x.axes or element(x.value.type) != b.i8:
            return None
        if made.name == "arith.shrui":
            by = b.numbers.get(self.tile(op.operands[1]).value) if made == op else None
            return None if by is None or not 0 < by < 8 else Tile(shifted(b, x.value, int(by)), x.axes)
        if type_ != b.f32 or abs(less) > MOST:
            return None
        return Tile(bytes_less(b, x.value, FROM_BYTES[made.name], less), x.axes)

    def _multiplied(self, x: Tile, y: Tile) -> Tile:
        """About x / y, where y is one for many x: its reciprocal is taken once."""
        b = self.b
        k, r = scalars.reciprocal(b, y.value)
        scaled = elementwise(b, lambda p, q: b.same("arith.mulf", p, q), [x, Tile(k, y.axes)])
        return elementwise(b, lambda p, q: b.same("arith.mulf", p, q), [scaled, Tile(r, y.axes)])

    def _is_atom(self, value: ir.Value) -> bool:
        return isinstance(self.expressions.of(value), ir.AffineDimExpr) and value.owner.name != "affine.apply"

    def _checked(self, op: ir.Operation, type_: ir.Type) -> ir.Type:
        floats = ir.F16Type, ir.BF16Type, ir.F32Type, ir.F64Type
        if isinstance(type_, scalars.FLOAT8) and self.capability >= FLOAT8_CAPABILITY:
            return type_
        if isinstance(type_, floats) or (isinstance(type_, ir.IntegerType) and type_.width in (1, 8, 16, 32, 64)):
            return type_
        raise unsupported(op, f"elements of type {type_}")

    # Memory

    def _load(self, op: ir.Operation) -> None:
        type_ = op.operands[0].type
        scalar = self._checked(op, carried(type_.element_type))
        address = self.expressions.address(op)
        if op in self.read_with or self._load_neighbours(op, scalar):
            self.read_with.discard(op)
            return
        multiplies = self.loop is not None and self.loop.multiplies
        rest, start = (address, 0) if multiplies else self.expressions.apart(op)
        offset, evict = self._over_lanes(self.ix.address(rest, by_axes=multiplies)), self._eviction(address)
        keep = self.loop.walk if self.loop is not None and self.loop.keeps else None
        atoms = dims_of(address)
        known = (
            atoms if atoms <= self.expressions.extents.keys() else None
        )  # an index from data has any value outside of a tile
        self.env[op.results[0]] = self.memory.load(
            self._buffer(op, 0),
            offset,
            stored(type_),
            scalar,
            evict,
            keep,
            start,
            known,
            nullable=op.operands[0] in self.nullable,
        )

    def _load_neighbours(self, op: ir.Operation, scalar: ir.Type) -> bool:
        """Whether `op` is one of loads that read all elements by turns; then one load has read them all."""
        loop = self.loop
        if loop is None or loop.axis is None or loop.multiplies or loop.keeps or self.memory.conditions:
            return False
        if op.operands[0] in self.nullable:
            return False
        found = neighbours(self.expressions, self.ix, op, loop.axis)
        if found is None:
            return False
        loads, atom, rest = found
        places, wide = wide_range(self.ix, atom, loop.axis, len(loads))
        offset = self.ix.op("arith.addi", self.ix.address(rest), places)
        if offset.axes[-1] != wide:
            return False
        evict, type_ = self._eviction(self.expressions.address(op)), op.operands[0].type
        value = self.memory.load(self._buffer(op, 0), offset, stored(type_), scalar, evict)
        axes = (*value.axes[:-1], loop.axis)
        self.env |= {load.results[0]: part for load, part in zip(loads, apart(self.b, value.value, axes, len(loads)))}
        self.read_with |= {load for load in loads if load != op}
        return True

    def _over_lanes(self, offset: Tile) -> Tile:
        """Where a loop goes point by point each thread reads for itself what depends on some axes alone: Triton would exchange it through shared
        memory, with barriers, at every point. Not beside contractions, whose tiles pass through shared memory anyway."""
        if (
            self.loop is None
            or self.loop.axis is not None
            or self.loop.multiplies
            or not 0 < len(offset.axes) < len(self.axes)
        ):
            return offset
        return Tile(spread(self.b, offset, self.axes), self.axes)

    def _eviction(self, address: ir.AffineExpr) -> int:
        """As the loop at hand says; what all points of the domain read stays, and so does what points without loops read under conditions:
        such reads are several, of parts of lines."""
        if self.loop is None or self.loop.evict == "normal":
            return EVICTIONS["last" if self.guards and self.loop is None else "normal"]
        evict = "first" if self.loop.keeps else self.loop.evict  # what is kept is read once
        return EVICTIONS[evict if dims_of(address) & self.domain else "last"]

    def _store(self, op: ir.Operation) -> None:
        shared = self.loop is not None and self.loop.axis is not None
        with self.under(None if shared or self.cluster == 1 else self._first(), True):
            self._put(op)

    def _first(self) -> Tile:
        """Whether the program is the first of its cluster: what stands outside of loops all of them compute, and one stores."""
        return Tile(self.b.compare("eq", self.member.value, self.ix.number(0).value))

    def _buffer(self, op: ir.Operation, operand: int) -> ir.Value:
        """The pointer to the memory that an operand is: an argument of the kernel function."""
        if op.operands[operand] not in self.buffers:
            raise unsupported(op, f"'{op.name}' of what is no argument of the kernel function")
        return self.buffers[op.operands[operand]]

    def _put(self, op: ir.Operation) -> None:
        value, dest = self.tile(op.operands[0]), op.operands[1]
        mode = op.attributes["mode"].value if "mode" in op.attributes else "set"
        base = self._buffer(op, 1)
        if mode == "set":
            rest, start = self.expressions.apart(op)
            offset = self.ix.address(rest)
            again = self.loop is not None and self.loop.evict == "first"  # not to take the place of what is read again
            self.memory.store(base, offset, value, EVICTIONS["first" if again else "normal"], start)
            return
        offset = self.ix.address(self.expressions.address(op))
        refused = self.memory.atomic(base, offset, value, mode, self.axes, scalar_type(dest.type.element_type))
        if refused:
            raise unsupported(op, refused)

    def _extract(self, op: ir.Operation) -> None:
        source, *indices = op.operands
        row = self.rows.get(source)
        if row is None:
            raise unsupported(op, f"'{op.name}' of what no loop of the kernel makes")
        made = row.op
        if row.held and self._aligned(row, indices):
            self.env[op.results[0]] = row.held[self.loop.number]  # type: ignore[union-attr]
            return
        if made.name != "bascule.compute":
            raise unsupported(op, "a scan read at another index than its own")
        # Computed again, here: it is a pure function of its index.
        block = made.regions[0].blocks[0]
        tiles = [self.tile(index) for index in indices]
        for argument, tile in zip(block.arguments, tiles):
            self.ix.put(self.expressions.of(argument).position, tile, positive=True)
        self.env[op.results[0]] = self.block(block)[0]

    def _aligned(self, row: Row, indices: list[ir.Value]) -> bool:
        """Whether a read is at the point at hand: the loop's own index, in the walk that makes the row, or both are one tile."""
        loop = self.loop
        if loop is None or loop.ops[0].attributes["ranges"] != row.op.attributes["ranges"]:
            return False
        same = loop.points == 1 or (loop.whole and loop.order == row.order and loop.axis in row.held[0].axes)
        if row.op not in loop.ops and not same:
            return False
        wanted = [self.expressions.of(index) for index in indices]
        return any(
            wanted == [self.expressions.of(argument) for argument in op.regions[0].blocks[0].arguments]
            for op in loop.ops
        )

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
            self.memory.filling = filling
            with self.under(condition, True):
                (self.env[op.results[0]],) = self.block(op.regions[0].blocks[0])
            self.memory.filling = None
            return
        opposite = elementwise(b, lambda c: b.same("arith.xori", c, b.constant(c.type, -1)), [condition])
        branches = []
        for region, guard in zip(op.regions, (condition, opposite)):
            if len(region.blocks):
                with self.under(guard, True):
                    branches.append(self.block(region.blocks[0]))
        for number, result in enumerate(op.results):
            chosen = elementwise(b, b.select, [condition, *(branch[number] for branch in branches)])
            self._define(result, chosen)

    # Loops as long as data says

    def _for(self, op: ir.Operation) -> None:
        """`scf.for` by ones: as many steps as the longest of a program's lanes has; lanes that have fewer keep what they carry."""
        b, axes = self.b, self.axes
        lower, upper, step, *initial = op.operands
        block = op.regions[0].blocks[0]
        if b.numbers.get(self.tile(step).value) != 1:
            raise unsupported(op, "a loop by other steps than ones")
        first = self.tile(lower)
        count = elementwise(b, lambda x, y: b.same("arith.subi", x, y), [self.tile(upper), first])
        mask = self.memory.mask(count.axes)  # what is not at a point has any bounds
        if mask:
            count = Tile(b.select(mask[0], count.value, b.constant(count.value.type, 0)), count.axes)
        longest = count.value
        for axis in reversed(range(len(count.axes))):
            (longest,) = reduce_along(b, REDUCTIONS["max"], [longest], axis)
        zero, one = (b.constant(longest.type, number) for number in (0, 1))

        def body(number: ir.Value, values: list[ir.Value]) -> list[ir.Value]:
            at = elementwise(b, lambda x, y: b.same("arith.addi", x, y), [first, Tile(number)])
            inside = None
            if count.axes:
                inside = elementwise(b, lambda x, y: b.compare("slt", x, y), [Tile(number), count])
            for argument, tile in zip(block.arguments, [at, *(Tile(value, axes) for value in values)]):
                self._define(argument, tile)
            with self.under(inside, True):
                after = [spread(b, tile, axes) for tile in self.block(block)]
            if inside is None:
                return after
            goes_on = spread(b, inside, axes)
            return [b.select(goes_on, new, old) for new, old in zip(after, values)]

        last = b.loop((zero, longest, one), [spread(b, self.tile(value), axes) for value in initial], body)
        for result, value in zip(op.results, last):
            self._define(result, Tile(value, axes))


RULES: dict[str, Callable[[Any, ir.Operation], None]] = {
    "memref.load": Body._load,
    "tensor.extract": Body._extract,
    "bascule.store": Body._store,
    "scf.if": Body._if,
    "scf.for": Body._for,
    "affine.apply": lambda emitter, op: None,  # an affine expression: emitted where it is used
}  # and the loops, in `lowering/triton/kernels/loops.py`; of `CHECKED`: what follows a scalar operation that carries it

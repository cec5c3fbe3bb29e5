"""Lowers a kernel function of the program stage to one `tt.func`.

Its parameters are all symbols (i32 or i64, as the schedule says), then a pointer to each buffer's first element. The launcher aligns pointers
to 16 bytes; one of rank 0 may point into a larger buffer, and is aligned to its element. The grid has one dimension. A kernel of dynamic sizes
has variants, see `Variant`. Attributes of the function tell the launcher the rest:

    bascule.grid      affine_map<()[s0, ...] -> (programs)>
    bascule.warps     warps of a program: num_warps
    bascule.stages    stages of software pipelining: num_stages
    bascule.resident  programs of a multiprocessor, for which registers leave room; 0: the compiler decides
    bascule.cluster   programs of a thread block cluster, neighbours in the grid
    bascule.descriptors  where there are any: the tensor descriptors, parameters after the pointers; see `descriptors.py`
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial, reduce

from bascule.dialect.analysis.bodies.structural_equality import form_of
from bascule.dialect.analysis.products.segments import Segments
from bascule.dialect.ir.attribute_names import UNALIGNED
from bascule.dialect.ir.builders import symbols_of
from bascule.dialect.ir.functions import NULLABLE, argument_attributes, isolated_kernel
from bascule.dialect.ir.shapes import constant, expr, size_map
from bascule.dialect.ir.types import byte_width
from bascule.dialect.mlir import ir
from bascule.dialect.scheduling.gpu.schedule_form import DomainSchedule

from ..body import accesses, assertions, cheaper_forms, random, while_loops  # noqa: F401  (for the rules that they register)
from ..body.emitter import unsupported
from ..body.expressions import ACCESSES, Expr, Expressions, stored
from ..body.indexing import Indexing
from ..values import clusters, dependent_launch, float8
from ..values.builder import FLATTEN, SPECIALIZE, Builder
from ..values.tiles import Axis, Tile
from . import segments
from .descriptors import Described, DescribedLoads
from .loops import Emitter
from .schedule import schedule_of

GRID, WARPS, STAGES = "bascule.grid", "bascule.warps", "bascule.stages"
RESIDENT, CLUSTER, DESCRIPTORS = "bascule.resident", "bascule.cluster", "bascule.descriptors"
DIVISIBILITY = 16  # bytes


@dataclass(frozen=True)
class Variant:
    """A specialization of a kernel whose schedule has `narrow`; `suffix` follows the kernel's name.

    `bits`: width of indices; None: the schedule's. `aligned`: symbols are multiples of 16, so that loads of 16 bytes are aligned in each row.
    """

    suffix: str
    bits: int | None
    aligned: bool


SegmentTiles = segments.Rows | segments.RowsInside | segments.RowsAfter
Count = Expr | Tile  # of tiles along an axis: one that comes from data is a tile's
WIDE, NARROW, ALIGNED = Variant("", None, False), Variant("_narrow", 32, False), Variant("_aligned", 32, True)


@dataclass(eq=False)
class Part:
    """A parallel domain: the kernel's, or that of a top-level foreach in a kernel without ranges. `axes`: the index groups of each axis."""

    op: ir.Operation
    axes: list[list[tuple[list[int], Expr]]]
    schedule: DomainSchedule
    segments: Sequence[Segments] = ()  # that its rows, the last axis but one, lie in: counts of them, all alike

    def counts(self) -> list[Expr]:
        """Programs along each axis: its tiles, at most."""
        counts = [
            expr(ir.AffineExpr.get_ceil_div(Indexing.product(groups), extent))
            for groups, extent in zip(self.axes, self.schedule.tile)
        ]
        if self.segments:
            counts[-2] = expr(counts[-2] + self.segments[0].count)
        return counts

    @property
    def programs(self) -> Expr:
        """Programs of the domain: one a tile, or at most as many as the schedule says."""
        tiles = self.tiles
        known = constant(tiles)
        return tiles if not self.schedule.programs or known is None else expr(min(known, self.schedule.programs))

    @property
    def tiles(self) -> Expr:
        return Indexing.product([([], count) for count in self.counts()])


class KernelFunction:
    """One kernel function on its way to a `tt.func`, which `emit` appends to a module."""

    def __init__(self, function: ir.Operation):
        self.function = function
        self.name = function.attributes["sym_name"].value
        self.kernel = isolated_kernel(function)
        self.expressions = Expressions(function, self.kernel)
        self.arguments = list(function.regions[0].blocks[0].arguments)
        self.symbols = symbols_of(function)
        self.memrefs = self.arguments[len(self.symbols) :]
        kinds = argument_attributes(function)
        self.loose = [argument for argument, kind in zip(self.arguments, kinds) if UNALIGNED in kind]
        self.nullable = [argument for argument, kind in zip(self.arguments, kinds) if NULLABLE in kind]
        self._check_hazards()
        self.schedule = schedule_of(self.kernel)
        self.described: dict[ir.Operation, Described] = {}
        ops = [self.kernel]
        if self.schedule.group:
            block = self.kernel.regions[0].blocks[0]
            ops = [view.operation for view in block.operations if view.operation.name == "bascule.foreach"]
        else:
            own = DescribedLoads(self.expressions, self.kernel, self.schedule.domains[0], self.loose)
            self.described = own.found()
        self.descriptors = list(dict.fromkeys(each.descriptor for each in self.described.values()))
        self.parts = [self._part(op, domain) for op, domain in zip(ops, self.schedule.domains, strict=True)]

    def _check_hazards(self) -> None:
        """Refuses reads after writes. Between points: programs run in any order. Within a point: equal loads are emitted once."""
        read: dict[ir.Value, set[Expr]] = {}
        written: dict[ir.Value, set[Expr]] = {}
        late: list[ir.Operation] = []

        def visit(op: ir.Operation) -> ir.WalkResult:
            if op.name in ACCESSES:
                buffer = op.operands[ACCESSES[op.name] - 1]
                if op.name == "memref.load" and buffer in written:
                    late.append(op.operation)
                found = read if op.name == "memref.load" else written
                found.setdefault(buffer, set()).add(self.expressions.address(op))
            return ir.WalkResult.ADVANCE

        self.kernel.walk(visit)
        if late:
            raise unsupported(late[0], "reading a buffer after a store to it")
        for buffer in read.keys() & written.keys():
            if read[buffer] != written[buffer] or len(read[buffer]) > 1:
                raise unsupported(self.kernel, f"kernel '{self.name}', which reads a buffer where it does not store it")

    def _part(self, op: ir.Operation, domain: DomainSchedule) -> Part:
        arguments = list(op.regions[0].blocks[0].arguments)
        sizes = op.attributes["ranges"].value.results
        axes, first = [], 0
        for count in domain.axes:
            dims = domain.order[first : first + count]
            axes.append(list(self.expressions.groups([arguments[d] for d in dims], [sizes[d] for d in dims])))
            first += count
        return Part(op, axes, domain, segments.counts_of(op, domain))

    @property
    def variants(self) -> tuple[Variant, ...]:
        """The specializations to emit."""
        return (WIDE,) if self.schedule.narrow is None else (WIDE, NARROW, ALIGNED)

    @property
    def warps(self) -> int:
        """Those that Triton is told of: all, or one warp group's, beside which it makes others."""
        consumers = max(domain.consumers for domain in self.schedule.domains)
        return self.schedule.warps // max(1, consumers)

    def _alignment(self, memref: ir.Value) -> int:
        """Bytes for the `tt.divisibility` hint of a buffer's address.

        A buffer of bytes (a mask) beside wider ones of its sizes gets a smaller hint than holds. So a thread loads as many elements of each,
        Triton needs one layout, and computes nothing twice.
        """
        width = byte_width(memref.type.element_type)
        sizes = [other.type for other in self.memrefs if list(other.type.shape) == list(memref.type.shape)]
        wider = [w for type_ in sizes if (w := byte_width(type_.element_type)) > width]
        return DIVISIBILITY * width // min(wider) if wider and width == 1 else DIVISIBILITY

    def emit(self, body: ir.Block, variant: Variant = WIDE) -> ir.Operation:
        """Appends the `tt.func` of `variant` to `body`."""
        index = ir.IntegerType.get_signless(variant.bits or self.schedule.index_bits)
        types = [index] * len(self.symbols)
        types += [ir.Type.parse(f"!tt.ptr<{stored(memref.type)}>") for memref in self.memrefs]
        types += [descriptor.type for descriptor in self.descriptors]
        grid = expr(0)
        for part in self.parts:
            grid = expr(grid + part.programs * self.schedule.cluster)
        i32 = ir.IntegerType.get_signless(32)
        aligned, plain = _divisible(DIVISIBILITY), ir.DictAttr.get({})
        attributes = {
            "sym_name": ir.StringAttr.get(self.name + variant.suffix),
            "sym_visibility": ir.StringAttr.get("public"),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get(types, [])),
            "arg_attrs": ir.ArrayAttr.get(
                [aligned if variant.aligned else plain for _ in self.symbols]
                + [plain if memref in self.loose else _divisible(self._alignment(memref)) for memref in self.memrefs]
                + [plain for _ in self.descriptors]
            ),
            GRID: ir.AffineMapAttr.get(size_map([grid])),
            WARPS: ir.IntegerAttr.get(i32, self.warps),
            STAGES: ir.IntegerAttr.get(i32, self.schedule.stages),
            RESIDENT: ir.IntegerAttr.get(i32, self.schedule.resident),
            CLUSTER: ir.IntegerAttr.get(i32, self.schedule.cluster),
        }
        if self.descriptors:
            made = [each.attribute(self.arguments.index(each.buffer)) for each in self.descriptors]
            attributes[DESCRIPTORS] = ir.ArrayAttr.get(made)
        location = self.kernel.location
        function = ir.Operation.create(
            "tt.func", attributes=attributes, regions=1, loc=location, ip=ir.InsertionPoint(body)
        )
        block = function.regions[0].blocks.append(*types, arg_locs=[location] * len(types))
        schedule = self.schedule
        b = Builder(block, location, converts_float8=schedule.capability >= float8.SINCE)
        if self.schedule.cluster > 1:
            clusters.arrive(b)
        if self.schedule.capability >= dependent_launch.SINCE:
            dependent_launch.wait(b)
        program = b.value("tt.get_program_id", b.i32, [], {"axis": b.number(b.i32, 0)})
        values = list(block.arguments)
        symbols = [Tile(value) for value in values[: len(self.symbols)]]
        ix = Indexing(b, index, symbols, variant.aligned)
        buffers = dict(zip(self.memrefs, values[len(self.symbols) :]))
        threads = 32 * schedule.warps
        emitter = Emitter(b, self.expressions, ix, buffers, schedule.capability, schedule.stages, threads)
        emitter.described, emitter.nullable = self.described, self.nullable
        emitter.descriptors = dict(zip(self.descriptors, values[len(self.arguments) :]))
        if index != b.i32:
            program = b.convert("arith.extsi", program, index)
        tile = Tile(program)
        if schedule.cluster > 1:
            emitter.share(schedule.cluster, ix.op("arith.remui", tile, ix.number(schedule.cluster)))
            tile = ix.op("arith.divui", tile, ix.number(schedule.cluster))
        self._emit_parts(emitter, tile)
        b.op("tt.return")
        return function

    def _emit_parts(self, e: Emitter, program: Tile) -> None:
        if not self.schedule.group:
            self._emit_part(e, self.parts[0], program)
            return
        b, ops = e.b, {part.op for part in self.parts}
        for view in self.kernel.regions[0].blocks[0].operations:
            op = view.operation
            if op not in ops and op.name != "bascule.yield":
                e._op(op)
        start = expr(0)
        runs = self._equal_parts()
        for run in runs:
            each = run[0][0].programs
            end = expr(start + each * len(run))
            local = e.ix.op("arith.subi", program, e.ix.evaluate(start))
            if len(runs) == 1:
                self._emit_run(e, run, each, program)
                continue
            here = b.compare("slt", program.value, e.ix.evaluate(end).value)
            if constant(start) != 0:
                here = b.same("arith.andi", here, b.compare("sge", program.value, e.ix.evaluate(start).value))
            branch = b.op("scf.if", [], [here], regions=2).regions[0].blocks.append()
            with b.inside(branch):
                self._emit_run(e, run, each, local)
                b.op("scf.yield")
            start = end

    def _equal_parts(self) -> list[list[tuple[Part, list[ir.Value]]]]:
        """Groups neighbouring parts of equal structure, each with its buffers: an optimizer's step over 128 tensors is one body, not 128."""
        runs: list[list[tuple[Part, list[ir.Value]]]] = []
        before = None
        for part in self.parts:
            form, buffers = form_of(part.op, self.memrefs)
            kinds = [(buffer in self.loose, buffer in self.nullable) for buffer in buffers]
            if before != (form, kinds, part.schedule):
                runs.append([])
            before = form, kinds, part.schedule
            runs[-1].append((part, buffers))
        return runs

    def _emit_run(self, e: Emitter, run: list[tuple[Part, list[ir.Value]]], each: Expr, program: Tile) -> None:
        """Emits equal parts, of `each` programs, as one body: a program selects the buffers of its part."""
        (first, names), *_ = run
        if len(run) == 1:
            self._emit_part(e, first, program)
            return
        number = e.ix.op("arith.divui", program, e.ix.evaluate(each)).value
        pointers = _choose(e.b, number, [[e.buffers[buffer] for buffer in buffers] for _, buffers in run])
        before = e.buffers
        e.buffers = before | dict(zip(names, pointers))
        self._emit_part(e, first, e.ix.op("arith.remui", program, e.ix.evaluate(each)))
        e.buffers = before

    def _emit_part(self, e: Emitter, part: Part, program: Tile) -> None:
        e.enter(part.op, part.schedule.loops)
        if part.schedule.programs:
            self._emit_in_turn(e, part, program)
            return
        rows = segments.rows_among(e, part.segments, part.schedule.tile[-2]) if part.segments else None
        self._emit_tile(e, part, program, part.counts(), rows)

    def _emit_in_turn(self, e: Emitter, part: Part, program: Tile) -> None:
        """A program's tiles, one after the other: `program`, and each as many after it as there are programs. Of rows in segments those of a
        segment come first, then those after the last."""
        counts = part.counts()
        if not part.segments:
            self._emit_each(e, part, program, counts)
            return
        inside, after = segments.rows_among(e, part.segments, part.schedule.tile[-2]).apart(e)
        self._emit_each(e, part, program, [*counts[:-2], inside.tiles, counts[-1]], inside)
        e = e.anew()
        e.enter(part.op, part.schedule.loops)
        self._emit_each(e, part, program, [*counts[:-2], after.tiles, counts[-1]], after)

    def _emit_each(
        self,
        e: Emitter,
        part: Part,
        program: Tile,
        counts: Sequence[Count],
        rows: SegmentTiles | None = None,
    ) -> None:
        """The tiles of a program, of all that there are, `counts` along each axis; `rows`: those that they are of."""
        ix, step = e.ix, e.ix.evaluate(part.programs)
        first, *others = (_counted(ix, count) for count in counts)
        tiles = reduce(partial(ix.op, "arith.muli"), others, first)

        def each(tile: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
            self._emit_tile(e, part, Tile(tile), counts, rows)
            return []

        mark = SPECIALIZE if part.schedule.consumers else FLATTEN
        e.b.loop((program.value, tiles.value, step.value), [], each, runs=rows is None, mark=mark)

    def _emit_tile(
        self, e: Emitter, part: Part, tile: Tile, counts: Sequence[Count], rows: SegmentTiles | None = None
    ) -> None:
        """The body at one tile, of which there are `counts` along each axis."""
        axes = list[Axis]()
        places = list[tuple[list[tuple[list[int], Expr]], Tile, Tile | None]]()
        if part.schedule.group > 1:
            tile = _grouped(e.ix, tile, counts, part.schedule.group)
        with ExitStack() as conditions:
            for number, (groups, extent) in enumerate(zip(part.axes, part.schedule.tile)):
                at = _coordinate(e.ix, counts, number, tile)
                axis = Axis(number, extent) if extent > 1 else None
                if axis is not None:
                    axes.append(axis)
                    if rows is not None and number == len(counts) - 2:
                        own = rows.at(e, at)
                        places.append((groups, *segments.enter(e, part.segments, own, axis, conditions)))
                        continue
                begin = at if axis is None else e.ix.op("arith.muli", at, e.ix.number(extent))
                apart = axis is not None and part.schedule.consumers
                e.origins.append(_apart(e.ix, at, extent) if apart else begin)
                at = begin if axis is None else e.ix.range(axis, begin)
                places.append((groups, at, e.bounded(at, Indexing.product(groups), extent)))
            e.axes = tuple(axes)
            for groups, at, bound in places:
                e.ix.bind(groups, at)
                conditions.enter_context(e.under(bound, False, _outermost(groups)))
            e.block(part.op.regions[0].blocks[0])


def _coordinate(ix: Indexing, counts: Sequence[Count], number: int, tile: Tile) -> Tile:
    """The place along axis `number` of a tile; tiles are numbered along the last axis first."""
    if _is_one(counts[number]):
        return ix.number(0)
    for inner in reversed(counts[number + 1 :]):
        tile = tile if _is_one(inner) else ix.op("arith.divui", tile, _counted(ix, inner))
    is_first = all(map(_is_one, counts[:number]))
    return tile if is_first else ix.op("arith.remui", tile, _counted(ix, counts[number]))


def _apart(ix: Indexing, number: Tile, extent: int) -> Tile:
    """number * extent, a value that nothing else is computed from. Triton 3.6 adds the rows of the first warp group to the place where the
    second loads, and to all that is computed of that value, rows that are stored too, which have them in their ranges already."""
    return ix.op("arith.shli", number, ix.number(extent.bit_length() - 1))


def _is_one(count: Count) -> bool:
    return not isinstance(count, Tile) and constant(count) == 1


def _counted(ix: Indexing, count: Count) -> Tile:
    return count if isinstance(count, Tile) else ix.evaluate(count)


def _outermost(groups: Sequence[tuple[list[int], Expr]]) -> set[int]:
    """The atoms that are beyond their sizes where a flat position over `groups` is: the others are remainders."""
    atoms = set[int]()
    for group, size in groups:
        atoms.update(group)
        if constant(size) != 1:
            break
    return atoms


def _grouped(ix: Indexing, program: Tile, counts: Sequence[Count], group: int) -> Tile:
    """The tile, numbered along the last axis first, of a program in an order in which `group` tiles along the last axis but one go before the
    next along the last."""
    high, wide = (_counted(ix, count) for count in counts[-2:])
    of_matrix = ix.op("arith.muli", high, wide)
    matrix, program = ix.op("arith.divui", program, of_matrix), ix.op("arith.remui", program, of_matrix)
    of_group = ix.op("arith.muli", wide, ix.number(group))
    first = ix.op("arith.muli", ix.op("arith.divui", program, of_group), ix.number(group))
    inside = ix.op("arith.remui", program, of_group)
    several = ix.op("arith.minui", ix.op("arith.subi", high, first), ix.number(group))
    row = ix.op("arith.addi", first, ix.op("arith.remui", inside, several))
    place = ix.op("arith.addi", ix.op("arith.muli", row, wide), ix.op("arith.divui", inside, several))
    return ix.op("arith.addi", ix.op("arith.muli", matrix, of_matrix), place)


def _choose(b: Builder, number: ir.Value, rows: Sequence[Sequence[ir.Value]]) -> list[ir.Value]:
    """Selects row `number` of `rows` by a chain of selects. LLVM would flatten branches to selects too, with all addresses in registers."""
    chosen = list(rows[0])
    for row_number, row in enumerate(rows[1:], 1):
        here = b.compare("eq", number, b.constant(number.type, row_number))
        for column, value in enumerate(row):
            if value != rows[0][column] or chosen[column] != rows[0][column]:
                chosen[column] = b.select(here, value, chosen[column])
    return chosen


def _divisible(bytes_: int) -> ir.DictAttr:
    return ir.DictAttr.get({"tt.divisibility": ir.IntegerAttr.get(ir.IntegerType.get_signless(32), bytes_)})

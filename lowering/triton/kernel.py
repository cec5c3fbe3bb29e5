"""A kernel function of the program stage as one `tt.func`.

Parameters: every symbol (i32 or i64, as the schedule says), then a pointer a buffer, to its first element, which the launcher aligns to
16 bytes. The grid has one dimension, in programs; what a launch needs beside the text stands in attributes of the function:

    bascule.grid    affine_map<()[s0, ...] -> (programs)>
    bascule.warps   warps of a program
    bascule.stages  stages of a pipelined loop
"""

from dataclasses import dataclass

from bascule.dialect.ir.builders import symbols_of
from bascule.dialect.ir.functions import kernel_op
from bascule.dialect.ir.shapes import constant, expr, size_map
from bascule.dialect.mlir import ir

from .body import unsupported
from .builder import Builder
from .expressions import ACCESSES, LOOPS, Expr, Expressions, span, stored
from .indexing import Indexing
from .loops import Emitter
from .schedule import Loops, Schedule, choose, decisions
from .tiles import Axis, Tile

GRID, WARPS, STAGES = "bascule.grid", "bascule.warps", "bascule.stages"
DIVISIBILITY = 16  # bytes


@dataclass(eq=False)
class Part:
    """A parallel domain: the kernel's own, or that of a top-level foreach of a kernel without ranges."""

    op: ir.Operation
    groups: list[tuple[list[int], Expr]]
    schedule: Schedule

    @property
    def size(self) -> Expr:
        return Indexing.product(self.groups)

    @property
    def programs(self) -> Expr:
        return expr(ir.AffineExpr.get_ceil_div(self.size, self.schedule.xblock))


class KernelFunction:
    """The lowering of one kernel function; `emit` makes the `tt.func` at the end of a module's body."""

    def __init__(self, function: ir.Operation):
        self.function = function
        self.name = function.attributes["sym_name"].value
        self.kernel = kernel_op(function)
        self.expressions = Expressions(function, self.kernel)
        self.arguments = list(function.regions[0].blocks[0].arguments)
        self.symbols = symbols_of(function)
        self.memrefs = self.arguments[len(self.symbols) :]
        self._check_hazards()
        block = self.kernel.regions[0].blocks[0]
        top = [view.operation for view in block.operations]
        loops = [op for op in top if op.name in LOOPS]
        alone = not len(self.kernel.attributes["ranges"].value.results)
        separate = alone and loops and all(op.name == "bascule.foreach" for op in loops)
        if separate and not any(op.name == "bascule.store" for op in top):
            self.parts = [self._part(op) for op in loops]
        else:
            self.parts = [self._part(self.kernel)]

    def _check_hazards(self) -> None:
        """No point may read what another has stored, for programs run in any order; nor what it has stored itself, for loads are hash-consed."""
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

    def _part(self, op: ir.Operation) -> Part:
        block, e = op.regions[0].blocks[0], self.expressions
        groups = list(e.groups(block.arguments, op.attributes["ranges"].value.results))
        inner, along = [], 0
        for view in block.operations:
            loop = view.operation
            if loop.name in LOOPS:
                rows = list(e.groups(loop.regions[0].blocks[0].arguments, loop.attributes["ranges"].value.results))
                inner.append(constant(Indexing.product(rows)))
                along += e.contiguous(rows[-1][0][-1]) if rows[-1][0] else 0
        across = e.contiguous(groups[-1][0][-1]) if groups[-1][0] else 0
        loops = Loops(constant(Indexing.product(groups)), tuple(inner), across > along)
        buffers = [span(memref.type) for memref in self.memrefs]
        return Part(op, groups, choose(loops, buffers, decisions(self.kernel)))

    def emit(self, body: ir.Block) -> ir.Operation:
        """The `tt.func`, appended to `body`."""
        wide = max(part.schedule.index_bits for part in self.parts)
        index = ir.IntegerType.get_signless(wide)
        types = [index] * len(self.symbols)
        types += [ir.Type.parse(f"!tt.ptr<{stored(memref.type)}>") for memref in self.memrefs]
        grid = expr(0)
        for part in self.parts:
            grid = expr(grid + part.programs)
        i32 = ir.IntegerType.get_signless(32)
        aligned = ir.DictAttr.get({"tt.divisibility": ir.IntegerAttr.get(i32, DIVISIBILITY)})
        plain = ir.DictAttr.get({})
        attributes = {
            "sym_name": ir.StringAttr.get(self.name),
            "sym_visibility": ir.StringAttr.get("public"),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get(types, [])),
            "arg_attrs": ir.ArrayAttr.get([plain] * len(self.symbols) + [aligned] * len(self.memrefs)),
            GRID: ir.AffineMapAttr.get(size_map([grid])),
            WARPS: ir.IntegerAttr.get(i32, max(part.schedule.warps for part in self.parts)),
            STAGES: ir.IntegerAttr.get(i32, max(part.schedule.stages for part in self.parts)),
        }
        location = self.kernel.location
        function = ir.Operation.create(
            "tt.func", attributes=attributes, regions=1, loc=location, ip=ir.InsertionPoint(body)
        )
        block = function.regions[0].blocks.append(*types, arg_locs=[location] * len(types))
        b = Builder(block, location)
        program = b.value("tt.get_program_id", b.i32, [], {"axis": b.number(b.i32, 0)})
        values = list(block.arguments)
        symbols = [Tile(value) for value in values[: len(self.symbols)]]
        ix = Indexing(b, index, symbols)
        emitter = Emitter(b, self.expressions, ix, dict(zip(self.memrefs, values[len(self.symbols) :])))
        if index != b.i32:
            program = b.convert("arith.extsi", program, index)
        self._emit_parts(emitter, Tile(program))
        b.op("tt.return")
        return function

    def _emit_parts(self, e: Emitter, program: Tile) -> None:
        first = self.parts[0]
        if first.op == self.kernel:
            self._emit_part(e, first, program)
            return
        parts = {part.op: part for part in self.parts}
        start = expr(0)
        for view in self.kernel.regions[0].blocks[0].operations:
            op = view.operation
            if op not in parts:
                if op.name != "bascule.yield":
                    e._op(op)
                continue
            part = parts[op]
            end = expr(start + part.programs)
            local = e.ix.op("arith.subi", program, e.ix.evaluate(start))
            if len(self.parts) == 1:
                self._emit_part(e, part, program)
                continue
            b = e.b
            here = b.compare("slt", program.value, e.ix.evaluate(end).value)
            if constant(start) != 0:
                here = b.same("arith.andi", here, b.compare("sge", program.value, e.ix.evaluate(start).value))
            branch = b.op("scf.if", [], [here], regions=2).regions[0].blocks.append()
            with b.inside(branch):
                self._emit_part(e, part, local)
                b.op("scf.yield")
            start = end

    def _emit_part(self, e: Emitter, part: Part, program: Tile) -> None:
        xblock = part.schedule.xblock
        e.rblock = part.schedule.rblock
        position, bound = program, None
        e.axes = ()
        if xblock > 1:
            axis = Axis(0, xblock)
            e.axes = (axis,)
            position = e.range(axis, e.ix.op("arith.muli", program, e.ix.number(xblock)))
            bound = e.bounded(position, part.size, xblock)
        e.ix.bind(part.groups, position)
        with e._under(bound, False):
            e.block(part.op.regions[0].blocks[0])

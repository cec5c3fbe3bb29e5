"""The body of a kernel whose loops have schedules: which indices are inside, and what can stand before its loop."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Self

from bascule.dialect.analysis.affine.linear_forms import dims_of
from bascule.dialect.analysis.bodies.backward_slice import captured, needed
from bascule.dialect.analysis.bodies.body_tree import LOOPS
from bascule.dialect.analysis.bodies.nested_loops import inner_loops
from bascule.dialect.analysis.products.segments import Segments
from bascule.dialect.ir.memory_ops import StoreOp
from bascule.dialect.ir.regions import ops_in
from bascule.dialect.ir.shapes import constant, expr
from bascule.dialect.mlir import ir
from bascule.dialect.scheduling.gpu.schedule_form import LoopSchedule

from ..body.emitter import Body, Loop
from ..body.indexing import Indexing
from ..values.tiles import Axis, Tile, elementwise, union
from .descriptors import Described, Descriptor

INNER = 1 << 10  # the order of the axis of inner loops: after those of the domain


class LoopBody(Body):
    """A body with the schedules of its loops, and what its walkers ask of it; `loops.py` runs the loops.

    `plan`: of each loop of the domain at hand; `done`: loops that ran together with an earlier one; `origins`: where the program's tile begins
    along each axis; `described`: the loads that tensor descriptors do; `descriptors`: the parameters that these are; `segments`: what counts
    those that the program's rows are in one of, if `inside` holds (None: they are); `top`: the block of the domain, whose later reads have been
    emitted if `asked`; `late`: what of it waits for its loops.
    """

    described: Mapping[ir.Operation, Described] = {}
    descriptors: Mapping[Descriptor, ir.Value] = {}
    segments: Sequence[Segments] = ()
    inside: ir.Value | None = None

    def anew(self) -> Self:
        """One that has emitted nothing yet, of the same kernel."""
        ix = Indexing(self.b, self.ix.type, self.ix.symbols, self.ix.aligned)
        made = type(self)(self.b, self.expressions, ix, self.buffers, self.capability, self.stages, self.threads)
        made.described, made.descriptors, made.nullable = self.described, self.descriptors, self.nullable
        return made

    def enter(self, op: ir.Operation, loops: Sequence[LoopSchedule]) -> None:
        """Begins the region of the parallel domain `op`."""
        self.plan: dict[ir.Operation, LoopSchedule] = {}
        self._learn(op, loops)
        self.done: set[ir.Operation] = set()
        self.origins: list[Tile] = []
        self.segments = ()
        self.top, self.asked = op.regions[0].blocks[0], False
        self.late = self._unneeded() if any(schedule.dot for schedule in self.plan.values()) else set()
        self.guards = not loops and any(inner.name == "scf.if" for inner in ops_in(op))
        self.domain = {self.expressions.of(index).position for index in op.regions[0].blocks[0].arguments}

    def _learn(self, op: ir.Operation, loops: Sequence[LoopSchedule]) -> None:
        for inner, schedule in zip(inner_loops(op), loops, strict=True):
            self.plan[inner] = schedule
            self._learn(inner, schedule.loops)

    def bounded(self, position: Tile, size: ir.AffineExpr, extent: int) -> Tile | None:
        """`position` < `size`, unless whole steps of `extent` make it always so."""
        known = constant(size)
        return None if extent == 1 or (known and known % extent == 0) else self._below(position, size)

    def _below(self, position: Tile, size: ir.AffineExpr) -> Tile:
        return elementwise(self.b, lambda p, n: self.b.compare("slt", p, n), [position, self.ix.evaluate(expr(size))])

    def _unneeded(self) -> set[ir.Operation]:
        """The ops that no loop of the domain needs, and that only compute: beside sums, which fill the registers, they would be spilled."""
        ops = [view.operation for view in self.top.operations]
        loops = [op for op in ops if op in self.plan]
        before = set(needed([value for loop in loops for value in captured(loop)], self.top).ops)
        return {op for op in ops if len(op.results) and op not in before and not _runs_or_stores(op)}

    def block(self, block: ir.Block) -> list[Tile]:
        """Emits a block: of the domain's, what is late when something is stored that was read, or at its end."""
        if block != self.top or not self.late:
            return super().block(block)
        waiting = list[ir.Operation]()
        for op in (view.operation for view in block.operations):
            if op in self.late:
                waiting.append(op)
                continue
            if not len(op.results):
                for other in waiting:
                    self._op(other)
                waiting = []
            if op.name != "bascule.yield":
                self._op(op)
        return []

    def between(self, first: ir.Operation, later: ir.Operation) -> None:
        """Emits what stands between two loops of a walk and may already be computed: the later one may need it."""
        ops = [view.operation for view in first.block.operations]
        for op in ops[ops.index(first) + 1 : ops.index(later)]:
            if op not in self.late and self._may_come_early(op):
                self._op(op)

    def ahead(self, loop: ir.Operation) -> None:
        """Emits what is read behind the domain's first `loop`, at places that are known before it, so that memory is asked for all at once. Not
        beside contractions, whose sums fill the registers."""
        if self.asked or loop.block != self.top or any(schedule.dot for schedule in self.plan.values()):
            return
        self.asked = True
        ops = [view.operation for view in loop.block.operations]
        for op in ops[ops.index(loop) + 1 :]:
            if op.name == "memref.load" and self._may_come_early(op):
                self._op(op)

    def _may_come_early(self, op: ir.Operation) -> bool:
        """Whether `op`, with what its regions do, only computes, from what is already there."""
        if not len(op.results) or _runs_or_stores(op):
            return False
        inside = ops_in(op)
        made = {value for inner in inside for value in inner.results}
        return all(value in made or self._ready(value) for inner in inside for value in inner.operands)

    def _ready(self, value: ir.Value) -> bool:
        if isinstance(value.type, ir.IndexType):
            return dims_of(self.expressions.of(value)) <= self.ix.at.keys()  # one that came from data may come later
        return value in self.env or value in self.buffers or value in self.rows

    @contextmanager
    def tile_of(self, op: ir.Operation, number: int) -> Iterator[None]:
        """In tile `number` of the foreach `op`, which is held."""
        schedule = self.plan[op]
        groups = self.groups_of(op, schedule.order)
        size = self.ix.product(groups)
        axis = Axis(INNER, schedule.step)
        before = self.axes, self.loop
        self.axes = union(self.axes, (axis,))
        self.loop = Loop([op], schedule.order, axis, True, schedule.evict, number=number)
        position = self.ix.range(axis, self.ix.number(number * axis.extent))
        self.ix.bind(groups, position)
        try:
            with self.under(self.bounded_tile(position, size, number, axis.extent), False):
                yield
        finally:
            self.axes, self.loop = before

    def bounded_tile(self, position: Tile, size: ir.AffineExpr, number: int, extent: int) -> Tile | None:
        """The mask of tile `number` inside of `size`; None: all of it."""
        known = constant(size)
        inside = known is not None and (number + 1) * extent <= known
        return None if inside else self._below(position, size)

    def prefix(self, op: ir.Operation) -> None:
        """Emits what the region of `op` computes before its loops and without them."""
        for view in op.regions[0].blocks[0].operations:
            inner = view.operation
            if self._may_come_early(inner):
                self._op(inner)

    def groups_of(self, op: ir.Operation, order: Sequence[int]) -> list[tuple[list[int], ir.AffineExpr]]:
        arguments = list(op.regions[0].blocks[0].arguments)
        sizes = op.attributes["ranges"].value.results
        return list(self.expressions.groups([arguments[d] for d in order], [sizes[d] for d in order]))


def _runs_or_stores(op: ir.Operation) -> bool:
    """Whether `op` is a loop or a store, or has one inside."""
    return any(inner.name in (*LOOPS, StoreOp.OPERATION_NAME) for inner in ops_in(op))

"""The loops of a kernel's body: all at once along an axis of tiles, in steps, or point by point; several of one walk together."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from bascule.dialect.analysis.accesses import LOOPS, dims_of
from bascule.dialect.analysis.nested_loops import inner_loops
from bascule.dialect.ir.memory import StoreOp
from bascule.dialect.ir.regions import ops_in
from bascule.dialect.ir.shapes import constant, expr
from bascule.dialect.mlir import ir

from . import clusters
from .body import RULES, Body, Loop, unsupported
from .reductions import Values
from .schedule import LoopSchedule
from .tiles import Axis, Tile, elementwise, union
from .walkers import WALKERS, ColumnsWalker, ReduceWalker, Walker, join_states

INNER = 1 << 10  # the order of the axis of inner loops: after those of the domain


class Emitter(Body):
    """Emits whole kernel bodies, loops as their schedules say."""

    def enter(self, op: ir.Operation, loops: Sequence[LoopSchedule]) -> None:
        """Begins the region of the parallel domain `op`."""
        self.plan: dict[ir.Operation, LoopSchedule] = {}
        self._learn(op, loops)
        self.done: set[ir.Operation] = set()
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

    def _loop(self, op: ir.Operation) -> None:
        if op in self.done:
            self.done.remove(op)
            return
        schedule = self.plan[op]
        together = [other for other, plan in self.plan.items() if plan.walk == schedule.walk]
        self.done.update(together[1:])  # the first one runs them all
        for other in together[1:]:
            same = other.block == op.block and other.attributes["ranges"] == op.attributes["ranges"]
            if not same or replace(self.plan[other], loops=()) != replace(schedule, loops=()):
                raise unsupported(other, "a walk over loops of several sizes, steps or places")
            self._between(op, other)
        self._run(together, schedule)

    def _between(self, first: ir.Operation, later: ir.Operation) -> None:
        """Emits what stands between two loops of a walk and may already be computed: the later one may need it."""
        ops = [view.operation for view in first.block.operations]
        for op in ops[ops.index(first) + 1 : ops.index(later)]:
            if self._may_come_early(op):
                self._op(op)

    def _may_come_early(self, op: ir.Operation) -> bool:
        """Whether `op`, with what its regions do, only computes, from what is already there."""
        inside = ops_in(op)
        if not len(op.results) or any(inner.name in (*LOOPS, StoreOp.OPERATION_NAME) for inner in inside):
            return False
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
            with self.under(self._bound(position, size, number, axis.extent), False):
                yield
        finally:
            self.axes, self.loop = before

    def _bound(self, position: Tile, size: ir.AffineExpr, number: int, extent: int) -> Tile | None:
        """What of tile `number` is inside, None: all."""
        known = constant(size)
        inside = known is not None and (number + 1) * extent <= known
        return None if inside else self._below(position, size)

    def prefix(self, op: ir.Operation) -> None:
        """Emits what the region of `op` computes before its loops and without them."""
        for view in op.regions[0].blocks[0].operations:
            inner = view.operation
            if self._may_come_early(inner):
                self._op(inner)

    def _run(self, ops: Sequence[ir.Operation], schedule: LoopSchedule) -> None:
        """Runs loops over the same ranges at the same time."""
        b, ix = self.b, self.ix
        sizes = ops[0].attributes["ranges"].value.results
        size = expr(1)
        for extent in sizes:
            size = expr(size * extent)
        known = constant(size)
        whole = known is not None and known > 0 and (known <= schedule.step or schedule.held)
        tiled = schedule.step > 1 and known != 1 and not any(axis.order == INNER for axis in self.axes)
        axis = Axis(INNER, schedule.step) if tiled else None
        outer_axes, outer_loop = self.axes, self.loop
        tiles = -(-known // (self.cluster * schedule.step)) if known and whole and tiled else 1
        own = tiles * schedule.step  # points of each of a cluster's programs
        loop = Loop(
            list(ops),
            schedule.order,
            axis,
            whole and tiled,
            schedule.evict,
            points=known if self.cluster == 1 else own if own * self.cluster == known else None,
            fold=schedule.fold,
            walk=schedule.walk,
            tiles=tiles,
        )
        walkers: list[Walker] = [WALKERS[op.name](self, op, loop) for op in ops]
        walkers = [walker for walker in walkers if walker.walks()]
        groups = [self.groups_of(walker.op, schedule.order) for walker in walkers]
        for columns, plan in self.plan.items():
            if plan.along == schedule.walk:
                walkers.append(ColumnsWalker(self, columns, loop))
                groups.append([])
        self.loop = loop
        self.axes = outer_axes if axis is None else union(outer_axes, (axis,))

        def at(position: Tile, values: Values, number: int | None = None) -> Values:
            if axis is None:
                bound = None
            elif number is None:  # any step of a walk
                bound = self.bounded(position, size, axis.extent)
            else:
                bound = self._bound(position, size, (self.cluster - 1) * tiles + number, axis.extent)
            carried: Values = []
            with self.under(bound, False):
                for walker, its_groups in zip(walkers, groups):
                    own, values = values[: walker.width], values[walker.width :]
                    if its_groups:
                        ix.bind(its_groups, position)
                    carried += walker.step(own, position, bound)
            return carried

        def initial() -> Values:
            start: Values = []
            for walker in walkers:
                values = walker.start()
                walker.width = len(values)
                start += values
            return start

        states: list[Values] = []  # one, or of what is held one for each tile
        if not walkers:
            states = [[]]
        elif known == 1:
            states = [at(ix.number(0), initial())]
        elif loop.whole:
            for number in range(tiles):
                loop.number = number
                start = ix.number(number * schedule.step)
                if self.cluster > 1:
                    start = ix.op("arith.addi", ix.op("arith.muli", self.member, ix.number(own)), start)
                states.append(at(ix.range(axis, start), [], number))  # type: ignore[arg-type]
        else:
            stride = axis.extent if axis is not None else 1
            first, last = (
                schedule.kept if axis is not None and known != 0 else 0,
                (known or 0) // stride,
            )  # steps of the loop, if known

            def apart(number: int, values: Values) -> Values:
                """Step `number`, which is not in the loop: later walks find what it reads in registers."""
                position = ix.number(number * stride)
                loop.start, loop.keeps = position.value, True
                values = at(ix.range(axis, position), values, number)  # type: ignore[arg-type]
                loop.keeps = False
                return values

            def body(iv: ir.Value, values: Values) -> Values:
                loop.start = iv
                return at(Tile(iv) if axis is None else ix.range(axis, Tile(iv)), values, 0 if known else None)

            carried = initial()
            for number in range(first):
                carried = apart(number, carried)
            if not known or last > first:
                end = ix.number(last * stride) if known else ix.evaluate(size)
                bounds = ix.number(first * stride).value, end.value, ix.number(stride).value
                carried = b.loop(bounds, carried, body, self.stages, runs=bool(known))
            if known and known % stride:
                carried = apart(last, carried)
            states = [carried]
        for walker in walkers:
            if loop.whole:
                walker.width = walker.whole_width
            walker.finish([state[: walker.width] for state in states])
            states = [state[walker.width :] for state in states]
        join_states(b, walkers, len(self.axes) - 1)
        if self.cluster > 1 and loop.whole:
            self._exchange([walker for walker in walkers if isinstance(walker, ReduceWalker)])
        self.axes, self.loop = outer_axes, outer_loop
        for walker in walkers:
            walker.leave()

    def _exchange(self, walkers: Sequence[ReduceWalker]) -> None:
        """Has each of the reductions the state of all programs of the cluster."""
        if not walkers:
            return
        values = [value for walker in walkers for value in walker.state]
        states = clusters.gather(self.b, values, self.cluster, first=not self.met)
        self.met, first = True, 0
        for walker in walkers:
            last = first + len(walker.state)
            walker.state = clusters.combined(self.b, walker.reduction, [state[first:last] for state in states])
            first = last

    def groups_of(self, op: ir.Operation, order: Sequence[int]) -> list[tuple[list[int], ir.AffineExpr]]:
        arguments = list(op.regions[0].blocks[0].arguments)
        sizes = op.attributes["ranges"].value.results
        return list(self.expressions.groups([arguments[d] for d in order], [sizes[d] for d in order]))


RULES.update({name: Emitter._loop for name in WALKERS})

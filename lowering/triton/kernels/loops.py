"""The loops of a kernel's body: all at once along an axis of tiles, in steps, or point by point; several of one walk together."""

from collections.abc import Sequence
from dataclasses import replace

from bascule.dialect.analysis.products.cut_sums import cut_sum
from bascule.dialect.analysis.products.segments import is_asked_inside
from bascule.dialect.ir.shapes import constant, expr
from bascule.dialect.mlir import ir
from bascule.dialect.scheduling.gpu.schedule_form import LoopSchedule

from ..body.emitter import RULES, Loop, unsupported
from ..values import clusters
from ..values.tiles import Axis, union
from . import attention
from .contractions import ContractionWalker
from .loop_body import INNER, LoopBody
from .loop_kinds import WALKERS, ColumnsWalker, ReduceWalker, Walker
from .loop_steps import Walk
from .walked_keys import walked_keys


class Emitter(LoopBody):
    """Emits whole kernel bodies, loops as their schedules say."""

    def _loop(self, op: ir.Operation) -> None:
        if op in self.done:
            self.done.remove(op)
            return
        schedule = self.plan[op]
        together = [other for other, plan in self.plan.items() if plan.walk == schedule.walk]
        self.done.update(together[1:])  # the first one runs them all
        self.ahead(op)
        for other in together[1:]:
            same = other.block == op.block and other.attributes["ranges"] == op.attributes["ranges"]
            if not same or _alone(self.plan[other]) != _alone(schedule):
                raise unsupported(other, "a walk over loops of several sizes, steps or places")
            self.between(op, other)
        self._run(together, schedule)

    def _run(self, ops: Sequence[ir.Operation], schedule: LoopSchedule) -> None:
        """Runs loops over the same ranges at the same time."""
        size = expr(1)
        for extent in ops[0].attributes["ranges"].value.results:
            size = expr(size * extent)
        before = self.axes, self.loop
        loop = self._begun(ops, schedule, constant(size))
        walkers = [walker for walker in self._walkers(ops, schedule, loop) if walker.walks()]
        groups = [self.groups_of(walker.op, schedule.order) for walker in walkers]
        for columns, plan in self.plan.items():
            if plan.along == schedule.walk:
                walkers.append(ColumnsWalker(self, columns, loop))
                groups.append([])
        self.loop = loop
        self.axes = self.axes if loop.axis is None else union(self.axes, (loop.axis,))
        cut = cut_sum(ops[0]) if schedule.skip and ops[0].name == "bascule.reduce" else None
        keys = walked_keys(self, ops, loop) if schedule.skip and cut is None else None
        part = None if cut is None else (self.tile(cut.first), self.tile(cut.end))
        idle = schedule.dot and bool(self.segments) and all(is_asked_inside(op.results[0], self.segments) for op in ops)
        Walk(self, loop, schedule, size, walkers, groups, keys, part, self.inside if idle else None).run()
        if self.cluster > 1 and loop.whole:
            self._exchange([walker for walker in walkers if isinstance(walker, ReduceWalker)])
        self.axes, self.loop = before
        for walker in walkers:
            walker.leave()

    def _walkers(self, ops: Sequence[ir.Operation], schedule: LoopSchedule, loop: Loop) -> Sequence[Walker]:
        if not schedule.dot:
            return [WALKERS[op.name](self, op, loop) for op in ops]
        if all(op.name == "bascule.reduce" for op in ops):
            return [ContractionWalker(self, op, loop) for op in ops]
        return attention.walkers_of(self, ops, loop)

    def _begun(self, ops: Sequence[ir.Operation], schedule: LoopSchedule, known: int | None) -> Loop:
        """The loops `ops` of so many points, if known, before they are in force."""
        fits = known is not None and known > 0 and (known <= schedule.step or schedule.held)
        around = sum(axis.order >= INNER for axis in self.axes)
        tiled = schedule.step > 1 and known != 1 and (not around or schedule.dot)
        tiles = -(-known // (self.cluster * schedule.step)) if known and fits and tiled else 1
        own = tiles * schedule.step  # points of each of a cluster's programs
        return Loop(
            list(ops),
            schedule.order,
            Axis(INNER + around, schedule.step) if tiled else None,
            fits and tiled,
            schedule.evict,
            points=known if self.cluster == 1 else own if own * self.cluster == known else None,
            fold=schedule.fold,
            walk=schedule.walk,
            tiles=tiles,
            multiplies=schedule.dot or any(inner.dot for inner in schedule.loops),
        )

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


def _alone(schedule: LoopSchedule) -> LoopSchedule:
    """The keys that loops of one walk have in common."""
    return replace(schedule, loops=(), descriptors=())


RULES.update({name: Emitter._loop for name in WALKERS})

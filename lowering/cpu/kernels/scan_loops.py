"""The `scan` loops inside a kernel: a line after the other, or as many at once as there are lanes."""

from bascule.dialect.analysis.bodies.body_tree import Node
from bascule.dialect.mlir import ir

from ..body.emitter import Emitter, rule
from ..body.schedule import LoopPlan
from ..values.builder import Index, Scalar
from ..values.narrow_floats import NARROW, to_float
from ..values.scalars import Scalars, is_float
from .loops import scratch, serial_loop, walk, where_some, write

ROUNDED = ("sum", "prod", "logaddexp")  # kinds of scan whose steps round


@rule("bascule.scan")
def _scan(e: Emitter, node: Node) -> None:
    block, plan = node.blocks[0], e.loops[node]
    dim = node.op.attributes["dim"].value
    kind = e.scans[node.op.attributes["kind"].value]
    buffer = e.buffers[node.results[0]] = scratch(e, node, plan.sizes)
    type_ = e.body.types[block.yielded[0]]
    # One rounding an element would add up over a long line; eager has running totals in f64 too.
    wide = e.b.f32 if isinstance(type_, NARROW) else type_
    total = e.b.f64 if node.op.attributes["kind"].value in ROUNDED and wide == e.b.f32 else wide
    along = next((g for g, group in enumerate(plan.groups) if dim in group), None)
    others = LoopPlan(
        plan.sizes, tuple(g for i, g in enumerate(plan.groups) if i != along), _without(plan, along), plan.width
    )

    def lines(values: list[ir.Value]) -> list[ir.Value]:
        """One line along `dim`, or as many as there are lanes."""
        lanes = e.lanes > 1 and (e.varies(node.results[0]) or e.lane in block.arguments)
        exact = ir.VectorType.get([e.lanes], total) if lanes else total

        def step(state: list[ir.Value]) -> list[ir.Value]:
            e.emit(block)
            x = e.scalar(block.yielded[0])
            at = e.index(block.arguments[dim])
            place = None
            if kind.positions:
                place = e.b.value("arith.index_cast", e.b.i64, [e.ix.scalar(at)])
                place = e.spread(Scalar(place, False, e.b.level)) if lanes else place
            value = e.spread(x) if lanes else x.value
            if is_float(type_):
                value = to_float(Scalars(e.b), value, total)
            state = kind.take(Scalars(e.b), state, value, None, place)
            value = kind.finish(Scalars(e.b), state)[0]
            if is_float(value.type):
                value = to_float(Scalars(e.b), value, type_)
            write(e, buffer, block, Scalar(value, lanes, e.b.level))
            return state

        start = kind.start(Scalars(e.b), exact)
        if along is None:
            step(start)
        else:
            size = e.size(plan.sizes[dim])
            where_some(e, size, start, lambda: serial_loop(e, block.arguments[dim], (Index(), size), start, step))
        return values

    walk(e, block, others, [], lines)


def _without(plan: LoopPlan, along: int | None) -> int:
    """The vector group's number once group `along` is taken out."""
    if along is None or plan.vector < along:
        return plan.vector
    return plan.vector - 1

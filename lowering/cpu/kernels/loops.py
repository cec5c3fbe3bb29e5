"""The loops inside a kernel: `foreach` and `compute`, along lanes of their own or those of the loop around. `reduce`: `reduce_loops.py`; `scan`:
`scan_loops.py`."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from bascule.dialect.analysis.bodies.body_tree import Block, Node
from bascule.dialect.ir.shapes import row_major, strided
from bascule.dialect.ir.types import carried
from bascule.dialect.mlir import ir
from bascule.dialect.scheduling.cpu.loop_legality import moving_reads

from ..body.emitter import Emitter, rule
from ..body.schedule import LoopPlan, length
from ..values.builder import Builder, Index, Scalar
from ..values.memory import Buffer, stored_type
from ..values.narrow_floats import NARROW, narrow, widen
from ..values.pairwise_sums import Stretches
from ..values.scalars import Scalars, element

Step = Callable[[list[ir.Value]], Sequence[ir.Value]]
SHORT_STRETCH = 8  # steps below which a sum of their own costs more than it is worth
UNROLLED = 2  # a loop of no more vectors is unrolled
STEPS, LANES = 8, 32  # with as many lanes inside or around it, a loop of more steps is not unrolled
STACK_BYTES = 1 << 16  # a scratch buffer no larger than this lives on the stack


def group_size(e: Emitter, plan: LoopPlan, group: tuple[int, ...]) -> Index:
    total = Index(offset=1)
    for i in group:
        total = e.ix.multiply(total, e.size(plan.sizes[i]))
    return total


def where_some(
    e: Emitter, points: Index, carried: list[ir.Value], loop: Callable[[], Sequence[ir.Value]]
) -> list[ir.Value]:
    """Emits `loop` where there are `points` to run; returns its results, `carried` if there are none.

    A read that does not depend on the loop's indices stands before it, but nothing says that its place exists if the loop has no point.
    """
    b, known, floor = e.b, points.constant, e.memory.floor
    if known is not None:
        return list(loop()) if known else carried

    def inside() -> Sequence[ir.Value]:
        e.memory.floor = b.level
        return loop()

    some = Scalars(b).compare("sgt", e.ix.scalar(points), b.constant(b.index, 0))
    results = b.branch(some, inside, lambda: carried)
    e.memory.floor = floor
    return results


def clear(e: Emitter, block: Block) -> None:
    """All indices of a loop at 0: those of ranges of 1, and those walked as part of another, stay there."""
    for argument in block.arguments:
        e.env[argument] = Index()


def serial_loop(
    e: Emitter,
    argument: int,
    bounds: tuple[Index, Index],
    carried: list[ir.Value],
    step: Step,
    stretches: Stretches | None = None,
    most: int | None = None,
    inside: int = 1,
) -> list[ir.Value]:
    """`argument` from one bound to the other, one by one, in `stretches` if there are any. `most`: points, where the bounds do not tell.
    `inside`: lanes of a loop inside."""
    b = e.b

    def body(iv: ir.Value, values: list[ir.Value]) -> Sequence[ir.Value]:
        e.env[argument] = Index(iv, level=b.level, multiple=1)
        return step(values)

    ends = e.ix.scalar(bounds[0]), e.ix.scalar(bounds[1])
    points = _distance(*bounds)
    # A step is registers enough already: unrolled, it is longer to compile, and no faster.
    rolled = max(inside, e.lanes) >= LANES and (points is None or points > STEPS)
    return _loop(b, ends, 1, most if points is None else points, carried, body, stretches, rolled)


def _distance(lower: Index, upper: Index) -> int | None:
    """The points between two bounds, if they tell."""
    known = upper.constant is not None and lower.constant is not None
    return upper.constant - lower.constant if known else None  # type: ignore[operator]


def _loop(
    b: Builder,
    ends: tuple[ir.Value, ir.Value],
    step: int,
    points: int | None,
    carried: list[ir.Value],
    body: Callable[[ir.Value, list[ir.Value]], Sequence[ir.Value]],
    stretches: Stretches | None,
    rolled: bool = False,
) -> list[ir.Value]:
    """`b.loop` between `ends`, in `stretches` if there are any. `points`: how many lie there at most, where that is known."""
    if stretches is None:
        return b.loop(*ends, b.constant(b.index, step), carried, body, rolled=rolled)
    return stretches.loop(b, ends, step, None if points is None else points // step, carried, body, rolled)


def vector_loop(
    e: Emitter,
    argument: int,
    bounds: tuple[Index, Index],
    width: int,
    carried: list[ir.Value],
    step: Step,
    *,
    whole: bool = False,
    stretches: Stretches | None = None,
    most: int | None = None,
) -> list[ir.Value]:
    """Lanes along `argument` from one bound to the other: whole vectors, in `stretches` if there are any, then what is left under a mask.

    The lower bound is a multiple of `width`; `whole` says that the distance is one too. `most`: points, where the bounds do not tell.
    """
    b, lower, upper = e.b, *bounds
    lane, e.lane = e.lane, argument
    known = _distance(lower, upper)
    rest = Index() if whole else Index(offset=known % width) if known is not None else None
    start, stop = e.ix.scalar(lower), e.ix.scalar(upper)
    if rest is None:
        distance = b.value("arith.subi", b.index, [stop, start])
        left = b.value("arith.andi", b.index, [distance, b.constant(b.index, width - 1)])
        full = b.value("arith.subi", b.index, [stop, left])
    else:
        left = e.ix.scalar(rest)
        full = stop if rest.constant == 0 else e.ix.scalar(e.ix.add(upper, Index(offset=-rest.offset)))

    def body(iv: ir.Value, values: list[ir.Value]) -> Sequence[ir.Value]:
        return _at_vector(e, argument, iv, width, values, step)

    if known is None or known >= width:
        # The lanes are several registers: unrolled further, a short row would be kept in memory as spilled registers.
        rolled = known is None or known > UNROLLED * width
        points = most if known is None else known
        carried = _loop(b, (start, full), width, points, carried, body, stretches, rolled)
    if rest is None or rest.constant != 0:
        some = b.value("arith.cmpi", b.i1, [left, b.constant(b.index, 0)], {"predicate": ir.IntegerAttr.get(b.i64, 1)})
        outer = carried

        def masked(lanes: int) -> Sequence[ir.Value]:
            return _masked(e, argument, full, left, lanes, outer, step)

        def fitting() -> Sequence[ir.Value]:
            """Where all sizes are possible, few lanes are one register's. What is carried has the others' places too."""
            one = e.target.lanes
            if rest is not None or carried or width <= one:
                return masked(width)
            few = Scalars(b).compare("ule", left, b.constant(b.index, one))
            return b.branch(few, lambda: masked(one), lambda: masked(width))

        carried = b.branch(some, fitting, lambda: outer)
    e.lane = lane
    return carried


def _at_vector(
    e: Emitter, argument: int, first: ir.Value, width: int, carried: list[ir.Value], step: Step
) -> Sequence[ir.Value]:
    """The lanes from `first` on."""
    e.ix.width = width
    e.env[argument] = Index(first, stride=1, level=e.b.level, multiple=width)
    results = step(carried)
    e.ix.width = 1
    return results


def _masked(
    e: Emitter, argument: int, first: ir.Value, count: ir.Value, width: int, carried: list[ir.Value], step: Step
) -> Sequence[ir.Value]:
    """So many lanes from `first` on: fewer than `width`."""
    b = e.b
    e.ix.width = width
    number = b.value("arith.index_cast", b.i32, [count])
    vector = ir.VectorType.get([width], b.i32)
    mask = Scalars(b).compare("slt", e.ix.iota32(1), b.value("vector.broadcast", vector, [number]))
    e.memory.mask = Scalar(mask, True, b.level)
    results = _at_vector(e, argument, first, width, carried, step)
    e.memory.mask = None
    return results


def first_vector(e: Emitter, argument: int, width: int, carried: list[ir.Value], step: Step) -> list[ir.Value]:
    """Lanes along `argument` from 0, once; all of them are there."""
    lane, e.lane, e.ix.width = e.lane, argument, width
    e.env[argument] = Index(stride=1)
    results = list(step(carried))
    e.lane, e.ix.width = lane, 1
    return results


def walk(
    e: Emitter,
    block: Block,
    plan: LoopPlan,
    carried: list[ir.Value],
    step: Step,
    first: Step | None = None,
    stretches: Stretches | None = None,
) -> list[ir.Value]:
    """All points of a loop, the vector group innermost; `step` emits the body and returns the next carried values. `first` stands for it
    at the first vector of a loop that has no other groups. `stretches`: of what is summed over many steps."""
    clear(e, block)
    vector = plan.vector
    if plan.prefetch:
        lane = block.arguments[plan.groups[vector][-1]]
        e.ahead.update(dict.fromkeys(moving_reads(block, lane), plan.prefetch))
    order = [g for g in range(len(plan.groups)) if g != vector]

    def nest(k: int, values: list[ir.Value]) -> Sequence[ir.Value]:
        if k < len(order):
            group = plan.groups[order[k]]
            bounds = (Index(), group_size(e, plan, group))
            lanes = plan.width if vector >= 0 else 1
            return serial_loop(
                e, block.arguments[group[-1]], bounds, values, lambda v: inside(k + 1, v), stretches, inside=lanes
            )
        if vector < 0:
            return step(values)
        group = plan.groups[vector]
        argument, start = block.arguments[group[-1]], Index()
        if first is not None:
            values, start = first_vector(e, argument, plan.width, values, first), Index(offset=plan.width)
        bounds = start, group_size(e, plan, group)
        return vector_loop(e, argument, bounds, plan.width, values, step, stretches=stretches)

    def inside(k: int, values: list[ir.Value]) -> Sequence[ir.Value]:
        """The loops inside of another, from the `k`-th on: a stretch, unless it is very short."""
        group = plan.groups[order[k]] if k < len(order) else plan.groups[vector] if vector >= 0 else ()
        points = group_size(e, plan, group).constant
        width = plan.width if k == len(order) else 1
        if stretches is None or (points is not None and points < SHORT_STRETCH * width):
            return nest(k, values)
        return stretches.close(values, list(nest(k, stretches.fresh(values))))

    points = group_size(e, plan, tuple(i for group in plan.groups for i in group))
    return where_some(e, points, carried, lambda: nest(0, carried))


@rule("bascule.foreach")
def _foreach(e: Emitter, node: Node) -> None:
    block = node.blocks[0]

    def step(values: list[ir.Value]) -> list[ir.Value]:
        e.emit(block)
        return values

    walk(e, block, e.loops[node], [], step)


def scratch(e: Emitter, node: Node, sizes: Sequence[ir.AffineExpr]) -> Buffer:
    """Memory of this thread for the result of a compute or scan, row-major over its ranges."""
    b = e.b
    type_ = node.types[0]
    lanes = e.lanes if e.varies(node.results[0]) else 1
    stored = stored_type(type_.element_type)
    total = length(tuple(sizes))
    layout = strided(row_major(list(sizes)))
    if total is not None:
        count = max(1, total * lanes)
        width = max(8, stored.width) // 8
        name = "memref.alloca" if count * width <= STACK_BYTES else "memref.alloc"
        operands: list[ir.Value] = []
        memref = ir.MemRefType.get([count], stored)
    else:
        size = Index(offset=lanes)
        for expr in sizes:
            size = e.ix.multiply(size, e.size(expr))
        name, operands = "memref.alloc", [e.ix.scalar(size)]
        memref = ir.MemRefType.get([ir.ShapedType.get_dynamic_size()], stored)
    segments = ir.DenseI32ArrayAttr.get([len(operands), 0])
    attributes = {"operandSegmentSizes": segments, "alignment": ir.IntegerAttr.get(b.i64, 64)}
    value = b.value(name, memref, operands, attributes, 0)
    if name == "memref.alloc":
        e.allocated.append(value)
    return Buffer(value, carried(type_.element_type), layout, lanes, b.level)


@rule("bascule.compute")
def _compute(e: Emitter, node: Node) -> None:
    block, plan = node.blocks[0], e.loops[node]
    buffer = e.buffers[node.results[0]] = scratch(e, node, plan.sizes)

    def step(values: list[ir.Value]) -> list[ir.Value]:
        e.emit(block)
        write(e, buffer, block, e.scalar(block.yielded[0]))
        return values

    walk(e, block, plan, [], step)


def write(e: Emitter, buffer: Buffer, block: Block, value: Scalar) -> None:
    place = e.memory.place(buffer, [e.index(a) for a in block.arguments], e.symbols)
    if place.lanes and not value.lanes:
        value = Scalar(e.spread(value), True, value.level)
    e.memory.store(buffer, place, value)


@rule("bascule.store")
def _store(e: Emitter, node: Node) -> None:
    buffer = e.buffer(node, 1)
    place = e.memory.place(buffer, [e.index(i) for i in node.operands[2:]], e.symbols)
    value = e.scalar(node.operands[0])
    if place.lanes and not value.lanes:
        value = Scalar(e.spread(value), True, value.level)
    elif e.lanes > 1 and not place.lanes:
        raise AssertionError("a store that all lanes share")
    if "mode" in node.op.attributes and node.op.attributes["mode"].value != "set":
        # Read where it stands: another point of a loop around may have stored there.
        now = replace(buffer, level=e.b.level)
        value = combined(e, node.op.attributes["mode"].value, e.memory.load(now, place), value)
    e.memory.store(buffer, place, value)


MODES = {"add": "sum", "mul": "prod", "min": "min", "max": "max", "minu": "minu", "maxu": "maxu"}


def combined(e: Emitter, mode: str, old: Scalar, new: Scalar) -> Scalar:
    """Combines `old`, in memory, and `new` as a store of `mode` does; no other point writes the place meanwhile. 16-bit floats are combined in
    f32."""
    s = Scalars(e.b)
    kind, type_ = e.reductions[MODES[mode]], old.value.type
    if isinstance(element(type_), NARROW):
        (value,) = kind.merge(s, [widen(s, old.value)], [widen(s, new.value)])
        value = narrow(s, value, element(type_))
    else:
        (value,) = kind.merge(s, [old.value], [new.value])
    return Scalar(value, old.lanes, e.b.level)

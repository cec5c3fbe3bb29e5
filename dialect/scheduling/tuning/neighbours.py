"""Schedules near a kernel's own for an NVIDIA GPU: what `max_autotune` measures. Each is one decision of `planner.py` taken otherwise.

A neighbour differs in numbers that a lowering takes as they are: which loops are held in registers, walked, walked together or carried along
stays as it was decided, and with it what a program may not do.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod

from ...analysis.bodies.body_tree import sizes_of
from ...analysis.bodies.nested_loops import inner_loops
from ...ir.attributes import ScheduleAttr
from ...mlir import ir
from ..gpu.clusters import MOST as MOST_PROGRAMS
from ..gpu.machine import WARP
from ..gpu.schedule_form import MOST_KEPT, DomainSchedule, KernelSchedule, LoopSchedule, from_attribute, to_attribute
from ..gpu.tuned_products import KIND
from .product_candidates import MOST_TILE

MOST_WARPS, MOST_STAGES = 32, 4
MOST_ELEMENTS = 1 << 15  # of a program's tile at a step of its loops: 32 a thread of 32 warps
MOST_HELD = 128  # of them, that a thread has: more are spilled, and assembling takes minutes
LEAST_STEP = 32  # points of a loop at once: a warp's
LEAST_SIDE, MOST_SIDE = 16, 256  # rows, and columns, of a tile of a contraction


@dataclass(frozen=True)
class Neighbour:
    """`change` names what differs: "warps 4 -> 8"."""

    change: str
    schedule: ScheduleAttr


def neighbours(kernel: ir.Operation) -> list[Neighbour]:
    """At most nine schedules near that of `kernel`, a `bascule.kernel` with one for a GPU. To be called in its context."""
    found = _near(kernel, from_attribute(kernel))
    return [Neighbour(change, ScheduleAttr.get(to_attribute(near))) for change, near in found]


def is_in_segments(kernel: ir.Operation) -> bool:
    """Whether numbers in memory say which rows, or sums, the programs of `kernel` have: with any other numbers they take another time, or end by
    an assertion."""
    own = from_attribute(kernel)
    ops = inner_loops(kernel) if own.group else [kernel]
    loops = [pair for domain, op in zip(own.domains, ops) for pair in zip(domain.loops, inner_loops(op))]
    return any(loop.segments or (loop.skip and op.name == "bascule.reduce") for loop, op in loops)


def _near(kernel: ir.Operation, own: KernelSchedule) -> Iterator[tuple[str, KernelSchedule]]:
    if is_contraction(own):
        yield from _near_contraction(own)
        return
    warps, stages, programs = own.warps, own.stages, own.cluster
    most = max(map(_elements, own.domains))
    for other in (2 * warps, warps // 2):
        if 1 <= other <= MOST_WARPS and (other > warps or most <= MOST_HELD * WARP * other):
            yield f"warps {warps} -> {other}", _with_warps(own, other)
    wider = _each_domain(kernel, own, partial(_steps, double=True))
    if wider is not None and 2 * warps <= MOST_WARPS:
        yield f"warps {warps} -> {2 * warps}, steps x 2", _with_warps(wider, 2 * warps)
    for other in (2 * programs, programs // 2) if programs > 1 else ():
        if 1 < other <= MOST_PROGRAMS:
            yield f"cluster {programs} -> {other}", replace(own, cluster=other)
    for double in (True, False):
        tiled = _each_domain(kernel, own, partial(_tile, double=double)) if programs == 1 else None
        if tiled is not None:
            yield "tile x 2" if double else "tile / 2", tiled
    for double in (True, False):
        stepped = _each_domain(kernel, own, partial(_steps, double=double))
        if stepped is not None:
            yield "steps x 2" if double else "steps / 2", stepped
    if _each_domain(kernel, own, partial(_steps, double=None)) is not None:  # only walks are read ahead
        for other in (stages + 1, stages - 1):
            if 1 <= other <= MOST_STAGES:
                yield f"stages {stages} -> {other}", replace(own, stages=other)


def is_contraction(schedule: KernelSchedule) -> bool:
    """Whether a kernel is one contraction, or several of the same sizes that walk together."""
    return not schedule.group and schedule.domains[0].kind == KIND


def _near_contraction(own: KernelSchedule) -> Iterator[tuple[str, KernelSchedule]]:
    """Schedules of a tile of other rows or columns, of other warps, stages, groups, and one without descriptors. All warps load and multiply
    where rows or warps are others, and without descriptors."""
    (domain,) = own.domains
    alike = replace(domain, consumers=0)
    if domain.consumers:
        yield f"consumers {domain.consumers} -> 0", replace(own, domains=[alike])
    *batch, high, wide = domain.tile
    most = MOST_TILE // len(domain.loops)
    for name, tile in (
        ("columns x 2", (high, 2 * wide)),
        ("columns / 2", (high, wide // 2)),
        ("rows x 2", (2 * high, wide)),
        ("rows / 2", (high // 2, wide)),
    ):
        if prod(tile) <= most and min(tile) >= LEAST_SIDE and max(tile) <= MOST_SIDE:
            yield name, replace(own, domains=[replace(domain if tile[0] == high else alike, tile=(*batch, *tile))])
    other = 4 if own.warps == 8 else 8
    if high * wide * len(domain.loops) <= MOST_TILE // 8 * other:
        yield f"warps {own.warps} -> {other}", replace(own, domains=[alike], warps=other)
    for stages in (own.stages + 1, own.stages - 1):
        if 1 <= stages <= MOST_STAGES + 1:
            yield f"stages {own.stages} -> {stages}", replace(own, stages=stages)
    group = 16 if domain.group == 8 else 8
    yield f"group {domain.group} -> {group}", replace(own, domains=[replace(domain, group=group)])
    if any(loop.descriptors for loop in domain.loops):
        loops = [replace(loop, descriptors=()) for loop in domain.loops]
        yield "descriptors -> pointers", replace(own, domains=[replace(alike, loops=loops)])


def _with_warps(schedule: KernelSchedule, warps: int) -> KernelSchedule:
    """Programs of `warps`: as many of those warps as before have room on a multiprocessor."""
    room = schedule.resident * schedule.warps
    return replace(schedule, warps=warps, resident=max(1, room // warps) if room else 0)


def _each_domain(
    kernel: ir.Operation, own: KernelSchedule, change: Callable[[ir.Operation, DomainSchedule], DomainSchedule | None]
) -> KernelSchedule | None:
    """`own` with each of its domains changed; None where none changes. One that would have too many elements stays."""
    ops = inner_loops(kernel) if own.group else [kernel]
    changed = [_fitting(domain, change(op, domain)) for op, domain in zip(ops, own.domains)]
    if all(domain is None for domain in changed):
        return None
    return replace(own, domains=[new or old for new, old in zip(changed, own.domains)])


def _fitting(before: DomainSchedule, after: DomainSchedule | None) -> DomainSchedule | None:
    return None if after is None or _elements(after) > max(MOST_ELEMENTS, _elements(before)) else after


def _elements(domain: DomainSchedule) -> int:
    """Of a program's tile at the longest step, or all the steps that it keeps."""
    return prod(domain.tile) * _longest(domain.loops)


def _longest(loops: Sequence[LoopSchedule]) -> int:
    return max([1, *(max(loop.step * (loop.kept or 1), _longest(loop.loops)) for loop in loops)])


def _tile(op: ir.Operation, domain: DomainSchedule, double: bool) -> DomainSchedule | None:
    """The last axis of the tile twice or half as long."""
    if not domain.tile or (domain.tile[-1] == 1 and not double):
        return None
    *outer, last = domain.tile
    return replace(domain, tile=(*outer, last * 2 if double else last // 2))


def _steps(op: ir.Operation, domain: DomainSchedule, double: bool | None) -> DomainSchedule | None:
    """The loops that are walked, with steps twice or half as long (None: as they are); a walk stays one. None where there is no such loop,
    or a step would be the whole of one or too short."""
    changed = False

    def stepped(op: ir.Operation, loop: LoopSchedule) -> LoopSchedule | None:
        nonlocal changed
        inner = nested(inner_loops(op), loop.loops)
        if inner is None:
            return None
        if not loop.walks(sizes_of(op)):
            return replace(loop, loops=inner)
        changed = True
        step = loop.step if double is None else 2 * loop.step if double else loop.step // 2
        after = replace(loop, step=step, kept=loop.kept * loop.step // step, loops=inner)
        lost = loop.kept and not 1 <= after.kept <= MOST_KEPT
        return None if step < LEAST_STEP or not after.walks(sizes_of(op)) or lost else after

    def nested(ops: Sequence[ir.Operation], loops: Sequence[LoopSchedule]) -> list[LoopSchedule] | None:
        made = [stepped(op, loop) for op, loop in zip(ops, loops)]
        found = [loop for loop in made if loop is not None]
        return found if len(found) == len(made) else None

    loops = nested(inner_loops(op), domain.loops)
    return replace(domain, loops=loops) if changed and loops is not None else None

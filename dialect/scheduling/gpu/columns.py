"""How loops run on an NVIDIA GPU where memory runs along the domain: a tile of columns, some rows of it at a time."""

from collections.abc import Sequence
from itertools import combinations
from math import prod

from ...analysis.bodies.costs import TRANSCENDENTAL, op_cost
from ...analysis.bodies.dependent_reads import SEARCH, longest_chain
from ...analysis.bodies.nested_loops import iterations
from ...ir.regions import ops_in
from .domains import Domain, DomainPlan
from .machine import LARGE, WARP, power_of_two, warps_of, waste
from .pointwise import flat
from .windows import apart

SEGMENT = 128  # bytes of a cache line: the least that is worth reading in one piece
COLUMN = 4096  # elements of a tile of columns in a step ...
PILED = 32  # ... and those of them that a thread has ...
FEWER = 16  # ... or, where they are read one by one or under masks, fewer of them
MASKED = 2048  # elements of a step where whole ones do not make up a column and several values are carried: each of them costs selects then
HELD = 1 << 14  # elements of a tile of columns that is read once and held
WARPS = 32  # of a multiprocessor, each with 64 bytes a thread in flight: enough to hide the memory's latency
# Steps in flight of walks that read several buffers, and the bytes of shared memory that they may take.
AHEAD, STAGED = 3, 64 << 10
ALONE = 4  # steps in flight of one buffer in short steps, whose programs have too few bytes on the way else
SEARCHED = 4  # elements of a thread whose reads wait for one another: many warps wait at once
SHORT = 16  # points of a loop that is run point by point
ABOUT = 1.05  # of the fewest masked elements


def columns(domain: Domain) -> DomainPlan:
    order = domain.order(domain.indices, domain.sizes)
    lengths = [iterations(loop.sizes) for loop in domain.inner]
    scans = any(loop.name == "bascule.scan" for loop in domain.inner)
    if not scans and all(length is not None and length <= SHORT for length in lengths):
        if (schedule := apart(domain, "column", order)) is not None:
            return schedule
        schedule = flat(domain, "column", order)
        schedule.loops = domain.plan({})
        return schedule
    runs = domain.runs(order)
    if domain.run_size(runs[-1]) < WARP:
        runs = [order]
    index, sm_count = domain.indices[runs[-1][-1]], domain.machine.sm_count
    width = max((a.width for a in domain.accesses if a.form.adjacent(index)), default=4)
    wide = min(max(64, SEGMENT // width), power_of_two(domain.run_size(runs[-1])))
    others = prod(domain.run_size(run) for run in runs[:-1])
    while wide > SEGMENT // 2 // width and others * domain.run_size(runs[-1]) < sm_count * wide:
        wide //= 2
    longest = max((power_of_two(n) for n in lengths if n is not None), default=LARGE)
    again = any(domain.body.needs(loop, domain.inner) for loop in domain.inner)
    held = again and None not in lengths and longest * wide <= HELD
    neighbours, aligned = domain.neighbours(index)
    elements, each = longest * wide if held else COLUMN, PILED
    programs = others * -(-domain.run_size(runs[-1]) // wide)
    few = programs < sm_count  # one waits for memory at each step, and no other works beside it
    if not held and not aligned and width <= 2:
        elements, each = 2 * COLUMN, FEWER
    elif not held and programs * warps_of(elements, PILED) < WARPS * sm_count and longest * wide >= 4 * elements:
        elements *= 2
        if few and len(domain.inner) <= 2 and longest * wide >= 4 * elements:
            elements *= 2
    step = max(1, elements // wide)
    masked = any(n is None or (n > step and n % step) for n in lengths)
    if masked and aligned and not held and not scans and _carries(domain):
        elements, each = MASKED, FEWER
    elif not held and not scans and _computes(domain):
        elements = _least_waste(lengths, elements, wide)
    if not scans and max((longest_chain(loop.op) for loop in domain.inner), default=0) >= SEARCH:
        each = SEARCHED
    steps = {}
    for loop in domain.inner:
        length = iterations(loop.sizes)
        steps[loop] = min(LARGE if length is None else power_of_two(length), max(1, elements // wide))
    loops = domain.plan(steps, together=few and not scans)
    for loop, plan in domain.plans.items():
        if plan.walks(loop.sizes) and not scans:
            plan.fold = neighbours
    tile = [1] * (len(runs) - 1) + [wide]
    axes = [len(run) for run in runs]
    rows = max((loop.step for loop in loops), default=1)
    schedule = DomainPlan("scan" if scans else "column", order, axes, tile, warps_of(wide * rows, each), loops=loops)
    if aligned and not scans and programs >= sm_count:
        schedule.stages = _stages(domain, wide, elements == MASKED)
    return schedule


def _stages(domain: Domain, wide: int, short: bool) -> int:
    """Steps that are read ahead, where walks read several buffers along the rows and the columns, or one in short steps, and shared memory
    holds them."""
    found: dict[tuple, int] = {}
    for loop, plan in domain.plans.items():
        if plan.walks(loop.sizes):
            for a in domain.accesses:
                if loop in a.loops and not a.stores and any(map(a.form.varies, loop.indices)):
                    found[domain.place(a)] = a.width * plan.step * wide
    ahead = AHEAD if len(found) > 1 else ALONE if found and short else 1
    return ahead if ahead * sum(found.values()) <= STAGED else 1


def _computes(domain: Domain) -> bool:
    """Whether functions are computed of what is read: an element that is masked takes as long as any."""
    return any(op_cost(op.name) >= TRANSCENDENTAL for op in ops_in(domain.node.op))


def _least_waste(lengths: Sequence[int | None], elements: int, wide: int) -> int:
    """Elements of a step: down to a quarter, if columns are then made up of whole steps, or nearly."""
    tried = [n for n in (elements, elements // 2, elements // 4) if n >= wide]
    most = [max(1.0 if n is None else waste(n, each // wide) for n in lengths) for each in tried]
    return next(each for each, found in zip(tried, most) if found <= ABOUT * min(most))


def _carries(domain: Domain) -> bool:
    """Whether a walk of the domain carries more than a sum."""
    reduces = [loop for loop in domain.inner if loop.name == "bascule.reduce"]
    read = [{a.buffer for a in domain.accesses if not a.stores and loop in a.loops} for loop in reduces]
    shared = any(not one.isdisjoint(other) for one, other in combinations(read, 2))
    return shared or any("welford" in loop.kinds for loop in reduces)

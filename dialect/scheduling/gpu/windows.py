"""How sums over windows run on an NVIDIA GPU where memory runs along the domain, once `unroll-windows` has several neighbours at a point."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import inf, prod

from ...analysis.bodies.body_summary import Access
from ...analysis.bodies.body_tree import Node
from ...analysis.bodies.costs import magnitude
from ...analysis.bodies.nested_loops import iterations
from ...analysis.products.windows import Window, tile_beside
from .domains import Domain, DomainPlan
from .machine import LARGE, RESERVED, VECTOR, WARP, CudaMachine, power_of_two, waste

SUMS = 32  # of a thread, at most: with what it has read of the windows they leave room for four warps more
THREADS = 128  # of a program
WASTE = 1.15  # points along the lanes that programs have, over those that there are
LEAST = 8  # bytes that a thread loads at a time, where fewer threads would be too few
WARPS = 12  # of a multiprocessor that sums over many places, at least
LINE = 16  # threads that load neighbours, at least: of 8 bytes each, a line of the cache
SHORT = 16  # points of a loop that is run point by point
REGISTERS = 96  # of a thread of sums over many places, about
# Sums over the places of two tensors, as a depthwise weight's gradient, wait for memory: ptxas has few loads under way where a thread has more
# than 4 bytes of each. Loads of 4 bytes in short loops, a thread for each sum of a few rows, take 0.15 to 0.9 of the time of loops over an image
# with 8 bytes, 7 x 7 of 32 x 96 x 56 x 56 0.83. Where a load has few terms, copies of 16 bytes into shared memory, some steps ahead, take 0.4 to
# 0.85, in as many programs as have room at once: 3 x 3 of 128 x 64 x 56 x 56 0.73 (H200, 2026-11-28, `benchmarks/depthwise.py --cuts`).
NARROW = 4  # bytes that a thread loads at a time
FEW_TERMS = 1.5  # products for each element that is read, at most
AHEAD = 3  # steps of those under way
ENOUGH = 0.5  # of the programs that shared memory has room for, which keep memory busy


def windows(domain: Domain) -> DomainPlan | None:
    """An axis of the lanes and one of the places, so that what depends on the place alone, as whether it is in the border, is computed once for
    all lanes. None for another domain."""
    sums = all(loop.kinds == ["sum"] and not loop.inner_loops() for loop in domain.inner)
    order = domain.order(domain.indices, domain.sizes)
    lanes = domain.indices[order[-1]]
    if not sums or not any(_reads_neighbours(domain, loop) or _gathers(domain, loop, lanes) for loop in domain.inner):
        return None
    near = [a for a in domain.accesses if a.form.adjacent(domain.indices[order[-1]])]
    width = max((a.width for a in near if not a.stores), default=4)
    each = _each(len(domain.inner), width)
    places = [n for n in range(len(domain.indices)) if n not in domain.runs(order)[-1]]
    if _sums_places(domain, places):
        if each * width == VECTOR and _waits(domain, places):
            plan = _long(domain, order, each, each)
            if (AHEAD - 1) * _elements(domain, places) * prod(plan.tile) * width <= domain.machine.shared // 2:
                return replace(plan, stages=AHEAD)
        each = min(each, max(1, NARROW // width))
    lengths = [iterations(loop.sizes) for loop in domain.inner]
    if all(length is not None and length <= SHORT for length in lengths):
        return _short(domain, "window", order, each)
    return _long(domain, order, each, LEAST // width)


def apart(domain: Domain, kind: str, order: Sequence[int]) -> DomainPlan | None:
    """Of short loops of any kind: an axis of the lanes and one of the places, if those are none of one flat index with the lanes for all that is
    accessed. None where lanes are few, or many programs' would have no work."""
    if len(domain.runs(order)) < 2:
        return None
    each = _each(len(domain.inner), domain.narrowest)
    wide = _wide(domain.run_size(_lanes(domain, order, each)), THREADS)
    return _short(domain, kind, order, each) if wide >= max(WARP, each) else None


def _short(domain: Domain, kind: str, order: Sequence[int], each: int) -> DomainPlan:
    """Of sums of a window: all of a program's threads have places of their own."""
    lanes = _lanes(domain, order, each)
    places = [n for n in range(len(domain.indices)) if n not in lanes]
    wide = max(each, _wide(domain.run_size(lanes), THREADS * each if len(lanes) > 1 else THREADS))
    high = max(1, THREADS * each // wide) if places else 1
    while high > 1 and _programs(domain, places, high, lanes, wide) < 2 * domain.machine.sm_count:
        high //= 2
    axes = [(places, high)] if places else []
    return _plan(domain, kind, [*axes, (lanes, wide)], max(WARP, high * wide // each))


def _long(domain: Domain, order: Sequence[int], each: int, least: int) -> DomainPlan:
    """Of sums over many places: neighbours along an index whose windows overlap too are one program's, which reads what they share once from
    memory, and of whose threads each has `each` points along the lanes, down to `least` where threads would be too few; threads share a sum only
    if there are fewer than a warp. Elsewhere all that a thread has no lane for are steps of the sum."""
    lanes = domain.runs(order)[-1]
    places = [n for n in range(len(domain.indices)) if n not in lanes]
    wide = max(each, _wide(domain.run_size(lanes), THREADS))
    beside = _beside(domain, places)
    tile = 1 if beside is None else tile_beside(domain.run_size([beside]))
    if beside is None or tile == 1:
        step = max(1, THREADS * each // wide)
        return _plan(domain, "window", [*([(places, 1)] if places else []), (lanes, wide)], THREADS, step)
    points = prod(domain.run_size([n]) for n in places) * domain.run_size(lanes)
    while each > least and points < each * WARPS * WARP * domain.machine.sm_count:
        each //= 2
    wide = _beside_each_other(wide, tile, each)
    step = max(1, WARP * each // (tile * wide))
    others = [n for n in places if n != beside]
    axes = [(others, 1)] if others else []
    axes += [([beside], tile), (lanes, wide)]
    return _plan(domain, "window", axes, max(WARP, step * tile * wide // each), step)


def _each(sums: int, width: int) -> int:
    """Neighbours along the lanes that a thread has, of numbers of `width` bytes, with so many sums each."""
    return max(1, min(VECTOR // width, power_of_two(SUMS // sums + 1) // 2))


def _beside_each_other(wide: int, tile: int, each: int) -> int:
    """Points along the lanes that a program has, `wide` at most, where `tile` neighbours are its own."""
    return min(wide, max(each, THREADS * each // tile))


def walking_time(
    window: Window, results: int, width: int, cut: tuple[int, Sequence[int]], machine: CudaMachine
) -> float:
    """About how long sums over the places of two tensors take, `results` of them, whose places are cut into (chunks, sizes of each): the time in
    which a multiprocessor that has warps enough walks a place for one sum. Without end where pieces would be copied ahead, but are rows of which
    none is read for two results."""
    chunks, sizes = cut
    places = prod(sizes)
    each = _each(window.points, width)
    if each * width == VECTOR and window.points * window.terms <= FEW_TERMS * window.loads:
        has_rows = sum(size > 1 for size in sizes) > 1
        return _ahead_time(window, results, width, (chunks, places), machine) if has_rows else inf
    each = min(each, max(1, NARROW // width))
    if places <= SHORT * window.terms:  # threads have sums of their own
        warps = -(-chunks * results // (window.points * each * WARP * machine.sm_count))
        return max(warps, WARPS) * each * places
    wide = _beside_each_other(_wide(window.lanes, THREADS), window.beside, each)
    warps = max(1, window.beside * wide // (each * WARP))
    fit = max(1, machine.registers // (REGISTERS * WARP * warps))
    most = _most(_programs_of(window, results, chunks, wide), fit, machine)
    return most * warps * each * places / min(1.0, min(most, fit) * warps / WARPS)


def _ahead_time(window: Window, results: int, width: int, cut: tuple[int, int], machine: CudaMachine) -> float:
    """The same where pieces are copied ahead, for the first of which a program waits."""
    chunks, places = cut
    each = _each(window.points, width)
    wide = _beside_each_other(_wide(window.lanes, THREADS), window.beside, each)
    points = max(window.beside * wide, WARP * each)
    fit = max(1, int(machine.shared / ((AHEAD - 1) * window.loads * points * width + RESERVED)))
    most = _most(_programs_of(window, results, chunks, wide), fit, machine)
    return most * points / WARP * (places + AHEAD * window.terms) / min(1.0, most / (ENOUGH * fit))


def _programs_of(window: Window, results: int, chunks: int, wide: int) -> int:
    others = max(1, results // (window.points * window.lanes))
    return chunks * -(-window.lanes // wide) * -(-others // window.beside)


def _most(programs: int, fit: int, machine: CudaMachine) -> int:
    """The most programs of a multiprocessor. Those that do not fit beside the others begin when those end, and have the multiprocessor to
    themselves."""
    turns = -(-programs // (machine.sm_count * fit))
    return fit * turns if turns > 1 else -(-programs // machine.sm_count)


def _sums_places(domain: Domain, places: Sequence[int]) -> bool:
    """Whether sums are of products of two tensors, each of which neighbouring places read at neighbouring elements: a weight's gradient. Of an
    image's all places read the same weights, or those that a remainder says."""
    walked = _walked(domain, places)
    along = [[index for n in places if (index := domain.indices[n]) in a.form.steps] for a in walked]
    linear = all(steps and not a.form.opaque & set(steps) for a, steps in zip(walked, along))
    return linear and len({access.buffer for access in walked}) > 1


def _waits(domain: Domain, places: Sequence[int]) -> bool:
    """Whether such sums wait for memory, more than copies ahead cost: they walk many steps with few terms, a product each, for each element."""
    least = min((iterations(loop.sizes) or LARGE for loop in domain.inner), default=0)
    terms = len(_walked(domain, places)) / 2
    return least >= AHEAD and _beside(domain, places) is not None and terms <= FEW_TERMS * _elements(domain, places)


def _elements(domain: Domain, places: Sequence[int]) -> int:
    """Elements that a step of all sums reads: they walk together, at the same places of their loops."""
    walk = {index: -1 - place for loop in domain.inner for place, index in enumerate(loop.indices)}
    walked = _walked(domain, places)
    steps = [frozenset((walk.get(index, index), str(step)) for index, step in a.form.steps.items()) for a in walked]
    return len({(a.buffer, str(a.form.start), each) for a, each in zip(walked, steps)})


def _walked(domain: Domain, places: Sequence[int]) -> list[Access]:
    """The reads of sums, without factors of a channel, which are the same for all of them."""
    others = {domain.indices[n] for n in places} | {index for loop in domain.inner for index in loop.indices}
    read = [access for access in domain.accesses if len(access.loops) > 1 and not access.stores]
    return [access for access in read if any(map(access.form.varies, others))]


def _beside(domain: Domain, places: Sequence[int]) -> int | None:
    """The index along which neighbours read in good part the same elements, at other steps of the loops: the one along which they read most
    bytes; None where there is none."""
    found = Counter[int]()
    for n, access in product(places, domain.accesses):
        step = access.form.steps.get(domain.indices[n], 0)
        if access.stores or not isinstance(step, int) or not step or domain.indices[n] in access.form.opaque:
            continue
        inner = [each for loop in access.loops if loop in domain.inner for each in zip(loop.indices, loop.sizes)]
        along = [(access.form.steps.get(index, 0), magnitude([size])) for index, size in inner]
        reach = max((abs(steps) * size for steps, size in along if isinstance(steps, int)), default=0)
        if abs(step) < reach and domain.run_size([n]) > 1:
            found[n] += domain.bytes(access)
    return max(found, key=lambda n: found[n], default=None)


def _lanes(domain: Domain, order: Sequence[int], each: int) -> list[int]:
    """The indices that lanes run along, as through one: those that memory runs through so wherever the outer one is needed, and one more
    where a power of two of the innermost is a part of a line."""
    lanes = domain.runs(order)[-1]
    while len(lanes) < len(order):
        outer, inner = (order[-len(lanes) - back] for back in (1, 0))
        seen = [a for a in domain.accesses if a.form.varies(domain.indices[outer])]
        if not all(a.form.flat(domain.indices[outer], domain.indices[inner], domain.sizes[inner]) for a in seen):
            break
        lanes = [outer, *lanes]
    size = domain.run_size(lanes)
    if len(lanes) < len(order) and _wide(size, THREADS) < min(size, LINE * each):
        lanes = [order[-len(lanes) - 1], *lanes]
    return lanes


def _reads_neighbours(domain: Domain, loop: Node) -> bool:
    """Whether a sum reads one buffer at places that are some elements apart, whatever the indices."""
    places: dict[tuple, set[tuple]] = {}
    for access in domain.accesses:
        if loop in access.loops and not access.form.opaque:
            places.setdefault((access.buffer, *access.form.steps.items()), set()).add(domain.place(access))
    return max(map(len, places.values()), default=0) > 1


def _gathers(domain: Domain, loop: Node, lanes: int) -> bool:
    """Whether a sum reads along the `lanes` at places that are computed, as a window's gradient does those windows that an element is in."""
    read = [access for access in domain.accesses if loop in access.loops and access.form.adjacent(lanes)]
    return any(index in access.form.opaque for access in read for index in domain.indices)


def _wide(size: int, most: int) -> int:
    """Points along the lanes: the largest power of two that leaves few without work."""
    wide = min(most, power_of_two(size))
    while wide > 1 and waste(size, wide) > WASTE:
        wide //= 2
    return wide


def _programs(domain: Domain, places: Sequence[int], high: int, lanes: Sequence[int], wide: int) -> int:
    return -(-prod(domain.run_size([n]) for n in places) // high) * -(-domain.run_size(list(lanes)) // wide)


def _plan(
    domain: Domain, kind: str, axes: Sequence[tuple[Sequence[int], int]], threads: int, step: int = 1
) -> DomainPlan:
    """`axes`: the indices of each and its extent in a tile."""
    order = [n for indices, _ in axes for n in indices]
    loops = domain.plan(dict.fromkeys(domain.inner, step) if step > 1 else {})
    sizes, tile = [len(indices) for indices, _ in axes], [extent for _, extent in axes]
    return DomainPlan(kind, order, sizes, tile, threads // WARP, loops=loops)

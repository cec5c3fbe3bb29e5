"""How straight-line code runs on an NVIDIA GPU: flat, in tiles of two axes, transposed, or with loops as long as data says."""

from ...analysis.bodies.dependent_reads import SEARCH, longest_chain
from ...ir.regions import ops_in
from ...ir.shapes import constant
from ...mlir import ir
from .domains import Domain, DomainPlan
from .machine import LARGE, VECTOR, WARP, power_of_two, warps_of, waste

FLAT = 128  # threads of a straight-line program
TRANSPOSED = 4096  # elements of a tile with accesses along both of its axes
NEAR = 1 << 16  # elements between two rows of a tile whose rows share what they read, at most
FILL = 16  # elements that a thread has of such a tile ...
SHARED_FILL = 32  # ... and where it reads as much for all rows as for some of them
WASTE = 1.15  # points of programs over points of the domain, where a flat domain is the alternative
RAGGED_EACH = 32  # elements of a thread of rows whose loops are as long as data says: a row waits for load after load, so many are under way
RAGGED_WASTE = 1.34  # the same of rows whose loops are as long as data says
SEARCHED = 2  # elements of a thread whose reads wait for one another: many warps wait at once
REPEATED_EACH = 2  # elements of a thread that repeats steps until its whole program is done; one warp, whose threads need not wait for others


def pointwise(domain: Domain) -> DomainPlan:
    order = domain.order(domain.indices, domain.sizes)
    if _has(domain, "scf.for"):
        return _segments(domain, order)
    if _has(domain, "scf.while"):
        return flat(domain, "pointwise", order, WARP, REPEATED_EACH)
    if longest_chain(domain.node.op) >= SEARCH:
        return flat(domain, "pointwise", order, each=SEARCHED)
    return _transposed(domain, order) or _broadcast(domain, order) or flat(domain, "pointwise", order)


def flat(domain: Domain, kind: str, order: list[int], threads: int = FLAT, each: int = 0) -> DomainPlan:
    """One axis: `each` elements a thread (0: 16 bytes of the narrowest), fewer points a program where that leaves multiprocessors idle."""
    points = domain.points if domain.points is not None else LARGE
    each = each or _each(domain)
    block = threads * each
    while block > WARP * each and points < 2 * domain.machine.sm_count * block:
        block //= 2
    block = min(block, max(WARP, power_of_two(points)))
    axes, tile = ([len(order)], [block]) if order else ([], [])
    return DomainPlan(kind, order, axes, tile, warps_of(block, each))


def _each(domain: Domain) -> int:
    """Elements of a thread that make 16 bytes of the narrowest ones."""
    return min(16, max(8, VECTOR // domain.narrowest))


def _has(domain: Domain, loop: str) -> bool:
    """Whether there is a `loop`, as long as data says, at a point."""
    return any(op.name == loop for op in ops_in(domain.node.op))


def _segments(domain: Domain, order: list[int]) -> DomainPlan:
    """Points of one row have loops of one length: a program has one row, or a part of it, and of short ones several."""
    runs = domain.runs(order)
    if len(runs) < 2:
        return flat(domain, "segments", order)
    inner, each = domain.run_size(runs[-1]), _each(domain)
    wide = min(power_of_two(inner), FLAT * each * 2)
    while wide > 2 * WARP and waste(inner, wide) > RAGGED_WASTE:
        wide //= 2
    high = max(1, FLAT // wide)
    rest = len(order) - len(runs[-1])
    return DomainPlan("segments", order, [rest, len(runs[-1])], [high, wide], warps_of(high * wide, RAGGED_EACH))


def _broadcast(domain: Domain, order: list[int]) -> DomainPlan | None:
    """Two axes, where some accesses do not see the domain as one flat index: what varies with one of them is read once for the
    other, and no position is taken apart. None where that would leave many points of a program without work."""
    runs = domain.runs(order)
    if len(runs) < 2 or not domain.points:
        return None
    inner = domain.run_size(runs[-1])
    outer = domain.points // inner
    shared = _shared(domain, runs)
    each = _each(domain)
    area = 2 * FLAT * each
    if domain.points < 2 * domain.machine.sm_count * area or inner < WARP:
        return None
    wide = min(power_of_two(inner), area // 2 if shared else area)
    while wide > 2 * WARP and waste(inner, wide) > WASTE:
        wide //= 2
    rest = len(order) - len(runs[-1])
    warps = warps_of(wide if shared else area, each)  # so that rows are read in equal parts
    high = area // wide
    if shared:  # rows far apart in memory are not worth reading together
        high = max(1, FILL * WARP * warps // wide) if inner <= NEAR else 1
        tall = power_of_two(int(2 * shared))
        if tall > high and inner <= NEAR:
            wide, warps = min(wide, max(2 * WARP, SHARED_FILL * WARP // tall)), 2
            high = warps * SHARED_FILL * WARP // wide
    if waste(inner, wide) > WASTE or waste(outer, high) > WASTE or wide < WARP:
        return None
    return DomainPlan("pointwise", order, [rest, len(runs[-1])], [high, wide], warps)


def _shared(domain: Domain, runs: list[list[int]]) -> float:
    """Bytes read at a point of the last run for all the others, over those of what varies with them."""
    across = domain.indices[runs[-1][-1]]
    others = [domain.indices[n] for run in runs[:-1] for n in run]
    same: dict[ir.Value, int] = {}
    own: dict[ir.Value, int] = {}
    for access in domain.accesses:
        if any(access.form.varies(index) for index in others):
            own[access.buffer] = access.width
        elif access.form.varies(across):
            same[access.buffer] = access.width
    return sum(same.values()) / max(1, sum(own.values()))


def _transposed(domain: Domain, order: list[int]) -> DomainPlan | None:
    """Two axes, where a good part of the bytes runs along another index than the rest: each access is coalesced in its own
    order, and the values change places between threads."""
    runs = domain.runs(order)
    if len(runs) < 2:
        return None
    main = runs[-1]
    rest = [run for run in runs[:-1] if _across(domain, run[-1], main[-1]) * 16 >= domain.heaviest]
    if not rest:
        return None
    other = max(rest, key=lambda run: _across(domain, run[-1], main[-1]))
    first, second = (power_of_two(domain.run_size(run)) for run in (other, main))
    width = max((access.width for access in domain.accesses), default=4)
    area = TRANSPOSED if width <= 4 else TRANSPOSED // 4
    side = 1 << (area.bit_length() - 1) // 2
    wide = min(second, max(side, area // max(1, min(first, side))))
    high = min(first, max(1, area // wide))
    tile = [high if run is other else wide if run is main else 1 for run in runs]
    return DomainPlan("transposed", order, [len(run) for run in runs], tile, warps_of(high * wide, 16))


def _across(domain: Domain, dim: int, main: int) -> int:
    """Bytes of the accesses whose neighbours run along `dim`, and that step along `main` in larger strides."""
    index, other = domain.indices[dim], domain.indices[main]
    size = constant(domain.sizes[dim])
    if size is not None and size < 4:
        return 0
    return sum(
        domain.bytes(access)
        for access in domain.accesses
        if access.form.adjacent(index) and access.form.varies(other) and not access.form.adjacent(other)
    )

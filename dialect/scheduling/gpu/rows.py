"""How loops run on an NVIDIA GPU where memory runs along them: rows that registers hold are read once, longer ones are walked."""

from dataclasses import dataclass, replace

from ...analysis.bodies.accesses import Access
from ...analysis.bodies.body_summary import sizes_of
from ...analysis.bodies.nested_loops import inner_loops, iterations, needs
from ...mlir import ir
from .clusters import shared_rows
from .domains import Domain, DomainPlan
from .machine import LARGE, MOST_WARPS, VECTOR, WARP, power_of_two, warps_of, waste
from .schedule_form import LoopSchedule

HOLDABLE = 3 / 4  # of the registers of a multiprocessor: what rows may take ...
CROWDED = 15 / 16  # ... and as several tiles, beside loops around them
LONGEST = 1 << 14  # elements of a row that is held: of a longer one a program leaves no room for another
HELD = 16  # elements of a row that a thread has in a tile ...
HELD_MORE, SHORT = 32, 4096  # ... and of rows up to `SHORT`, and of those whose threads meet once
ROW, RIDDEN = 2048, 1024  # elements of a program of short rows; where sums of columns go along
SCANNED = 4096  # elements of a step of a scan, 16 a thread
# Bytes of shared memory for steps that are read ahead: of a program of scans, two of which share a multiprocessor; of all programs that do,
# with rows beside columns, whose sums take the registers of so many warps.
SCAN_STAGED, ROWS_STAGED, BESIDE = 98304, 200 << 10, 16
SCAN_AHEAD, ROWS_AHEAD = 3, 3  # steps in flight, if that holds them: of rows one more where a program is alone
EXCHANGED = 3 << 10  # bytes of it that reductions exchange between warps, and that the driver takes, at most
WORTH_STAGING = 8192  # bytes of a step of rows beside columns
LATENCY = 64  # bytes of a row that a thread has in flight
FULL, PART = 32, 8  # warps that leave a multiprocessor to one program, and to several
# Bytes of rows that are read again, of all programs of a multiprocessor: half of its share of the L2 cache.
UNDER_WAY = 208 << 10
# Rows held as several tiles: halvings and elements of one, and their points over those of one tile, at most; where sums of columns
# go along, the latter of rows longer than `SHORT`.
FINER, SMALLEST = 3, 128
FILLED, RIDING_FILLED = 0.8, 0.7
IDLE = 1.25  # multiprocessors over those that have work, when programs of `FULL` warps run


@dataclass(frozen=True)
class _Step:
    """Of a walk: the warps, the elements of a thread, and the steps that are kept for later walks."""

    warps: int
    each: int
    kept: int = 0

    @property
    def elements(self) -> int:
        return WARP * self.warps * self.each


# Of rows of 16-bit numbers that are read again, so many bytes each, the L2 cache holds only a part of those under way: the first steps stay in
# a quarter of a multiprocessor's registers, and of longer rows all but so many steps, in up to five eighths of them.
OVERFLOWING, NARROW, KEPT = 1 << 18, 2, _Step(FULL, 8, kept=4)
REST, MOST_HELD = 10, 10


def rows(domain: Domain) -> DomainPlan:
    values = max(1, _held(domain))
    limit, room = int(domain.machine.registers * HOLDABLE) // values, int(domain.machine.registers * CROWDED) // values
    if not any(inner_loops(loop) for loop in domain.inner):
        limit, room = min(limit, LONGEST), 0

    def fits(length: int) -> bool:
        return power_of_two(length) <= limit or _padded(length, _tile(length, FILLED)) <= room

    longest = max((power_of_two(n) for n in domain.lengths if n is not None and fits(n)), default=1)
    walked = [n for n in domain.lengths if n is None or not fits(n)]
    scans = any(loop.name == "bascule.scan" for loop in domain.lanes)
    points = domain.points if domain.points is not None else LARGE
    if walked and _read_again(domain) >= OVERFLOWING and (shared := shared_rows(domain)) is not None:
        return shared
    step = _step(domain, walked, points) if walked and not scans else _Step(SCANNED // WARP // HELD, HELD)
    steps = {}
    for loop, length in zip(domain.lanes, domain.lengths):
        steps[loop] = power_of_two(length) if length is not None and fits(length) else step.elements
    loops = domain.plan(steps)
    riding = any(plan.along >= 0 for plan in domain.plans.values())
    held = {}
    if not walked and not scans and (not riding or longest > SHORT):
        filled = RIDING_FILLED if riding and longest <= limit else FILLED
        tiles = {
            loop: _tile(length, filled) for loop, length in zip(domain.lanes, domain.lengths) if length is not None
        }
        held = {loop: tile for loop, tile in tiles.items() if tile < steps[loop]}
    if held:
        loops = domain.plan(steps | held, held)
    if not scans:
        _fold(domain, step.kept)
    block = 1 if walked else min(max(1, (RIDDEN if riding else ROW) // longest), power_of_two(points))
    while block > 1 and points < 2 * domain.machine.sm_count * block:
        block //= 2
    order = list(range(len(domain.indices)))
    axes, tile = ([len(order)], [block]) if order else ([], [])
    if walked and not scans:
        warps = max(step.warps, warps_of(longest, HELD))
    elif held:
        least = min(held.values())
        elements = block * max(_padded(length, least) for length in domain.lengths if length is not None)
        warps = _warps(elements, block * least, 2 * HELD if riding or elements <= SHORT else HELD)
    else:
        elements = block * max(longest, SCANNED if walked else 1)
        warps = warps_of(
            elements, HELD if walked or riding or (elements > SHORT and not _meet_once(domain)) else HELD_MORE
        )
    schedule = DomainPlan("scan" if scans else "row", order, axes, tile, warps, loops=loops)
    together = max(1, BESIDE // warps)
    schedule.stages = _stages(domain, scans, together)
    if riding and points > domain.machine.sm_count:
        schedule.resident = min(together, -(-points // domain.machine.sm_count))
    return schedule


def _fold(domain: Domain, kept: int) -> None:
    """What walks fold, evict and keep: of loops that walk together one thing, by the reductions among them, for nothing else folds."""
    walked: dict[int, list[ir.Operation]] = {}
    for loop in domain.lanes:
        if domain.plans[loop].walks(loop):
            walked.setdefault(domain.plans[loop].walk, []).append(loop)
    for together in walked.values():
        reduces = [loop for loop in together if loop.name == "bascule.reduce"] or together
        found = [domain.neighbours(_along(loop, domain.plans[loop])) for loop in reduces]
        for loop in together:
            plan = domain.plans[loop]
            plan.kept = kept
            plan.fold = min(neighbours for neighbours, _ in found)
            if not all(aligned for _, aligned in found):
                plan.evict = "normal"  # a line is read by several instructions


def _meet_once(domain: Domain) -> bool:
    """Whether no reduction of a row waits for another."""
    reduces = [loop for loop in domain.inner if loop.name == "bascule.reduce"]
    return not any(needs(loop, reduces) for loop in reduces)


def _tile(length: int, filled: float) -> int:
    """Elements of a tile of a row that is held: all of it, or, where several tiles have at most `filled` of its points, of one of those."""
    most = power_of_two(length)
    tiles = [most >> n for n in range(FINER + 1) if most >> n >= SMALLEST]
    best = min(tiles, key=lambda tile: (_padded(length, tile), -tile), default=most)
    return best if _padded(length, best) <= filled * most else most


def _padded(length: int, tile: int) -> int:
    """The points of as many tiles as hold `length`."""
    return -(-length // tile) * tile


def _warps(elements: int, tile: int, each: int) -> int:
    """Of programs with several tiles of a row: the threads of fewer have 16 bytes of each."""
    warps = min(MOST_WARPS, power_of_two(-(-elements // (WARP * each))))
    while warps > 1 and tile < WARP * warps * VECTOR // 2 and 2 * elements <= 3 * each * WARP * warps // 2:
        warps //= 2
    return warps


def _step(domain: Domain, lengths: list[int | None], points: int) -> _Step:
    """Rows that are read once are read by programs that share a multiprocessor. What is read again should still be in the L2 cache, so that
    few rows may be under way: a program of long ones then has a multiprocessor to itself, and as much where there are no more programs."""
    sm_count = domain.machine.sm_count
    shortest = min((n for n in lengths if n is not None), default=LARGE)
    index = max((i for loop in domain.lanes for i in _indices(loop)), key=lambda i: domain.along[i])
    _, aligned = domain.neighbours(index)
    if points <= sm_count:
        return _Step(FULL, 32 if aligned and shortest >= 1 << 18 else 16)
    again = _read_again(domain)
    if len(domain.lanes) > 1 and again:
        if aligned and again >= OVERFLOWING and {*lengths} == {shortest} and again == NARROW * shortest:
            steps = shortest // KEPT.elements
            return KEPT if again == OVERFLOWING else replace(KEPT, kept=min(MOST_HELD, max(KEPT.kept, steps - REST)))
        idle = -(-points // sm_count) * sm_count / points
        warps = FULL if idle <= IDLE else FULL // 2
        while aligned and warps > PART and UNDER_WAY * warps >= 2 * FULL * again:
            warps //= 2
        step = _Step(warps, 16 if aligned else 8)
        return step if waste(shortest, step.elements) <= IDLE else _Step(step.warps, 8)
    width = max((a.width for a in domain.accesses if a.adjacent(index)), default=4)
    step = _Step(8, max(8, min(32, LATENCY // width))) if aligned else _Step(4, 16)
    while step.each > 8 and shortest < 4 * step.elements:
        step = _Step(step.warps, step.each // 2)
    return step


def _read_again(domain: Domain) -> int:
    """Bytes of a row of the buffers that two loops along it read."""
    seen: set[ir.Value] = set()
    again: dict[ir.Value, int] = {}
    for loop, length in zip(domain.lanes, domain.lengths):
        read = {a.buffer: a.width for a in domain.accesses if not a.stores and loop in a.loops and _streams(domain, a)}
        again.update(
            (buffer, width * (LARGE if length is None else length)) for buffer, width in read.items() if buffer in seen
        )
        seen |= read.keys()
    return sum(again.values())


def _streams(domain: Domain, access: Access) -> bool:
    """Whether an access is another at each point of the domain."""
    return any(access.varies(index) for index in domain.indices) or not domain.indices


def _indices(loop: ir.Operation) -> list[ir.Value]:
    return list(loop.regions[0].blocks[0].arguments)


def _along(loop: ir.Operation, plan: LoopSchedule) -> ir.Value:
    """The index of a loop that memory runs along."""
    return _indices(loop)[plan.order[-1]]


def _held(domain: Domain) -> int:
    """How many values a point of the rows has: the buffers that are read along them, and what is reduced at each of their points."""
    along = {index for loop in domain.lanes for index in _indices(loop)}
    read = {a.buffer for a in domain.accesses if not a.stores and any(a.varies(index) for index in along)}
    return len(read) + sum(len(inner_loops(loop)) for loop in domain.lanes)


def _stages(domain: Domain, scans: bool, most: int) -> int:
    """How many steps are read ahead, where shared memory holds them: of walks of scans, and of rows that are walked one by one by programs of
    which `most` share a multiprocessor."""
    walked = rows = 0
    parts = False
    for loop, plan in domain.plans.items():
        inside = [a for a in domain.accesses if loop in a.loops and not a.stores]
        if scans and plan.walks(loop):
            walked = max(walked, sum({a.buffer: _tile_bytes(domain, a) for a in inside}.values()))
        elif plan.step == 1 and any(inner.step > 1 for inner in plan.loops):
            streamed = {a.buffer: _tile_bytes(domain, a) for a in inside if any(map(a.varies, _indices(loop)))}
            rows = max(rows, sum(streamed.values()))
            parts = parts or any(domain.plans[inner].walks(inner) for inner in inner_loops(loop))
    if walked:
        return min(SCAN_AHEAD, max(1, SCAN_STAGED // walked))
    if rows < WORTH_STAGING:
        return 1
    together = min(most, -(-(LARGE if domain.points is None else domain.points) // domain.machine.sm_count))
    ahead = ROWS_AHEAD if together > 1 else ROWS_AHEAD + 1
    # The row at hand is in registers; of one that is walked itself, the step that is needed last is not.
    held = 0 if parts else 1
    room = (domain.machine.shared - EXCHANGED) // (rows * together) + held
    return max(1, min(ahead, ROWS_STAGED // (rows * together), room))


def _tile_bytes(domain: Domain, access: Access) -> int:
    """Bytes of a read in a step of its loops, or in all tiles of what is held."""
    plans = [(loop, domain.plans[loop]) for loop in access.loops[1:] if loop in domain.plans]
    points = [(iterations(sizes_of(loop)) or 1) if plan.held else plan.step for loop, plan in plans]
    return access.width * max(points, default=1)

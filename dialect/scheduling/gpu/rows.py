"""Row schedules for an NVIDIA GPU: memory runs along the loops.

A row that fits is register-resident, and read once. A longer one is read in steps: a software-pipelined loop over its blocks.
"""

from dataclasses import dataclass, replace

from ...analysis.bodies.body_summary import Access
from ...analysis.bodies.body_tree import Node
from ...analysis.bodies.costs import TRANSCENDENTAL, op_cost
from ...analysis.bodies.nested_loops import iterations
from ...ir.regions import ops_in
from ...mlir import ir
from .clusters import shared_rows
from .domains import Domain, DomainPlan
from .machine import LARGE, MOST_WARPS, REGISTER, VECTOR, WARP, power_of_two, warps_of, waste
from .schedule_form import MOST_KEPT, LoopSchedule

# Register-resident rows.
HOLDABLE = 3 / 4  # of a multiprocessor's registers, at most, for rows of one tile
CROWDED = 15 / 16  # of a multiprocessor's registers, at most, for rows of several tiles, inside of other loops
LONGEST = (
    1 / 4
)  # of a multiprocessor's registers, for the elements of a row: with more there is no room for a second program
HELD = 16  # elements of a thread
HELD_MORE = 32  # elements of a thread, of rows up to `SHORT`, and where no reduction waits for another
SHORT = 4096  # elements of a row
ROW = 2048  # elements of a program of several rows
RIDDEN = 1024  # elements of a program of several rows, with riding sums of columns
FINER = 3  # halvings of a tile, at most
SMALLEST = 128  # elements of a tile, at least
FILLED = 0.8  # points of several tiles over those of one, at most
RIDING_FILLED = 0.7  # points of several tiles over those of one, at most, with riding sums of columns

# Rows in steps.
SCANNED = 4096  # elements of a step of a scan
LATENCY = 64  # bytes that a thread has in flight
FULL = 32  # warps of a program that has a multiprocessor to itself
PART = 8  # warps of a program that shares one, at least
MANY = 8  # long steps of a row, at least
READ = 32  # registers of a thread, of the 64 that it has beside `FULL` warps, for what a step reads: more are spilled (Triton 3.6)
LEAST_EACH = 8  # elements of such a thread, at least
KEPT_EACH = 8  # elements of a thread in a register-resident step, at least; 16 bytes of narrower numbers
IDLE = 1.25  # ratio, at most: multiprocessors over those with work; points of whole steps over those of the row

# Software pipelining through shared memory.
SCANS = 2  # programs of scans that share a multiprocessor
ROWS_STAGED = 200 << 10  # bytes of a multiprocessor, for rows beside columns
BESIDE = 16  # warps of a multiprocessor, for rows beside columns: sums of columns fill the registers
SCAN_AHEAD = 3  # stages of a scan, at most
ROWS_AHEAD = 3  # stages of rows, at most; one more where a program has a multiprocessor to itself
EXCHANGED = 3 << 10  # bytes of a program that reductions exchange between warps, and that the driver takes, at most
WORTH_STAGING = 8192  # bytes of a step of rows beside columns, at least ...
# ... unless the steps under way on a multiprocessor have fewer bytes than 4e12 bytes/s need, where a step takes 1.2 us: two thirds until it has
# come from memory, the rest until its reductions have met.
UNDER_WAY = 36 << 10


@dataclass(frozen=True)
class _Step:
    """A step of a row: `warps` of the program, elements of a thread (`each`), register-resident steps (`kept`)."""

    warps: int
    each: int
    kept: int = 0

    @property
    def elements(self) -> int:
        return WARP * self.warps * self.each


def rows(domain: Domain) -> DomainPlan:
    """Schedules a domain whose loops run along memory."""
    values = max(1, _held(domain))
    limit, room = int(domain.machine.registers * HOLDABLE) // values, int(domain.machine.registers * CROWDED) // values
    if not any(loop.inner_loops() for loop in domain.inner):
        limit, room = min(limit, int(domain.machine.registers * LONGEST)), 0

    def fits(length: int) -> bool:
        return power_of_two(length) <= limit or _padded(length, _tile(length, FILLED)) <= room

    longest = max((power_of_two(n) for n in domain.lengths if n is not None and fits(n)), default=1)
    walked = [n for n in domain.lengths if n is None or not fits(n)]
    scans = any(loop.name == "bascule.scan" for loop in domain.lanes)
    points = domain.points if domain.points is not None else LARGE
    if walked and _read_again(domain) > domain.machine.cached and (shared := shared_rows(domain)) is not None:
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
        # Few programs have more warps, as long as a thread has 16 bytes of narrow numbers.
        while riding and 2 * -(-points // block) * warps <= BESIDE * domain.machine.sm_count:
            if elements < 2 * warps * WARP * VECTOR // 2:
                break
            warps *= 2
    schedule = DomainPlan("scan" if scans else "row", order, axes, tile, warps, loops=loops)
    together = max(1, BESIDE // warps)
    schedule.stages = _stages(domain, scans, together, block)
    if riding and points > domain.machine.sm_count:
        schedule.resident = min(together, -(-points // domain.machine.sm_count))
    return schedule


def _fold(domain: Domain, kept: int) -> None:
    """Sets `fold`, `evict` and `kept` of loops in steps. Fused loops have equal ones, which their reductions decide: nothing else folds."""
    walked: dict[int, list[Node]] = {}
    for loop in domain.lanes:
        if domain.plans[loop].walks(loop.sizes):
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
    """Whether no reduction of a row depends on another: the program's threads synchronize once."""
    reduces = [loop for loop in domain.inner if loop.name == "bascule.reduce"]
    return not any(domain.body.needs(loop, reduces) for loop in reduces)


def _tile(length: int, filled: float) -> int:
    """Elements of a tile of a register-resident row: of one tile, or of several, where these have at most `filled` of the points of one."""
    most = power_of_two(length)
    tiles = [most >> n for n in range(FINER + 1) if most >> n >= SMALLEST]
    best = min(tiles, key=lambda tile: (_padded(length, tile), -tile), default=most)
    return best if _padded(length, best) <= filled * most else most


def _padded(length: int, tile: int) -> int:
    """`length`, rounded up to whole tiles."""
    return -(-length // tile) * tile


def _warps(elements: int, tile: int, each: int) -> int:
    """Warps of a program with several tiles a row. Fewer warps, so that a thread loads 16 bytes of each tile."""
    warps = min(MOST_WARPS, power_of_two(-(-elements // (WARP * each))))
    while warps > 1 and tile < WARP * warps * VECTOR // 2 and 2 * elements <= 3 * each * WARP * warps // 2:
        warps //= 2
    return warps


def _step(domain: Domain, lengths: list[int | None], points: int) -> _Step:
    """The step of rows that do not fit.

    Rows that are read once: programs share a multiprocessor. Rows that are read again should be L2 hits: so few are in work at once, and a
    program of long rows has a multiprocessor to itself. So has each where there are no more programs than multiprocessors.
    """
    sm_count = domain.machine.sm_count
    shortest = min((n for n in lengths if n is not None), default=LARGE)
    index = max((i for loop in domain.lanes for i in loop.indices), key=lambda i: domain.along[i])
    _, aligned = domain.neighbours(index)
    if points <= sm_count:
        most = max(LEAST_EACH, 1 << (READ // _words(domain)).bit_length() - 1)
        step = _Step(FULL, min(32, most))
        return step if aligned and shortest >= MANY * step.elements else _Step(FULL, min(16, most))
    again = _read_again(domain)
    if len(domain.lanes) > 1 and again:
        idle = -(-points // sm_count) * sm_count / points
        warps = FULL if idle <= IDLE else FULL // 2
        while aligned and warps > PART and again * 2 * FULL // warps <= domain.machine.cached:
            warps //= 2
        step = _Step(warps, 16 if aligned else 8)
        step = step if waste(shortest, step.elements) <= IDLE else _Step(step.warps, 8)
        alike = {*lengths} == {shortest} and domain.lanes == domain.inner
        return (_keeping(domain, warps, aligned, shortest, points) or step) if alike else step
    width = max((a.width for a in domain.accesses if a.form.adjacent(index)), default=4)
    step = _Step(8, max(8, min(32, LATENCY // width))) if aligned else _Step(4, 16)
    while step.each > 8 and shortest < 4 * step.elements:
        step = _Step(step.warps, step.each // 2)
    return step


def _words(domain: Domain) -> int:
    """Registers that what is read of an element takes while it is computed with; functions have some more beside several values."""
    read = {
        a.buffer: a.width for a in domain.accesses if not a.stores and any(loop in a.loops for loop in domain.lanes)
    }
    words = sum(max(1, width // REGISTER) for width in read.values())
    calls = any(op_cost(op.name) >= TRANSCENDENTAL for op in ops_in(domain.node.op))
    return max(1, words + 1 if calls and words > 1 else words)


def _keeping(domain: Domain, warps: int, aligned: bool, length: int, points: int) -> _Step | None:
    """The step of rows of which the L2 cache has not all when they are read again: it has what is left of all rows under way without the first
    steps, which stay register-resident, as many as registers allow. None where it has all."""
    machine = domain.machine
    under_way = min(points, machine.sm_count * (FULL // warps))
    over = _read_again(domain) - machine.cached * machine.sm_count // under_way
    widths = domain.read_again().values()
    if over <= 0 or not widths:
        return None
    step = _Step(warps, max(KEPT_EACH, VECTOR // min(widths)))
    wanted = -(-over * length // (_read_again(domain) * step.elements))
    # What is read one by one has a register a number, and another for where it is.
    taken = step.elements * sum(width if aligned else max(width, REGISTER) + REGISTER for width in widths)
    kept = min(wanted, machine.held * warps // FULL // taken, length // step.elements, MOST_KEPT)
    return replace(step, kept=kept) if kept else None


def _read_again(domain: Domain) -> int:
    """Bytes of a row that a second loop reads again."""
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
    """Whether an access varies with the domain: each point reads its own elements."""
    return any(access.form.varies(index) for index in domain.indices) or not domain.indices


def _along(loop: Node, plan: LoopSchedule) -> int:
    """The innermost index of a loop, along which memory runs."""
    return loop.indices[plan.order[-1]]


def _held(domain: Domain) -> int:
    """Values of a point of a row, which registers hold: one a buffer that is read along it, one a reduction inside."""
    along = {index for loop in domain.lanes for index in loop.indices}
    read = {a.buffer for a in domain.accesses if not a.stores and any(a.form.varies(index) for index in along)}
    return len(read) + sum(len(loop.inner_loops()) for loop in domain.lanes)


def _stages(domain: Domain, scans: bool, most: int, block: int) -> int:
    """Stages of software pipelining, as shared memory allows: of scans in steps, and of loops over rows, whose programs share a
    multiprocessor, `most` at once, and have a row at each of `block` points in work."""
    walked = rows = moved = 0
    parts = False
    for loop, plan in domain.plans.items():
        inside = [a for a in domain.accesses if loop in a.loops and not a.stores]
        if scans and plan.walks(loop.sizes):
            walked = max(walked, sum({a.buffer: _tile_bytes(domain, a) for a in inside}.values()))
        elif plan.step == 1 and any(inner.step > 1 for inner in plan.loops):
            streamed = {a.buffer: a for a in inside if any(map(a.form.varies, loop.indices))}
            rows = max(rows, sum(_tile_bytes(domain, a) for a in streamed.values()))
            moved = max(moved, sum(_tile_bytes(domain, a, padded=False) for a in streamed.values()))
            parts = parts or any(domain.plans[inner].walks(inner.sizes) for inner in loop.inner_loops())
    if walked:
        return min(SCAN_AHEAD, max(1, (domain.machine.shared // SCANS - EXCHANGED) // walked))
    if not rows:
        return 1
    programs = -(-(LARGE if domain.points is None else domain.points) // block)
    together = min(most, -(-programs // domain.machine.sm_count))
    if rows < WORTH_STAGING and block * moved * together >= UNDER_WAY:
        return 1
    rows *= block
    ahead = ROWS_AHEAD if together > 1 else ROWS_AHEAD + 1
    # The row in work is register-resident; a row in steps is not, and needs a stage of its own.
    held = 0 if parts else 1
    room = (domain.machine.shared - EXCHANGED) // (rows * together) + held
    return max(1, min(ahead, ROWS_STAGED // (rows * together), room))


def _tile_bytes(domain: Domain, access: Access, *, padded: bool = True) -> int:
    """Bytes that an access reads in one step of its loops, of a tile's points or (not `padded`) of those that there are; of a register-resident
    loop, in all of it."""
    plans = [(loop, domain.plans[loop]) for loop in access.loops[1:] if loop in domain.plans]
    sizes = [(iterations(loop.sizes) or 1, plan) for loop, plan in plans]
    points = [size if plan.held or (size < plan.step and not padded) else plan.step for size, plan in sizes]
    return access.width * max(points, default=1)

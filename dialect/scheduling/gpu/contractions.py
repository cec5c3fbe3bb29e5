"""How contractions run on an NVIDIA GPU's tensor cores: a tile of rows by columns in a program, a piece of what is summed in a step.

The sizes of tiles follow Triton's matrix products on sm_80 and later: a warp has 16 x 8 x 16 elements in an instruction, four warps together
64 rows on sm_90, and two operands' pieces of each stage lie in shared memory.
"""

from collections.abc import Sequence
from math import prod

from ...analysis.bodies.body_summary import Access
from ...analysis.bodies.body_tree import Node
from ...analysis.bodies.nested_loops import iterations
from ...analysis.bodies.structural_equality import form_of
from ...analysis.products.contractions import Contraction, contraction_of, factors_of
from ...analysis.products.cut_sums import CutSum, cut_sum
from ...analysis.products.segments import Segments, segments_of, with_data
from ...ir.regions import ops_in
from ...ir.types import byte_width
from ...machines.measures import value
from ...mlir import ir
from .descriptors import described
from .domains import Domain, DomainPlan
from .machine import RESERVED, VECTOR, power_of_two
from .tuned_products import tuned_product

MACHINE = "h200"
LEAST = 16  # rows, columns and elements summed of a tile, for an instruction of tensor cores
LEAST_BYTES = 32  # of what is summed
UNKNOWN = 1024  # what a size that is not known counts as
FEW_ROWS = 9  # rows or columns from which on a product is none of few rows, which is as fast as the matrix is read
FEW_NARROW = 2  # the same where a factor has 8 bits, or is computed
PIECE = 128  # bytes of a row of a piece: a line
WIDEST, HIGHEST = 256, 128  # columns and rows of a tile, at most: f32 sums of two warp groups fill their registers
HALF_SIDE = 128  # the sides of half of the largest tile
SMALL = 64  # the sides of a tile that is as small as one is made for more of them
IEEE_SIDE, IEEE_STEP = 64, 16  # the same, and what is summed in a step, of f32, which no tensor core multiplies exactly
FLOAT8_SINCE = 89  # the compute capability whose tensor cores multiply floats of 8 bits
STAGES = 4  # pieces under way, at most
LEAST_STAGES = 3  # pieces under way, from which on a program reads on while it stores a tile
NARROW = 2  # bytes of a number of which a part of a tile goes through shared memory at a time
ROWS = 16  # for each warp, of such a part, which has as many columns
BARRIERS = 512  # bytes in shared memory of what waits for pieces
# Where a sum has few steps, what follows it counts: two programs of a multiprocessor, of half of a tile each, do that in turns. Up to 40 steps
# they take 0.80 to 1.01 of the time of one (1.02 to 1.04 from 48 on), 32768 x 512 x 2048 with a gelu 0.89, 65536 x 256 x 256 with a residual
# 0.82. Warp groups that multiply, each half of a tile, while another one loads (the capability, without its last digit, with such, and how many)
# are better where a program has many tiles, and what follows reads nothing: 16384 x 768 x 30528 takes 0.95 of the time of two programs, with a
# gelu 0.97; with a bias and a gelu 1.03 to 1.17 (H200, 2026-11-28, `benchmarks/product_tiles.py`, each result compared with f32). Of several
# products together, and of those of groups, steps count as often: 0.86 for silu of one of 8192 x 512 x 1792 in 8 groups, 0.93 for SwiGLU of two,
# 1.01 where two have 32 steps, 1.04 for 4096 x 2048 x 5632 (`benchmarks/products.py --only grouped,joined`).
STEPS = 40  # up to which they are few
SPECIALIZES, CONSUMERS, TURNS = 9, 2, 48  # tiles of a program from which on they are many
DESCRIPTORS = True  # whether factors are loaded by tensor descriptors where they can be
LEAST_STEPS = 8  # of a piece of a sum, which a program has alone
AROUND = 3  # steps that a program takes longer than those of its loop
SUM = 4  # bytes of a sum
TOGETHER = 8  # tiles of rows whose programs follow each other over the columns: what they read stays in L2


def contraction(domain: Domain) -> DomainPlan | None:
    """The schedule of a domain whose loops are contractions for tensor cores, one or several, which walk together; None for another domain."""
    every = found_in(domain)
    if not every:
        return None
    found = every[0]
    known = [_size(domain, found.rows), _size(domain, found.columns), iterations(found.loop.sizes)]
    rows, columns, summed = (UNKNOWN if size is None else size for size in known)
    if summed < LEAST:
        return None
    width = byte_width(found.x.element)
    counts = _counts(domain)
    least = FEW_NARROW if width == 1 or found.x.is_computed or found.y.is_computed else FEW_ROWS
    if min(rows, columns) < least:
        return None
    sums = sum(2 if each.is_partial else 1 for each in every) + _beside(domain, found)  # tiles that registers hold
    exact, passes = found.is_exact, _passes_registers(found)
    in_registers = (passes and found.x.adjacent(found.loop.indices[-1])) or (
        found.y.is_computed and not found.x.is_computed
    )
    swapped = not counts and in_registers
    sides = (columns, rows) if swapped else (rows, columns)  # what registers hold is the first factor
    batch_size, sm_count = _size(domain, found.batch) or 1, domain.machine.sm_count
    segments = max((each.count for each in counts.values()), default=1)
    high, wide = tile_of(*sides, batch_size, sums << passes, sm_count, segments, exact)[:: -1 if swapped else 1]
    narrowest = min(access.width for side in (found.x, found.y) for access in side.accesses)
    step = step_of(summed, width, narrowest if min(high, wide) <= SMALL else width, exact)
    batch = list(found.batch)
    order = [*batch, *found.rows, *found.columns]
    axes = [1] * len(batch) + [len(found.rows), len(found.columns)]
    steps = {loop: power_of_two(segments.count) for loop, segments in counts.items()}
    loops = domain.plan(steps | {each.loop: step for each in every})
    for loop in counts:
        domain.plans[loop].segments = True
    first, *_ = together = [domain.plans[each.loop] for each in every]
    for plan_ in together:  # none needs another's result: factors come from memory
        plan_.walk, plan_.order, plan_.evict, plan_.dot = first.walk, first.order, first.evict, True
    first.skip = cut_sum(found.loop.op) is not None
    for each in every if DESCRIPTORS else ():
        domain.plans[each.loop].descriptors = sorted(described(domain, each))
    warps = 8 if (sums << passes) * high * wide > 128 * 128 else 4
    plan = DomainPlan("contraction", order, axes, [1] * len(batch) + [high, wide], warps, loops=loops)
    plan.group, plan.resident = TOGETHER, 2 if passes else 0
    lengths, piece = -(-summed // step), _piece(every, plan.tile, step)
    plan.stages = max(1, min(STAGES, (domain.machine.shared >> passes) // piece, lengths))
    tiles = batch_size * -(-rows // high) * -(-columns // wide)
    if lengths > 1 and not passes and tiles > sm_count and None not in known:
        _take_in_turn(domain, every, plan, piece)
        if plan.programs and len(every) * lengths <= STEPS:
            many = tiles >= TURNS * sm_count and not _reads_more(domain)
            if many and _specializes(domain, every, plan):
                plan.consumers = CONSUMERS
            else:
                _take_half(domain, every, plan)
    measured = tuned_product(found.loop.op) if len(every) == 1 else None
    if measured is not None:
        measured.changed(plan, loops[0], loops[0].descriptors)
        plan.warps, plan.stages, plan.resident = measured.warps, measured.stages, measured.resident(plan.resident)
    return plan


def pieces_of_sum(domain: Domain) -> int | None:
    """Into how many equal pieces the sum of a contraction is cut, a program each for every tile, whose sums a small kernel adds up: as many as
    take the least time. None for a domain that is no contraction alone; 1 where its schedule was measured, or sizes are not known."""
    every = found_in(domain)
    if len(every) != 1 or len(domain.inner) != 1 or len(domain.inner[0].sizes) != 1:
        return None
    found, plan, summed = every[0], contraction(domain), iterations(every[0].loop.sizes)
    rows, columns = (_size(domain, dims) for dims in (found.rows, found.columns))
    if plan is None:
        return None
    if summed is None or rows is None or columns is None:
        return 1
    if found.is_partial or cut_sum(found.loop.op) is not None or tuned_product(found.loop.op) is not None:
        return 1
    batch, sm_count, width = _size(domain, found.batch) or 1, domain.machine.sm_count, byte_width(found.x.element)
    (high, wide), step = plan.tile[-2:], plan.loops[0].step
    tiles, rate = batch * -(-rows // high) * -(-columns // wide), "product_rate_f32" if width == 4 else "product_rate"
    multiplied = 2 * high * wide * step * sm_count / value(MACHINE, rate)
    each = max(multiplied, (high + wide) * step * width / value(MACHINE, "program_rate"))

    def seconds(pieces: int) -> float:
        steps = -(-summed // (pieces * step)) + AROUND
        moved = 2 * pieces * batch * rows * columns * SUM if pieces > 1 else 0
        together = value(MACHINE, "launch") + moved / value(MACHINE, "memory_rate") if moved else 0
        return -(-tiles * pieces // sm_count) * steps * each + together

    most = min(2 * sm_count // tiles, summed // (step * LEAST_STEPS))
    aligned = VECTOR // width if summed * width % VECTOR == 0 else 1  # as rows of factors are, where they lie so
    return min((n for n in range(1, max(1, most) + 1) if summed % (n * aligned) == 0), key=seconds, default=1)


def found_in(domain: Domain) -> list[Contraction]:
    """The contractions of the same rows, columns and summed elements that a domain is, its columns those that results are stored along, its rows
    those that are in segments; nothing if it is something else."""
    if not domain.inner or domain.machine.capability < 80:
        return []
    counts = _counts(domain)
    stores = [access for access in domain.accesses if access.stores]
    loops = [loop for loop in domain.inner if loop not in counts]
    if any(loop.name != "bascule.reduce" or loop.kinds != ["sum"] or factors_of(loop.op) is None for loop in loops):
        return []
    if any(loop.op.parent.name == "scf.if" for loop in loops):  # each under a condition of rows and columns at once
        return []
    accesses = with_data(domain.body, domain.accesses)
    found = list[Contraction]()
    for loop in loops:
        cut = cut_sum(loop.op)
        each = contraction_of(loop, domain.indices, domain.sizes, accesses, None if cut is None else cut.factors)
        if cut is not None and (each is None or len(domain.inner) > 1 or not _is_of_batch(domain, each, cut)):
            return []
        if each is None or not each.rows or not each.columns or not _has_instructions(each, domain.machine.capability):
            return []
        if not counts and any(a.form.adjacent(domain.indices[row]) for a in stores for row in each.rows):
            each = each.swapped()
        found.append(each)
    alike = {(e.batch, e.rows, e.columns, e.x.element, e.is_exact, tuple(e.loop.sizes)) for e in found}
    return found if len(alike) == 1 and _are_cut(domain, list(counts.values()), found[0].rows) else []


def _is_of_batch(domain: Domain, found: Contraction, cut: CutSum) -> bool:
    """Whether a sum is cut alike for all rows and columns, and is longer than a step."""
    if not domain.body.dependence:
        domain.body.depend()
    sides = {domain.indices[place] for place in (*found.rows, *found.columns)}
    depends = {
        index for end in (cut.first, cut.end) for index in domain.body.dependence.get(domain.body.number(end), {})
    }
    return not depends & sides and (iterations(found.loop.sizes) or 0) > PIECE


def _take_in_turn(domain: Domain, every: Sequence[Contraction], plan: DomainPlan, piece: int) -> None:
    """Gives each multiprocessor one program, which takes tile after tile, where Triton can read the first pieces, of `piece` bytes, of the next
    while the last of one are multiplied: descriptors load all factors, a sum is one loop, and shared memory has room."""
    plans = [domain.plans[each.loop] for each in every]
    alone = plan.warps == 8 and all(len(plan.descriptors) == 2 and not plan.skip for plan in plans)
    *_, high, wide = plan.tile
    room = domain.machine.shared - BARRIERS - _passed(domain, every[0], high * wide, plan.warps)
    if alone and room >= LEAST_STAGES * piece:
        plan.programs, plan.stages = domain.machine.sm_count, min(plan.stages, room // piece)


def _take_half(domain: Domain, every: Sequence[Contraction], plan: DomainPlan) -> None:
    """Gives each multiprocessor two programs in place of one, with half of the largest tile each, where shared memory has room for both."""
    *batch, high, wide = plan.tile
    if len(every) * high * wide < HIGHEST * WIDEST:
        return
    half, warps = [*batch, min(high, HALF_SIDE), min(wide, HALF_SIDE // len(every))], plan.warps // 2
    piece = _piece(every, half, domain.plans[every[0].loop].step)
    room = domain.machine.shared // 2 - RESERVED - BARRIERS - _passed(domain, every[0], prod(half[-2:]), warps)
    if room >= LEAST_STAGES * piece:
        plan.tile, plan.warps, plan.stages = half, warps, min(plan.stages, room // piece)
        plan.resident, plan.programs = 2, 2 * plan.programs


def _specializes(domain: Domain, every: Sequence[Contraction], plan: DomainPlan) -> bool:
    """Whether a warp group can load for others: Triton 3.6 has that for one sum of matrices, whose rows it parts."""
    found, (*_, high, _) = every[0], plan.tile
    is_one = len(every) == 1 and len(domain.inner) == 1 and not found.is_partial and not found.batch
    has_tiles = high >= CONSUMERS * SMALL and byte_width(found.x.element) == NARROW
    return is_one and has_tiles and domain.machine.capability // 10 == SPECIALIZES


def _reads_more(domain: Domain) -> bool:
    """Whether something is read outside of the sums."""
    return any(len(access.loops) == 1 and not access.stores for access in domain.accesses)


def _passed(domain: Domain, found: Contraction, points: int, warps: int) -> int:
    """Bytes in shared memory, beside the steps, of what goes between the lanes of tensor cores and those of memory at the `points` of a tile: of
    16 bits a part at a time, else all of it. As Triton 3.6 has it."""
    width = max((access.width for access in _at_points(domain, found)), default=1)
    if width > NARROW or any(op.name == "bascule.random" for op in ops_in(domain.node.op)):
        return 4 * points
    return width * min((ROWS * warps) ** 2, points)


def _at_points(domain: Domain, found: Contraction) -> list[Access]:
    """Accesses outside of the sums, at each row and column."""
    sides = [[domain.indices[place] for place in places] for places in (found.rows, found.columns)]
    outside = [access for access in domain.accesses if len(access.loops) == 1]
    return [access for access in outside if all(any(map(access.form.varies, side)) for side in sides)]


def _counts(domain: Domain) -> dict[Node, Segments]:
    """The loops that count the segments before a row."""
    found = {loop: segments_of(loop.op) for loop in domain.inner}
    return {loop: segments for loop, segments in found.items() if segments is not None}


def _are_cut(domain: Domain, segments: Sequence[Segments], rows: Sequence[int]) -> bool:
    """Whether tiles of `rows` can lie in segments: in the same ones, of rows that are one index."""
    if not segments:
        return True
    forms = [form_of(each.reduce, []) for each in segments]
    places = [domain.indices[row] for row in rows]
    return all(form == forms[0] for form in forms) and places == [domain.body.number(segments[0].row)]


def _passes_registers(found: Contraction) -> bool:
    """Whether a factor goes from shared memory through registers, which turn it for TF32: tensor cores take those along what is summed. Two
    programs of a multiprocessor do so in turns."""
    last = found.loop.indices[-1]
    return (
        byte_width(found.x.element) == 4
        and not found.is_exact
        and not (found.x.adjacent(last) and found.y.adjacent(last))
    )


def _beside(domain: Domain, found: Contraction) -> int:
    """Tiles that registers hold beside the sums: 1 where several matrices are read at the point of the result, as a gradient's, else 0."""
    read = {domain.place(access) for access in _at_points(domain, found) if not access.stores}
    return 1 if len(read) > 1 else 0


def _has_instructions(found: Contraction, capability: int) -> bool:
    """Whether a GPU multiplies such elements: those of f32 as they are without tensor cores."""
    element = found.x.element
    return byte_width(element) in (2, 4) or capability >= (FLOAT8_SINCE if isinstance(element, ir.FloatType) else 80)


def _piece(every: Sequence[Contraction], tile: Sequence[int], step: int) -> int:
    """Bytes in shared memory of a step: what several multiply is there once."""
    sides = set[tuple]()
    for each in every:
        same = dict(zip(each.loop.indices, every[0].loop.indices))
        sides |= {(frozenset(side.reads(same)), size) for side, size in zip((each.x, each.y), tile[-2:])}
    return sum(size for _, size in sides) * step * byte_width(every[0].x.element)


def _size(domain: Domain, dims: Sequence[int]) -> int | None:
    return iterations([domain.sizes[dim] for dim in dims])


def step_of(summed: int, width: int, read: int, exact: bool = False) -> int:
    """The length of a step: a line of a factor that is multiplied in elements of `width` bytes, or read in ones of `read`; fewer where f32 is
    `exact`."""
    if exact:
        return IEEE_STEP
    return min(PIECE // min(width, read), max(LEAST_BYTES // width, power_of_two(summed)))


def tile_of(
    rows: int, columns: int, batch: int, sums: int, sm_count: int, segments: int = 1, exact: bool = False
) -> tuple[int, int]:
    """Rows and columns of a tile: the largest whose sums, so many for each element, registers hold, unless multiprocessors would have none; no
    higher than a segment is on average; small where f32 is `exact`."""
    highest, widest = (IEEE_SIDE, IEEE_SIDE) if exact else (HIGHEST, WIDEST)
    widest = max(LEAST, widest // power_of_two(sums))
    highest = min(highest, max(LEAST, power_of_two(rows // segments)))
    high, wide = (max(LEAST, min(most, power_of_two(n))) for most, n in ((highest, rows), (widest, columns)))
    while max(high, wide) > SMALL and batch * -(-rows // high) * -(-columns // wide) < sm_count:
        high, wide = (high, wide // 2) if wide > high else (high // 2, wide)
    return high, wide

"""Kernels that multiply few rows by the rows of matrices, and how they run on an NVIDIA GPU: as fast as the matrices are read.

Each point sums over rows that are read once, times what all points read. Measured on an H200.
"""

from ...analysis.bodies.body_tree import Node
from ...analysis.bodies.nested_loops import iterations
from .domains import Domain, DomainPlan
from .machine import VECTOR, WARP, CudaMachine, power_of_two

FEW = 16  # points of a loop over what several sums at a point give
THREAD, MOST_WARPS = 32, 8  # bytes of a row that a thread has, about; warps of a program
PADDED, TILES = 1.25, 6  # points of the tiles of a row over its own, at most; tiles
PROGRAM = 3072  # bytes that a program reads, at least: so many smaller ones take longer to start
TOGETHER = 4  # points of a program whose rows are several tiles, or are multiplied by several rows, which are read once for all of them
BUSY = 12  # points of a multiprocessor from which a program has more than one
HELD = 256  # bytes of the matrices that a thread holds, at most
SEVERAL_WARPS, SEVERAL_HELD = 4, 384  # the same, and warps, where matrices are multiplied by several rows


def summed(domain: Domain) -> int | None:
    """The length of the sums of a domain whose points only multiply rows of their own by shared ones, and store what comes of them; None for
    another kind of domain."""
    sums = [loop for loop in domain.inner if loop.name == "bascule.reduce"]
    lengths = {iterations(loop.sizes) for loop in sums}
    if len(lengths) != 1 or None in lengths or domain.points is None or not domain.indices:
        return None
    if not all(_multiplies(domain, loop) if loop in sums else _is_short(loop) for loop in domain.inner):
        return None
    return lengths.pop()


def _multiplies(domain: Domain, loop: Node) -> bool:
    """Whether a loop sums products of a row that memory runs along with one that all points read, and waits for no other loop."""
    if loop.kinds[0] != "sum" or loop.inner_loops() or domain.body.needs(loop, domain.inner):
        return False
    (*_, along) = loop.indices
    reads = [access for access in domain.accesses if loop in access.loops]
    own = [a for a in reads if any(map(a.form.varies, domain.indices))]
    shared = [a for a in reads if a.form.varies(along) and a not in own]
    return bool(own) and bool(shared) and all(a.form.adjacent(along) for a in own)


def _is_short(loop: Node) -> bool:
    return loop.name == "bascule.foreach" and not loop.inner_loops() and (iterations(loop.sizes) or FEW + 1) <= FEW


def products(domain: Domain) -> DomainPlan | None:
    """The schedule of a domain of such products; None for others, and for rows that a program's registers do not hold."""
    length, points = summed(domain), domain.points
    if length is None or points is None:
        return None
    sums = [loop for loop in domain.lanes if loop.name == "bascule.reduce"]
    own = [a for a in domain.accesses if a.loops[-1] in sums and any(map(a.form.varies, domain.indices))]
    matrices = {access.buffer: access.width for access in own}
    width = max(matrices.values())
    several = len(sums) > len(matrices)
    most_warps, most_held = (SEVERAL_WARPS, SEVERAL_HELD) if several else (MOST_WARPS, HELD)
    warps = min(most_warps, power_of_two(length * width // (WARP * THREAD) // 2 + 1))
    whole = length == power_of_two(length)
    tile = length if whole else WARP * warps * VECTOR // width
    padded = -(-length // tile) * tile
    if padded > PADDED * length or padded > TILES * tile:
        return None
    thread = padded * sum(matrices.values()) // (WARP * warps)
    if thread > HELD:
        return None
    together = _together(points, length * sum(matrices.values()), domain.machine, whole and not several)
    if whole and width < max(a.width for a in domain.accesses if a.loops[-1] in sums):
        together = max(together, _wider(points, domain.machine))
    while together > 1 and together * thread > most_held:
        together //= 2
    steps = {loop: _lanes(loop) for loop in domain.lanes} | dict.fromkeys(sums, tile)
    held: list[Node] = [] if whole else sums
    order = list(range(len(domain.indices)))
    return DomainPlan("row", order, [len(order)], [together], warps, loops=domain.plan(steps, held))


def _wider(points: int, machine: CudaMachine) -> int:
    """The points of a program where what all of them read is wider than their own: as many as read it from registers, and leave programs
    enough."""
    together = 1
    while together < TOGETHER and points >= 2 * together * BUSY * machine.sm_count:
        together *= 2
    return together


def _lanes(loop: Node) -> int:
    """The elements of registers that all points of a loop take."""
    count = iterations(loop.sizes)
    assert count is not None, "a loop of products has a length that is not known"
    return power_of_two(count)


def _together(points: int, row: int, machine: CudaMachine, alone: bool) -> int:
    """The points of a program, of `row` bytes each; `alone`: one, if those are enough."""
    busy = points >= BUSY * machine.sm_count
    together = 1 if alone or not busy else TOGETHER
    while busy and together * row < PROGRAM:
        together *= 2
    return together

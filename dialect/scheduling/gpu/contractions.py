"""How contractions run on an NVIDIA GPU's tensor cores: a tile of rows by columns in a program, a piece of what is summed in a step.

The sizes of tiles follow Triton's matrix products on sm_80 and later: a warp has 16 x 8 x 16 elements in an instruction, four warps together
64 rows on sm_90, and two operands' pieces of each stage lie in shared memory.
"""

from collections.abc import Sequence

from ...analysis.bodies.nested_loops import iterations
from ...analysis.products.contractions import Contraction, contraction_of
from ...ir.types import byte_width
from .domains import Domain, DomainPlan
from .machine import power_of_two

LEAST = 16  # rows, columns and elements summed of a tile, for an instruction of tensor cores
FEW_ROWS = 9  # rows or columns up to which a product is a sum of few rows' products, as fast as the matrix is read
PIECE = 128  # bytes of a row of a piece: a line
WIDEST, HIGHEST = 256, 128  # columns and rows of a tile, at most: f32 sums of two warp groups fill their registers
IEEE_SIDE, IEEE_STEP = 64, 16  # the same, and what is summed in a step, of f32, which no tensor core multiplies exactly
STAGES = 4  # pieces under way, at most
TOGETHER = 8  # tiles of rows whose programs follow each other over the columns: what they read stays in L2


def contraction(domain: Domain) -> DomainPlan | None:
    """The schedule of a domain whose one loop is a contraction for tensor cores; None for another domain."""
    found = found_in(domain)
    if found is None:
        return None
    rows, columns = (_size(domain, dims) for dims in (found.rows, found.columns))
    summed = iterations(found.loop.sizes)
    if rows is None or columns is None or summed is None or min(rows, columns) < FEW_ROWS or summed < LEAST:
        return None
    width = byte_width(found.x.element)
    step = IEEE_STEP if width == 4 else min(PIECE // width, max(LEAST, power_of_two(summed)))
    high, wide = _tile(domain, found, rows, columns)
    warps = 8 if high * wide > 128 * 128 else 4
    batch = list(found.batch)
    order = [*batch, *found.rows, *found.columns]
    axes = [1] * len(batch) + [len(found.rows), len(found.columns)]
    loops = domain.plan({found.loop: step})
    loops[0].dot = True
    plan = DomainPlan("contraction", order, axes, [1] * len(batch) + [high, wide], warps, loops=loops)
    piece = (high + wide) * step * width
    plan.stages = max(1, min(STAGES, domain.machine.shared // piece, -(-summed // step)))
    plan.group = TOGETHER
    return plan


def found_in(domain: Domain) -> Contraction | None:
    """The contraction that a domain is, its columns those that results are stored along."""
    if len(domain.inner) != 1 or domain.machine.capability < 80:
        return None
    found = contraction_of(domain.inner[0], domain.indices, domain.sizes, domain.accesses)
    if found is None or not found.rows or not found.columns:
        return None
    stores = [access for access in domain.accesses if access.stores]
    if any(a.form.adjacent(domain.indices[row]) for a in stores for row in found.rows):
        found = found.swapped()
    return found if byte_width(found.x.element) in (2, 4) else None


def _size(domain: Domain, dims: Sequence[int]) -> int | None:
    return iterations([domain.sizes[dim] for dim in dims])


def _tile(domain: Domain, found: Contraction, rows: int, columns: int) -> tuple[int, int]:
    """Rows and columns of a tile: the largest, unless multiprocessors would have none."""
    batch = _size(domain, found.batch) or 1
    highest, widest = (HIGHEST, WIDEST) if byte_width(found.x.element) == 2 else (IEEE_SIDE, IEEE_SIDE)
    high, wide = (max(LEAST, min(most, power_of_two(n))) for most, n in ((highest, rows), (widest, columns)))
    while high * wide > 64 * 64 and batch * -(-rows // high) * -(-columns // wide) < domain.machine.sm_count:
        high, wide = (high, wide // 2) if wide > high else (high // 2, wide)
    return high, wide

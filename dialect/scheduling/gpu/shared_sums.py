"""How sums of which many read the same run on an NVIDIA GPU: a program has all of those, and reads once for them."""

from ...analysis.bodies.body_tree import indices_of
from ...analysis.bodies.nested_loops import iterations
from ...analysis.bodies.shared_reads import AT_ONCE, reads_vary
from ...ir.shapes import constant
from .domains import Domain, DomainPlan
from .machine import WARP, power_of_two

ELEMENTS, EACH = 8192, 32  # of a step of a program, and those of them that a thread has
COLUMNS = 64  # of a program, at most, where memory runs along the domain
AHEAD = 3  # steps in flight


def shared(domain: Domain, across: bool) -> DomainPlan | None:
    """The schedule of a domain of nothing but sums whose reads do not vary with one of its indices; None for others. `across`: memory runs
    along the domain."""
    loops = domain.inner
    if not all(loop.name == "bascule.reduce" and not loop.inner_loops() for loop in loops):
        return None
    sizes = [constant(size) or 1 for size in domain.sizes]
    lengths = [iterations(loop.sizes) for loop in loops]
    reads = any(len(access.loops) > 1 and not access.stores for access in domain.accesses)
    if not loops or not reads or None in lengths:
        return None
    alike = [
        n
        for n, i in enumerate(indices_of(domain.node.op))
        if sizes[n] > 1 and not any(reads_vary(i, loop.op) for loop in loops)
    ]
    if not alike:
        return None
    chosen = max(alike, key=lambda n: sizes[n])
    order = [n for n in domain.order(domain.indices, domain.sizes) if n != chosen]
    rows = min(AT_ONCE, power_of_two(sizes[chosen]))
    columns = min(COLUMNS, power_of_two(sizes[order[-1]])) if across and order else 1
    step = max(1, ELEMENTS // (rows * columns))
    plans = domain.plan({loop: min(step, power_of_two(length or 1)) for loop, length in zip(loops, lengths)})
    elements = rows * columns * max(plan.step for plan in plans)
    warps = max(1, min(8, elements // (WARP * EACH)))
    if columns > 1:
        axes, tile = [len(order) - 1, 1, 1], [1, rows, columns]
        order = [*order[:-1], chosen, order[-1]]
        if axes[0] == 0:
            axes, tile = axes[1:], tile[1:]
    else:
        axes, tile = ([len(order), 1], [1, rows]) if order else ([1], [rows])
        order = [*order, chosen]
    return DomainPlan("row" if columns == 1 else "column", order, axes, tile, warps, stages=AHEAD, loops=plans)

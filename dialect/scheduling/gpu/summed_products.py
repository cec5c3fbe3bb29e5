"""How a sum of what is computed from contractions runs on an NVIDIA GPU's tensor cores: the gradient of a bias that many attentions share.

A program has a tile of rows by columns, and of what is summed over (the batch) a point in a step, in which each contraction is one `tt.dot`.
"""

from ...analysis.bodies.contractions import Contraction, contraction_of
from ...analysis.bodies.nested_loops import iterations
from ...ir.types import byte_width
from .contractions import LEAST
from .domains import Domain, DomainPlan
from .machine import power_of_two

ROWS, COLUMNS = 64, 64  # of a tile, at most: two contractions' sums and the total share a thread's registers
DEEPEST = 256  # elements that a contraction sums, at most: they are there at once
STAGES = 2  # points of the batch under way, at most


def summed_products(domain: Domain) -> DomainPlan | None:
    """The schedule of a domain whose one loop sums what is made of contractions of its rows by its columns; None for another domain."""
    found = found_in(domain)
    if not found:
        return None
    first = found[0]
    rows, columns = (iterations([domain.sizes[place] for place in places]) for places in (first.rows, first.columns))
    summed = [iterations(product.loop.sizes) or 0 for product in found]
    if rows is None or columns is None or min(rows, columns, *summed) < LEAST:
        return None
    deep = [power_of_two(n) for n in summed]
    if max(deep) > DEEPEST:
        return None
    high, wide = power_of_two(min(rows, ROWS)), power_of_two(min(columns, COLUMNS))
    batch = [place for place in range(len(domain.sizes)) if place not in (*first.rows, *first.columns)]
    loops = domain.plan({domain.inner[0]: 1, **{product.loop: n for product, n in zip(found, deep)}})
    for number, product in enumerate(loops[0].loops, len(domain.plans)):
        product.walk, product.dot = number, True  # each alone
    order = [*batch, *first.rows, *first.columns]
    axes = [1] * len(batch) + [len(first.rows), len(first.columns)]
    plan = DomainPlan("summed_products", order, axes, [1] * len(batch) + [high, wide], 4, loops=loops)
    piece = sum((high + wide) * n * byte_width(product.x.element) for product, n in zip(found, deep))
    plan.stages = max(1, min(STAGES, domain.machine.shared // piece, iterations(domain.inner[0].sizes) or STAGES))
    return plan


def found_in(domain: Domain) -> list[Contraction]:
    """The contractions of 16-bit numbers that an element of the domain's one sum is made of, all of the same rows and columns of the domain."""
    if len(domain.inner) != 1 or domain.machine.capability < 80:
        return []
    (loop,) = domain.inner
    if loop.name != "bascule.reduce" or loop.kinds != ["sum"] or len(loop.indices) != 1:
        return []
    indices, sizes = [*domain.indices, *loop.indices], [*domain.sizes, *loop.sizes]
    found = list[Contraction]()
    for inner in loop.inner_loops():
        product = contraction_of(inner, indices, sizes, domain.accesses)
        if product is None or byte_width(product.x.element) != 2:
            return []
        found.append(product.swapped() if product.rows > product.columns else product)
    if not found or any((each.rows, each.columns) != (found[0].rows, found[0].columns) for each in found):
        return []
    last, sides = len(indices) - 1, (found[0].rows, found[0].columns)
    return found if all(len(side) == 1 and last not in side for side in sides) else []

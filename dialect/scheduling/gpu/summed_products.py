"""How a sum of what is computed from contractions runs on an NVIDIA GPU's tensor cores: the gradient of a bias that many attentions share.

A program has a tile of rows by columns, and of what is summed over (the batch) a point in a step, in which each contraction is one `tt.dot`.
"""

from ...analysis.bodies.body_tree import Node
from ...analysis.bodies.nested_loops import iterations
from ...analysis.products.contractions import Contraction, contraction_of
from ...ir.types import byte_width
from .contractions import LEAST
from .domains import Domain, DomainPlan
from .machine import LARGE, power_of_two

ROWS, COLUMNS = 64, 64  # of a tile, at most: two contractions' sums and the total share a thread's registers
DEEPEST = 256  # elements that a contraction sums, at most: they are there at once
WIDTHS = (2, 4)  # bytes of a factor
STAGES = 2  # points of the batch under way, at most


def summed_products(domain: Domain) -> DomainPlan | None:
    """The schedule of a domain whose loops sum what is made of contractions of its rows by its columns; None for another domain."""
    found = found_in(domain)
    if not found:
        return None
    first = found[0][0]
    sides = (iterations([domain.sizes[place] for place in places]) for places in (first.rows, first.columns))
    rows, columns = (LARGE if size is None else size for size in sides)
    deep = {product.loop: power_of_two(iterations(product.loop.sizes) or 1) for each in found for product in each}
    if min(rows, columns, *deep.values()) < LEAST or max(deep.values()) > DEEPEST:
        return None
    high, wide = power_of_two(min(rows, ROWS)), power_of_two(min(columns, COLUMNS))
    batch = [place for place in range(len(domain.sizes)) if place not in (*first.rows, *first.columns)]
    loops = domain.plan({**dict.fromkeys(domain.inner, 1), **deep})
    for number, product in enumerate((inner for loop in loops for inner in loop.loops), len(domain.plans)):
        product.walk, product.dot = number, True  # each alone
    order = [*batch, *first.rows, *first.columns]
    axes = [1] * len(batch) + [len(first.rows), len(first.columns)]
    plan = DomainPlan("summed_products", order, axes, [1] * len(batch) + [high, wide], 4, loops=loops)
    piece = max(sum((high + wide) * deep[p.loop] * byte_width(p.x.element) for p in each) for each in found)
    plan.stages = max(1, min(STAGES, domain.machine.shared // piece))
    return plan


def found_in(domain: Domain) -> list[list[Contraction]]:
    """Of each loop of the domain, a sum, the contractions of numbers of 16 bits or f32 that what it adds is made of, all of the same rows and
    columns of the domain; nothing if some loop is something else."""
    if not domain.inner or domain.machine.capability < 80:
        return []
    found = [_contractions(domain, loop) for loop in domain.inner]
    sides = {(product.rows, product.columns) for each in found for product in each}
    return found if all(found) and len(sides) == 1 else []


def _contractions(domain: Domain, loop: Node) -> list[Contraction]:
    if loop.name != "bascule.reduce" or loop.kinds != ["sum"] or len(loop.indices) != 1:
        return []
    indices, sizes = [*domain.indices, *loop.indices], [*domain.sizes, *loop.sizes]
    found = list[Contraction]()
    for inner in loop.inner_loops():
        product = contraction_of(inner, indices, sizes, domain.accesses)
        if product is None or byte_width(product.x.element) not in WIDTHS:
            return []
        found.append(product.swapped() if product.rows > product.columns else product)
    last = len(indices) - 1
    plain = all(len(side) == 1 and last not in side for each in found for side in (each.rows, each.columns))
    return found if plain else []

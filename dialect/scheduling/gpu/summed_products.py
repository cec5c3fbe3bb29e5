"""How a sum of what is computed from contractions runs on an NVIDIA GPU's tensor cores: the gradient of a bias that many attentions share, or of
what each row of an attention's scores, or each of their columns, reads.

Over a batch: a program has a tile of rows by columns, and of what is summed over a point in a step, in which each contraction is one `tt.dot`.
Over columns: a program has a tile of rows, and walks the columns, a piece in a step.
"""

from ...analysis.bodies.body_tree import Node
from ...analysis.bodies.nested_loops import iterations
from ...analysis.products.contractions import Contraction, contraction_of
from ...analysis.products.segments import with_data
from ...ir.types import byte_width
from .attention import AT_ONCE, PIECE, WIDTHS, tile_of
from .attention import DEEPEST as LONGEST
from .contractions import LEAST
from .domains import Domain, DomainPlan
from .machine import LARGE, power_of_two
from .schedule_form import LoopSchedule

ROWS, COLUMNS = 64, 64  # of a tile, at most: two contractions' sums and the total share a thread's registers
DEEPEST = 256  # elements that a contraction sums over a batch, at most: they are there at once
STAGES = 2  # points of the batch, or pieces of the columns, under way, at most


def summed_products(domain: Domain) -> DomainPlan | None:
    """The schedule of a domain whose loops sum what is made of contractions of its rows by its columns, or whose one loop walks these; None for
    another domain."""
    over_columns = found_in_rows(domain)
    if over_columns:
        return _of_rows(domain, over_columns)
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
    _each_alone(domain, loops)
    order = [*batch, *first.rows, *first.columns]
    axes = [1] * len(batch) + [len(first.rows), len(first.columns)]
    plan = DomainPlan("summed_products", order, axes, [1] * len(batch) + [high, wide], 4, loops=loops)
    piece = max(sum((high + wide) * deep[p.loop] * byte_width(p.x.element) for p in each) for each in found)
    plan.stages = max(1, min(STAGES, domain.machine.shared // piece))
    return plan


def _of_rows(domain: Domain, found: list[Contraction]) -> DomainPlan | None:
    first, (loop,) = found[0], domain.inner
    sides = [domain.sizes[place] for place in first.rows], loop.sizes
    rows, columns = (LARGE if (size := iterations(side)) is None else size for side in sides)
    summed = [iterations(product.loop.sizes) or 0 for product in found]
    deep, width = max(map(power_of_two, summed)), byte_width(first.x.element)
    if min(rows, columns - 1, *summed) < LEAST or deep > LONGEST:
        return None
    # Without tensor cores threads hold factors beside the sums.
    most, of_step, warps = tile_of(width, first.is_exact, 2 * deep if first.is_exact else deep)
    high, step = power_of_two(min(rows, most)), min(of_step, power_of_two(columns) // 2)
    piece = min(deep, (AT_ONCE if deep * width <= AT_ONCE else PIECE) // width)
    loops = domain.plan({loop: step} | {each.loop: min(piece, power_of_two(n)) for each, n in zip(found, summed)})
    _each_alone(domain, loops)
    batch = [place for place in range(len(domain.sizes)) if place not in first.rows]
    axes = [*[1] * len(batch), len(first.rows)]
    plan = DomainPlan("summed_products", [*batch, *first.rows], axes, [*[1] * len(batch), high], warps, loops=loops)
    held, read = (len(found) * side * piece * width for side in (high, step))
    plan.stages = max(1, min(STAGES, (domain.machine.shared - held) // read))
    return plan


def _each_alone(domain: Domain, loops: list[LoopSchedule]) -> None:
    for number, product in enumerate((inner for loop in loops for inner in loop.loops), len(domain.plans)):
        product.walk, product.dot = number, True


def found_in(domain: Domain) -> list[list[Contraction]]:
    """Of each loop of the domain, a sum, the contractions of numbers of 16 bits or f32 that what it adds is made of, all of the same rows and
    columns of the domain; nothing if some loop is something else."""
    if not domain.inner or domain.machine.capability < 80:
        return []
    found = [_contractions(domain, loop) for loop in domain.inner]
    sides = {(product.rows, product.columns) for each in found for product in each}
    last = len(domain.indices)
    plain = all(len(side) == 1 and last not in side for each in sides for side in each)
    return found if plain and all(found) and len(sides) == 1 else []


def found_in_rows(domain: Domain) -> list[Contraction]:
    """The contractions of numbers of 16 bits or f32, all alike, that what the one loop of a domain sums is made of: of rows of the domain by the
    loop's points; nothing if it is something else."""
    if len(domain.inner) != 1 or domain.machine.capability < 80:
        return []
    found, last = _contractions(domain, domain.inner[0]), (len(domain.indices),)
    found = [each.swapped() if each.rows == last else each for each in found]
    alike = {(each.rows, each.columns, each.x.element, each.is_exact) for each in found}
    return found if len(alike) == 1 and found[0].rows and found[0].columns == last else []


def _contractions(domain: Domain, loop: Node) -> list[Contraction]:
    if loop.name != "bascule.reduce" or loop.kinds != ["sum"] or len(loop.indices) != 1:
        return []
    indices, sizes = [*domain.indices, *loop.indices], [*domain.sizes, *loop.sizes]
    found, accesses = list[Contraction](), with_data(domain.body, domain.accesses)
    for inner in loop.inner_loops():
        product = contraction_of(inner, indices, sizes, accesses)
        if product is None or byte_width(product.x.element) not in WIDTHS:
            return []
        found.append(product.swapped() if product.rows > product.columns else product)
    return found

"""Which factors of sums of products are loaded by tensor descriptors: the hardware copies a box in one instruction, where pointers take a number
of each thread and hold its registers meanwhile."""

from collections.abc import Sequence

from ...analysis.bodies.body_tree import Node
from ...analysis.products.contractions import Contraction, Operand
from ...analysis.products.cut_sums import read_factor
from ...analysis.products.descriptors import TensorDescriptor, descriptor_of
from ...analysis.products.segments import segment_numbers
from ...ir.shapes import expr
from .domains import Domain

SINCE = 90  # the compute capability that has them


def described(domain: Domain, found: Contraction) -> list[int]:
    """The factors of a contraction that are, by their number in the product."""
    if found.is_exact:
        return []
    sides = [(found.x, found.rows), (found.y, found.columns)]
    if any(domain.plans[loop].segments for loop in domain.inner) and not found.x.adjacent(found.loop.indices[-1]):
        # Memory runs along rows, whose tiles begin where data says: at no multiple of what the hardware asks for.
        del sides[0]
    batch = [[domain.indices[place]] for place in found.batch]
    runs = [(operand, [*batch, [domain.indices[place] for place in places]]) for operand, places in sides]
    return [number for operand, sides in runs for number in numbers(domain, found.loop, operand, sides)]


def numbers(domain: Domain, loop: Node, operand: Operand, runs: Sequence[Sequence[int]]) -> list[int]:
    """The number of a factor of what `loop` sums, if it is; `runs`: see `descriptor`."""
    found = [number for number in (0, 1) if read_factor(loop.op, number) == operand.value]
    return [] if isinstance(descriptor(domain, loop, operand, runs), str) else found


def descriptor(domain: Domain, loop: Node, operand: Operand, runs: Sequence[Sequence[int]]) -> TensorDescriptor | str:
    """That of a factor of what `loop` sums; or why it has none. `runs`: the indices of the batch, then those of the factor's rows."""
    if domain.machine.capability < SINCE:
        return f"sm_{domain.machine.capability} has no tensor descriptors"
    if domain.node is not domain.body.root:
        return "its domain is one of several of a launch"
    if operand.is_computed:
        return "it is computed, not read"
    (access,) = operand.accesses
    summed = [loop.indices[place] for place in domain.plans[loop].order]
    numbers = {domain.body.number(n): expr(count) for n, count in segment_numbers(access.indices).items()}
    runs = [*([number] for number in numbers), *runs, summed]
    return descriptor_of(access.form, runs, {**domain.body.sizes, **numbers}, access.width)

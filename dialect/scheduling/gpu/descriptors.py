"""Which factors of a contraction are loaded by tensor descriptors: the hardware copies a box in one instruction, where pointers take a number of
each thread and hold its registers meanwhile."""

from ...analysis.products.contractions import Contraction, Operand, factors_of
from ...analysis.products.descriptors import TensorDescriptor, descriptor_of
from .domains import Domain

SINCE = 90  # the compute capability that has them


def described(domain: Domain, found: Contraction) -> list[int]:
    """The factors that are, by their number in the product."""
    factors = factors_of(found.loop.op)
    assert factors is not None  # it is a contraction
    sides = {found.x.value: (found.x, found.rows), found.y.value: (found.y, found.columns)}
    return [n for n, factor in enumerate(factors) if not isinstance(descriptor(domain, found, *sides[factor]), str)]


def descriptor(domain: Domain, found: Contraction, operand: Operand, rows: tuple[int, ...]) -> TensorDescriptor | str:
    """That of a factor, which depends on the domain's indices at `rows`; or why it has none."""
    if domain.machine.capability < SINCE:
        return f"sm_{domain.machine.capability} has no tensor descriptors"
    if domain.node is not domain.body.root:
        return "its domain is one of several of a launch"
    if len(operand.accesses) != 1 or operand.value.owner != operand.accesses[0].op:
        return "it is computed, not read"
    (access,), loop = operand.accesses, found.loop
    sides = [*([place] for place in found.batch), rows]
    runs = [[domain.indices[place] for place in side] for side in sides]
    summed = [loop.indices[place] for place in domain.plans[loop].order]
    return descriptor_of(access.form, [*runs, summed], domain.body.sizes, access.width)

"""How kernels run on an NVIDIA GPU: the choice behind each key of `#bascule.schedule`."""

from ...analysis.affine.indexing import Indexing
from ...analysis.bodies.body_summary import Body, decode
from ...analysis.bodies.index_width import reach_of
from ...ir.shapes import size_map
from ...mlir import ir
from .attention import attention
from .columns import columns
from .contractions import contraction
from .domains import Domain, DomainPlan
from .few_row_products import products
from .machine import CudaMachine
from .pointwise import pointwise
from .rows import rows
from .schedule_form import KernelSchedule, to_attribute
from .shared_sums import shared
from .summed_products import summed_products
from .windows import windows

NARROW = (1 << 31) - (1 << 20)  # indices below have 32 bits: the last program's tile goes beyond, by less than 2**20


def cuda_schedule(kernel: ir.Operation, machine: CudaMachine, indexing: Indexing) -> ir.DictAttr:
    """The schedule of one `bascule.kernel`."""
    body = decode(kernel, indexing=indexing)
    group = _is_group(body)
    nodes = body.root.inner_loops() if group else [body.root]
    domains = [_schedule(Domain(body, node, machine)) for node in nodes]
    bits, narrow = _indices(kernel, indexing)
    schedule = KernelSchedule(
        domains,
        group,
        warps=max(domain.warps for domain in domains),
        stages=min(domain.stages for domain in domains),
        index_bits=bits,
        capability=machine.capability,
        narrow=narrow,
        resident=min(domain.resident for domain in domains),
        cluster=domains[0].cluster,
    )
    return to_attribute(schedule)


def _indices(kernel: ir.Operation, indexing: Indexing) -> tuple[int, ir.AffineMap | None]:
    """How wide indices are, and what decides whether narrow ones do."""
    reach = reach_of(kernel, indexing)
    if reach is None or reach.static >= NARROW:
        return 64, None
    return (64, size_map(reach.dynamic)) if reach.dynamic else (32, None)


def walked_loops(kernel: ir.Operation, machine: CudaMachine, indexing: Indexing) -> set[ir.Operation]:
    """The loops of a kernel that are longer than what its program holds at once."""
    body = decode(kernel, indexing=indexing)
    domains = [Domain(body, node, machine) for node in (body.root.inner_loops() if _is_group(body) else [body.root])]
    for domain in domains:
        _schedule(domain)
    return {loop.op for domain in domains for loop, plan in domain.plans.items() if plan.walks(loop.sizes)}


def _schedule(domain: Domain) -> DomainPlan:
    """By where memory runs: along the domain, or along the loops at its points."""
    if not domain.inner:
        return pointwise(domain)
    inside = sum(map(domain.bytes_along, domain.lanes))
    across = sum(domain.along[index] for index in domain.indices)
    if (schedule := contraction(domain) or attention(domain) or summed_products(domain)) is not None:
        return schedule
    if across > inside and (schedule := windows(domain)) is not None:
        return schedule
    if inside >= across and (schedule := products(domain)) is not None:
        return schedule
    if (schedule := shared(domain, across > inside)) is not None:
        return schedule
    return rows(domain) if not domain.indices or inside >= across else columns(domain)


def _is_group(body: Body) -> bool:
    """Whether the loops of a kernel without ranges are parallel domains."""
    inner = body.root.inner_loops()
    alone = not body.root.sizes and all(loop.name == "bascule.foreach" for loop in inner)
    return bool(inner) and alone and not any(node.name == "bascule.store" for node in body.block.nodes)

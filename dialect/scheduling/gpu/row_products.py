"""Kernels that multiply few rows by the rows of matrices: each point sums over rows that are read once, times what all points read."""

from ...analysis.bodies.body_tree import Node
from ...analysis.bodies.nested_loops import iterations
from .domains import Domain

FEW = 16  # points of a loop over what several sums at a point give


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

"""Kernels whose rows several programs of a GPU may share, as a cluster: each has its part of every loop, and reductions are exchanged."""

from ...analysis.bodies.body_tree import POSITIONS
from ...analysis.bodies.nested_loops import inner_loops
from ...ir.types import byte_width
from ...mlir import ir
from .domains import Domain, DomainPlan
from .machine import REGISTER, VECTOR, WARP, waste

SINCE, BEFORE = 90, 120  # compute capabilities that have clusters of more than one program
MOST = 8  # programs of one: what every GPU that has clusters runs
SHARED = ("bascule.reduce", "bascule.foreach", "bascule.compute")
WIDE = REGISTER  # bytes of a number of shared rows: of narrower ones the exchange takes longer than reading them again
WARPS, TOGETHER = (8, 16), 32  # of a program, and of those of a multiprocessor
# Elements of a tile; what whole tiles have of them over those that there are, if smaller ones can do it.
LEAST, PADDED = 1024, 1.1


def has(capability: int) -> bool:
    """Whether a GPU has clusters."""
    return SINCE <= capability < BEFORE


def unshared(kernel: ir.Operation) -> str | None:
    """Why programs cannot share the points of the domain of `kernel`, None if they can.

    What stands outside of loops all of them compute, and one stores. So nothing that a program stores may be read by another, and what loops
    leave has to be exchanged: 32 bits a number.
    """
    loops = inner_loops(kernel)
    for loop in loops:
        if loop.name not in SHARED or inner_loops(loop):
            return f"a {loop.name} " + ("around loops" if loop.name in SHARED else "is not cut into parts")
        if loop.name == "bascule.reduce" and not _exchanged(loop):
            return f"a reduction of kind '{loop.attributes['kind'].value}' of {loop.results[0].type}"
    if not any(loop.name == "bascule.reduce" for loop in loops):
        return "loops of which nothing is exchanged"
    accessed: dict[str, set[ir.Value]] = {"memref.load": set(), "bascule.store": set()}

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name in accessed:
            accessed[op.name].add(op.operands[0 if op.name == "memref.load" else 1])
        return ir.WalkResult.ADVANCE

    kernel.walk(visit)
    loaded, stored = accessed.values()
    return "a buffer that is read and stored to" if loaded & stored else None


def shared_rows(domain: Domain) -> DomainPlan | None:
    """The schedule of long rows that are read again, held in the registers of a cluster's programs. None where they do not fit, or are walked as
    fast."""
    lengths = {*domain.lengths}
    (length,) = lengths if len(lengths) == 1 else (None,)
    alone = domain.node is domain.body.root and domain.lanes == domain.inner
    written = any(loop.name == "bascule.foreach" for loop in domain.lanes)
    if not has(domain.machine.capability) or length is None or not alone or not written or unshared(domain.node.op):
        return None
    held = domain.read_again()
    part = -(-length // MOST)
    most = domain.machine.held // WIDE // TOGETHER  # numbers of a warp
    warps = next((warps for warps in WARPS if part * len(held) <= most * warps), None)
    if warps is None or {*held.values()} != {WIDE}:
        return None
    step = WARP * VECTOR // 2 * warps
    while step > LEAST and waste(part, step) > PADDED:
        step //= 2
    order = list(range(len(domain.indices)))
    axes, tile = ([len(order)], [1]) if order else ([], [])
    loops = domain.plan(dict.fromkeys(domain.lanes, step), domain.lanes)
    return DomainPlan("row", order, axes, tile, warps, 1, TOGETHER // warps, MOST, loops=loops)


def shared_by(kernel: ir.Operation) -> int:
    """How many programs share a point of the domain of `kernel`, as its schedule says; 1 without one."""
    config = ir.DictAttr(kernel.attributes["schedule"].config) if "schedule" in kernel.attributes else {}
    return config["cluster"].value if "cluster" in config else 1


def orders_of(kernel: ir.Operation) -> dict[ir.Operation, tuple[int, ...]]:
    """The order in which the schedule of `kernel` flattens the ranges of each loop directly in its domain."""
    loops = ir.DictAttr(kernel.attributes["schedule"].config)["loops"]
    return {loop: tuple(ir.DictAttr(keys)["order"]) for loop, keys in zip(inner_loops(kernel), loops)}


def _exchanged(reduce: ir.Operation) -> bool:
    if reduce.attributes["kind"].value in POSITIONS:  # which a state has, of any width
        return False
    type_ = reduce.results[0].type
    return byte_width(type_) == 4 or type_ == ir.IntegerType.get_signless(1)

"""A kernel's schedule as the lowering walks by it. Nothing is decided here: `schedule-kernels` has."""

from dataclasses import dataclass

from bascule.dialect.analysis.bodies.body_summary import Body
from bascule.dialect.analysis.bodies.body_tree import Node, sizes_of
from bascule.dialect.ir.shapes import constant
from bascule.dialect.mlir import ir
from bascule.dialect.scheduling.cpu.schedule_check import fitting
from bascule.dialect.scheduling.cpu.schedule_form import LoopSchedule, Tasks, from_attribute


@dataclass(frozen=True)
class LoopPlan:
    """`groups`: the ranges, adjacent ones that are walked as one together; `vector`: the group of the lanes, or -1."""

    sizes: tuple[ir.AffineExpr, ...]
    groups: tuple[tuple[int, ...], ...]
    vector: int
    width: int  # lanes; 1 without a vector group
    prefetch: int = 0  # bytes that reads along the lanes ask for memory ahead
    short: int = 0  # points along the lanes up to which they are those of one register


@dataclass
class Plan:
    """`kernel`: the plan of the domain; `tasks`: how loops that threads share are cut, None standing for the domain; `nontemporal`: numbers of
    the buffers whose stores go past the caches."""

    kernel: LoopPlan
    loops: dict[Node, LoopPlan]
    tasks: dict[Node | None, Tasks]
    nontemporal: frozenset[int]


def read_plan(kernel: ir.Operation, body: Body) -> Plan:
    """The plan that the schedule of `kernel` says; joins reductions of `body`. Raises `UserError` for a schedule that does not fit."""
    domain, loops = fitting(kernel, body)
    tasks = {node: loop.tasks for node, loop in ((None, domain), *loops.items()) if loop.tasks is not None}
    past = _only_stored(body) if from_attribute(kernel).nontemporal else frozenset()
    return Plan(_plan(kernel, domain), {node: _plan(node.op, loop) for node, loop in loops.items()}, tasks, past)


def _only_stored(body: Body) -> frozenset[int]:
    """Numbers of the buffers that nothing in the kernel reads: a line that was read is in the caches already."""
    stored, read = set[int](), set[int]()
    for access in body.accesses(body.root):
        combines = "mode" in access.op.attributes and access.op.attributes["mode"].value != "set"
        (read if combines or not access.stores else stored).add(body.numbers[access.buffer])
    return frozenset(stored - read)


def _plan(op: ir.Operation, loop: LoopSchedule) -> LoopPlan:
    return LoopPlan(tuple(sizes_of(op)), loop.groups, loop.vector, loop.lanes, loop.prefetch, loop.short)


def length(sizes: tuple[ir.AffineExpr, ...]) -> int | None:
    """The number of points of ranges of `sizes`, if it is known."""
    total = 1
    for size in sizes:
        number = constant(size)
        if number is None:
            return None
        total *= number
    return total

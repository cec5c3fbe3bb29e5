"""A schedule that does not fit its kernel would be wrong code: each way of that is refused."""

from dataclasses import replace

import pytest
from bascule.dialect.errors import UserError
from bascule.dialect.mlir import ir
from bascule.dialect.scheduling.cpu.schedule_check import fitting
from bascule.dialect.scheduling.cpu.schedule_form import KernelSchedule, LoopSchedule, Tasks, to_attribute

from tests.dialect.small_kernels import body_of, copied, foreach, kernel, load, mlir, row_sums, schedule, store

__all__ = ["mlir"]

TASKS = Tasks(blocked=0, block=96)
FLAT = LoopSchedule(((0, 1),), 0, 32, TASKS)


def fits(op: ir.Operation, domain: LoopSchedule, *loops: LoopSchedule):
    schedule(op, to_attribute(KernelSchedule(domain, loops)))
    return fitting(op, body_of(op))


def test_a_schedule_that_fits():
    domain, loops = fits(copied(7, 13), FLAT)
    assert (domain, loops) == (FLAT, {})
    inner = LoopSchedule(((0,),), 0, 16, prefetch=64)
    _, loops = fits(row_sums(5, 129), LoopSchedule(((0,),), -1, 1, Tasks(0, 1)), inner)
    assert list(loops.values()) == [inner]


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"groups": ((0,),)}, r"walks ranges \[0\], which are not all"),
        ({"groups": ((1, 0),)}, r"walks ranges \[1, 0\]"),
        ({"vector": 1}, "has lanes along group 1 of 1"),
        ({"lanes": 3}, "has 3 lanes along group 0"),
        ({"lanes": 1024}, "has 1024 lanes"),
        ({"vector": -1}, "has 32 lanes along group -1"),
        ({"tasks": None}, "has no tasks for its domain"),
        ({"tasks": replace(TASKS, block=97)}, "has blocks of 97 for 32 lanes"),
        ({"tasks": replace(TASKS, grain=0)}, "and grain 0"),
        ({"tasks": replace(TASKS, serial=(0,))}, "which is serial"),
        ({"tasks": replace(TASKS, blocked=-1)}, "but blocks along group -1"),
        ({"tasks": replace(TASKS, across=0, rows=16)}, "transposes reads along group 0"),
        ({"prefetch": 64}, "of a loop that threads share"),
        ({"prefetch": (1 << 20) + 1}, "1048577 bytes ahead"),
    ],
)
def test_a_domain_that_does_not_fit(changes, message):
    with pytest.raises(UserError, match=message):
        fits(copied(7, 13), replace(FLAT, **changes))


def test_ranges_that_memory_does_not_see_as_one():
    with pytest.raises(UserError, match="walks ranges 0 and 1 as one"):
        fits(copied(7, 13, transposed=True), FLAT)


def test_a_number_of_loops():
    with pytest.raises(UserError, match="is for 1 loops inside, here are 0"):
        fits(copied(7, 13), FLAT, LoopSchedule())
    with pytest.raises(UserError, match="joins loop 1 of 1"):
        fits(row_sums(5, 129), FLAT, LoopSchedule(joins=1))
    with pytest.raises(UserError, match="joins loop 0, which it cannot"):
        fits(row_sums(5, 129), FLAT, LoopSchedule(joins=0))


def test_lanes_inside_of_lanes():
    outer = LoopSchedule(((0,),), 0, 4, Tasks(0, 4))
    with pytest.raises(UserError, match="has lanes inside of lanes"):
        fits(row_sums(5, 129), outer, LoopSchedule(((0,),), 0, 16))


X, Y = "memref<7x13xf32>", "memref<19xf32>"
# Stores at i + j: neither index tells points apart.
MEETING = (
    load("%a", "%x", "%i, %j", X),
    "%p = affine.apply affine_map<(d0, d1) -> (d0 + d1)>(%i, %j)",
    store("%a", "%y", "%p", Y),
)


def test_threads_share_no_points_that_meet():
    op = kernel(f"%x: {X}, %y: {Y}", "%i, %j", "7, 13", *MEETING)
    groups = ((0,), (1,))
    with pytest.raises(UserError, match="shares points among threads that may store to one place"):
        fits(op, LoopSchedule(groups, -1, 1, Tasks(1, 4, (0,))))
    fits(op, LoopSchedule(groups, -1, 1, Tasks(-1, 1, (0, 1))))


def test_lanes_are_no_points_that_meet():
    op = kernel(f"%x: {X}, %y: {Y}", "", "", foreach("%i, %j", "7, 13", "\n".join(MEETING)))
    with pytest.raises(UserError, match="of which two points may store to one place"):
        fits(op, LoopSchedule(), LoopSchedule(((0,), (1,)), 1, 4))
    fits(op, LoopSchedule(), LoopSchedule(((0,), (1,))))


def test_a_loop_is_shared_or_its_kernel_is():
    x = "memref<7x13xf32>"
    loop = foreach("%j", "13", load("%a", "%x", "%i, %j", x) + "\n" + store("%a", "%y", "%i, %j", x))
    op = kernel(f"%x: {x}, %y: {x}", "%i", "7", loop)
    inner = LoopSchedule(((0,),), 0, 4, Tasks(0, 8))
    with pytest.raises(UserError, match="whose kernel is shared as a whole"):
        fits(op, LoopSchedule(((0,),), -1, 1, Tasks(0, 1)), inner)

"""Rows that several programs share: which kernels can, and what each program holds."""

from bascule.dialect.mlir import ir
from bascule.dialect.scheduling.gpu.clusters import has, orders_of, shared_by, shared_rows, unshared
from bascule.dialect.scheduling.gpu.machine import CudaMachine
from bascule.dialect.scheduling.gpu.schedule_form import (
    DomainSchedule,
    KernelSchedule,
    LoopSchedule,
    to_attribute,
)

from tests.dialect.small_kernels import (
    copied,
    domain_of,
    foreach,
    kernel,
    load,
    mlir,
    reduce,
    row_sums,
    scaled_rows,
    schedule,
    store,
)

__all__ = ["mlir"]


def test_capabilities_that_have_clusters():
    assert [has(capability) for capability in (89, 90, 119, 120)] == [False, True, True, False]


def test_eight_programs_hold_a_long_row():
    plan = shared_rows(domain_of(scaled_rows(5, 40001)))
    # A part has 5001 elements, 20 a thread of 8 warps; five tiles of 1024 are nearer to that than three of 2048.
    assert (plan.cluster, plan.warps, plan.resident, plan.tile) == (8, 8, 4, [1])
    assert [(loop.step, loop.held) for loop in plan.loops] == [(1024, True), (1024, True)]


def test_sixteen_warps_hold_twice_as_much_and_no_more():
    assert shared_rows(domain_of(scaled_rows(5, 8 * 40 * 32 * 8))).warps == 8
    assert shared_rows(domain_of(scaled_rows(5, 8 * 40 * 32 * 8 + 1))).warps == 16
    assert shared_rows(domain_of(scaled_rows(5, 8 * 40 * 32 * 16 + 1))) is None


def test_rows_that_are_not_shared():
    assert shared_rows(domain_of(scaled_rows(5, 40001), CudaMachine(108, 80, 1 << 16, 40 << 20))) is None
    assert shared_rows(domain_of(row_sums(5, 40001))) is None  # nothing is written along them


def test_why_programs_cannot_share():
    assert unshared(scaled_rows(5, 129)) is None
    assert unshared(copied(5, 129)) == "loops of which nothing is exchanged"
    x, y = "memref<5x129xf32>", "memref<5xi64>"
    best = reduce("%s", "%k", "129", load("%a", "%x", "%i, %k", x), "%a", kind="argmax")
    op = kernel(f"%x: {x}, %y: {y}", "%i", "5", best, store("%s", "%y", "%i", y, "i64"))
    assert unshared(op) == "a reduction of kind 'argmax' of i64"
    x, y = "memref<5x129xf64>", "memref<5xf64>"
    total = reduce("%s", "%k", "129", load("%a", "%x", "%i, %k", x), "%a", "f64")
    op = kernel(f"%x: {x}, %y: {y}", "%i", "5", total, store("%s", "%y", "%i", y, "f64"))
    assert unshared(op) == "a reduction of kind 'sum' of f64"


def test_a_buffer_that_is_read_and_stored_to():
    x = "memref<5x129xf32>"
    total = reduce("%s", "%k", "129", load("%a", "%x", "%i, %k", x), "%a")
    end = foreach("%k", "129", store("%s", "%x", "%i, %k", x))
    assert unshared(kernel(f"%x: {x}", "%i", "5", total, end)) == "a buffer that is read and stored to"


def test_loops_around_loops():
    x, y = "memref<5x7x13xf32>", "memref<5x7xf32>"
    total = reduce("%s", "%k", "13", load("%a", "%x", "%i, %j, %k", x), "%a")
    end = foreach("%j", "7", f"{total}\n{store('%s', '%y', '%i, %j', y)}")
    assert unshared(kernel(f"%x: {x}, %y: {y}", "%i", "5", end)) == "a bascule.foreach around loops"


def test_what_a_schedule_says_of_a_cluster():
    op = scaled_rows(5, 129)
    assert shared_by(op) == 1
    loops = (LoopSchedule((0,), 32), LoopSchedule((0,), 32))
    own = KernelSchedule([DomainSchedule("row", (0,), (1,), (1,), loops=loops)], False, 4, 1, 32, 90, cluster=4)
    schedule(op, to_attribute(own))
    assert shared_by(op) == 4
    assert list(orders_of(op).values()) == [(0,), (0,)]
    assert all(isinstance(loop, ir.Operation) for loop in orders_of(op))

"""Lanes of a CPU's vectors, and the ranges that threads share."""

import pytest
from bascule.dialect.mlir import ir
from bascule.dialect.scheduling.cpu.planner import CpuMachine, cpu_schedule
from bascule.dialect.scheduling.cpu.schedule_form import SCRATCH, KernelSchedule, from_attribute

from tests.dialect.small_kernels import (
    column_sums,
    copied,
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


def planned(op: ir.Operation, bits: int = 256) -> KernelSchedule:
    return from_attribute(schedule(op, cpu_schedule(op, CpuMachine(bits))))


@pytest.mark.parametrize(
    "rows, columns, bits, lanes",
    [
        (7, 13, 256, 32),  # four registers of eight
        (7, 13, 128, 16),
        (1, 13, 256, 16),  # not twice as many as there are
        (1, 8, 256, 8),
        (1, 2, 256, 2),
    ],
)
def test_lanes_of_a_copy(rows, columns, bits, lanes):
    domain = planned(copied(rows, columns), bits).domain
    assert (domain.vector, domain.lanes) == (0, lanes)
    assert (domain.tasks.blocked, domain.tasks.block) == (0, 8192)


def test_one_point_has_no_lanes():
    domain = planned(copied(1, 1)).domain
    assert (domain.groups, domain.vector, domain.lanes) == ((), -1, 1)


def test_wide_elements_have_half_of_the_lanes():
    x = "memref<1009xf64>"
    op = kernel(f"%x: {x}, %y: {x}", "%i", "1009", load("%a", "%x", "%i", x), store("%a", "%y", "%i", x, "f64"))
    assert planned(op).domain.lanes == 16


def test_lanes_of_row_sums_run_along_the_row():
    own = planned(row_sums(5, 129))
    (loop,) = own.loops
    assert (own.domain.vector, own.domain.lanes) == (-1, 1)
    assert (loop.vector, loop.lanes, loop.prefetch) == (0, 32, 2 * 4096)  # one row after another


def test_lanes_of_column_sums_run_along_the_columns():
    own = planned(column_sums(129, 37))
    assert (own.domain.vector, own.loops[0].vector) == (0, -1)


def test_a_row_that_is_read_twice():
    own = planned(scaled_rows(5, 129))
    assert [loop.vector for loop in own.loops] == [0, 0]
    assert own.domain.tasks.block == 1


def test_reads_along_other_lanes_are_transposed_tiles():
    own = planned(copied(257, 131, transposed=True)).domain
    assert (own.groups, own.tasks.rows, own.tasks.tile) == (((0,), (1,)), 32, SCRATCH)
    assert {own.vector, own.tasks.across} == {0, 1}


def test_points_that_meet_are_walked_in_order():
    x, y = "memref<131x13xf32>", "memref<13xf32>"
    op = kernel(f"%x: {x}, %y: {y}", "%i, %j", "131, 13", load("%a", "%x", "%i, %j", x), store("%a", "%y", "%j", y))
    own = planned(op).domain
    assert own.tasks.serial == (0,)
    assert own.vector in (-1, 1)


@pytest.mark.parametrize("columns, block", [(13, 0), (512, 128), (4096, 1024), (100_000, 1024)])
def test_a_tile_takes_pages_of_the_rows_that_it_walks(columns, block):
    """Not a column of memory, one line of each page; and no more than leaves threads a tile each. 0: one vector."""
    x, y = f"memref<131x{columns}xf32>", f"memref<{columns}xf32>"
    op = kernel(
        f"%x: {x}, %y: {y}", "%i, %j", f"131, {columns}", load("%a", "%x", "%i, %j", x), store("%a", "%y", "%j", y)
    )
    own = planned(op).domain
    assert (own.tasks.serial, own.tasks.blocked) == ((0,), 1)
    assert own.tasks.block == (block or own.lanes)


@pytest.mark.parametrize("length, shared", [(16_383, False), (16_384, True)])
def test_a_long_reduction_of_one_point_is_shared(length, shared):
    x, y = f"memref<{length}xf32>", "memref<f32>"
    total = reduce("%s", "%k", f"{length}", load("%a", "%x", "%k", x), "%a")
    own = planned(kernel(f"%x: {x}, %y: {y}", "", "", total, store("%s", "%y", "", y)))
    assert (own.loops[0].tasks is not None) == shared
    assert (own.domain.tasks is None) == shared
    if shared:
        assert own.loops[0].tasks.block == 32_768


def test_siblings_are_joined():
    x, y = "memref<5x129xf32>", "memref<5xf32>"
    sums = [
        reduce(name, "%k", "129", load("%a", "%x", "%i, %k", x), "%a", kind=kind)
        for name, kind in (("%s", "sum"), ("%t", "max"))
    ]
    ends = store("%s", "%u", "%i", y), store("%t", "%v", "%i", y)
    own = planned(kernel(f"%x: {x}, %u: {y}, %v: {y}", "%i", "5", *sums, *ends))
    assert [loop.joins for loop in own.loops] == [-1, 0]


@pytest.mark.parametrize(
    "cache, past", [(1 << 20, False), (1 << 17, True), (4 * 64 * 1024, True), (4 * 64 * 1024 + 4, False)]
)
def test_stores_go_past_caches_that_what_is_touched_fills_by_half(cache, past):
    op = copied(64, 256)  # 128 KiB, read and stored
    schedule_ = from_attribute(schedule(op, cpu_schedule(op, CpuMachine(256, cache))))
    assert schedule_.nontemporal == past


def test_tensors_of_unknown_size_stay_in_caches():
    x = "memref<?xf32>"
    op = kernel(f"%n: index, %x: {x}, %y: {x}", "%i", "s0", load("%a", "%x", "%i", x), store("%a", "%y", "%i", x))
    assert not from_attribute(schedule(op, cpu_schedule(op, CpuMachine(256, 1 << 16)))).nontemporal

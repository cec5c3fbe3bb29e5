"""Column schedules: a tile of columns, some rows of it at a time."""

import pytest
from bascule.dialect.scheduling.gpu.columns import columns

from tests.dialect.small_kernels import column_sums, domain_of, foreach, kernel, load, mlir, reduce, store

__all__ = ["mlir"]


def test_a_tile_of_columns_in_steps():
    plan = columns(domain_of(column_sums(999, 257)))
    (loop,) = plan.loops
    # 64 columns a program would leave multiprocessors idle: 16, in steps of 512 rows, as a column is four of 256.
    assert (plan.kind, plan.axes, plan.tile) == ("column", [1], [16])
    assert (loop.step, loop.fold, plan.warps) == (512, 1, 16 * 512 // 32 // 32)
    assert plan.stages == 1  # rows of 257 elements begin anywhere


def test_many_columns_have_whole_cache_lines():
    plan = columns(domain_of(column_sums(999, 70_001)))
    assert plan.tile == [64]
    assert (plan.loops[0].step, plan.warps) == (4096 // 64, 4)
    fewer = columns(domain_of(column_sums(999, 20_011)))  # 313 programs: larger ones keep multiprocessors as busy
    assert (fewer.loops[0].step, fewer.warps) == (8192 // 64, 8)


def test_aligned_columns_load_four_elements_at_once():
    plan = columns(domain_of(column_sums(999, 20_012)))
    assert plan.loops[0].fold == 4


def test_short_columns_run_point_by_point():
    plan = columns(domain_of(column_sums(16, 257)))
    assert (plan.kind, plan.tile, plan.warps) == ("column", [256], 1)
    assert plan.loops[0].step == 1
    assert columns(domain_of(column_sums(17, 257))).loops[0].step == 32


def test_columns_that_are_read_again_are_held():
    """y[k, j] = x[k, j] times the sum of x[:, j]."""
    x = "memref<201x257xf32>"
    total = reduce("%s", "%k", "201", load("%a", "%x", "%k, %j", x), "%a")
    body = (load("%a", "%x", "%k, %j", x), "%b = arith.mulf %a, %s : f32", store("%b", "%y", "%k, %j", x))
    op = kernel(f"%x: {x}, %y: {x}", "%j", "257", total, foreach("%k", "201", "\n".join(body)))
    plan = columns(domain_of(op))
    assert [loop.step for loop in plan.loops] == [256, 256]
    assert (plan.tile, plan.warps) == ([16], 256 * 16 // 32 // 32)


def test_a_program_of_few_columns_has_many_rows_on_their_way():
    plan = columns(domain_of(column_sums(3584, 96)))
    assert (plan.tile, plan.loops[0].step, plan.warps) == ([16], 1024, 16)  # six programs, which wait four times
    assert columns(domain_of(column_sums(3584, 20_012))).loops[0].step == 128


def test_sums_of_few_columns_walk_together():
    x, v = "memref<3584x96xf32>", "memref<96xf32>"
    sums = [reduce(f"%s{n}", "%k", "3584", load("%a", f"%{n}", "%k, %j", x), "%a") for n in "xy"]
    ends = [store(f"%s{n}", f"%{n}s", "%j", v) for n in "xy"]
    op = kernel(f"%x: {x}, %y: {x}, %xs: {v}, %ys: {v}", "%j", "96", *sums, *ends)
    plan = columns(domain_of(op))
    assert [(loop.walk, loop.step) for loop in plan.loops] == [(0, 1024), (0, 1024)]


@pytest.mark.parametrize("work, step", [("arith.negf", 64), ("math.exp", 16)])
def test_functions_are_computed_of_few_masked_elements(work, step):
    """Of a column of 98, two steps of 64 rows have 30 too many, seven of 16 have 14."""
    body = load("%a", "%x", "%k, %j", "memref<98x20480xf32>") + f"\n%b = {work} %a : f32"
    total = reduce("%s", "%k", "98", body, "%b"), store("%s", "%y", "%j", "memref<20480xf32>")
    op = kernel("%x: memref<98x20480xf32>, %y: memref<20480xf32>", "%j", "20480", *total)
    assert columns(domain_of(op)).loops[0].step == step

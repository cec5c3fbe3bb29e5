"""Row schedules: what is held in registers at once, in several tiles, or read in steps."""

import pytest
from bascule.dialect.scheduling.gpu.rows import rows

from tests.dialect.small_kernels import domain_of, kernel, load, mlir, reduce, row_sums, scaled_rows, store

__all__ = ["mlir"]


@pytest.mark.parametrize(
    "count, length, tile, warps, step, held",
    [
        (5, 129, 1, 1, 256, False),  # one tile
        (5, 1, 1, 1, 1, False),
        (5, 1025, 1, 1, 256, True),  # five tiles of 256 have fewer points than one of 2048
        (100_003, 129, 8, 2, 256, False),  # 2048 elements a program
        (0, 129, 1, 1, 256, False),
    ],
)
def test_rows_that_fit(count, length, tile, warps, step, held):
    plan = rows(domain_of(row_sums(count, length)))
    (loop,) = plan.loops
    assert (plan.kind, plan.tile, plan.warps, plan.stages) == ("row", [tile], warps, 1)
    assert (loop.step, loop.held) == (step, held)


@pytest.mark.parametrize(
    "length, warps, step, fold",
    [
        (100_003, 4, 4 * 32 * 16, 1),  # begins anywhere: a thread loads one element
        (100_004, 8, 8 * 32 * 16, 4),  # 64 bytes of a thread in flight
        (16_387, 4, 4 * 32 * 16, 1),
    ],
)
def test_rows_in_steps(length, warps, step, fold):
    plan = rows(domain_of(row_sums(1000, length)))
    (loop,) = plan.loops
    assert (plan.tile, plan.warps, loop.step, loop.fold, loop.kept) == ([1], warps, step, fold, 0)
    assert loop.evict == "normal"


def test_a_program_of_few_rows_has_a_multiprocessor_to_itself():
    plan = rows(domain_of(row_sums(132, 100_003)))
    assert (plan.warps, plan.loops[0].step) == (32, 32 * 32 * 16)
    assert rows(domain_of(row_sums(133, 100_003))).warps == 4


def test_long_rows_that_are_read_again_are_shared():
    assert rows(domain_of(scaled_rows(5, (1 << 16) + 1))).cluster == 8
    assert rows(domain_of(scaled_rows(5, (1 << 16) - 1))).cluster == 1  # 4 bytes less than half of the cache's share


def test_rows_of_a_dynamic_length_are_walked():
    x, y = "memref<1000x?xf32, affine_map<(d0, d1)[s0] -> (d0 * s0 + d1)>>", "memref<1000xf32>"
    total = reduce("%s", "%k", "s0", load("%a", "%x", "%i, %k", x), "%a")
    op = kernel(f"%s0: index, %x: {x}, %y: {y}", "%i", "1000", total, store("%s", "%y", "%i", y))
    domain = domain_of(op)
    plan = rows(domain)
    assert plan.loops[0].walks(domain.inner[0].sizes)
    assert plan.loops[0].step == plan.warps * 32 * 16


def test_a_scan_is_read_ahead():
    x, row = "memref<7x5003xf32>", "tensor<5003xf32>"
    scan = f"""%r = "bascule.scan"() ({{
    ^bb0(%k: index):
      {load("%a", "%x", "%i, %k", x)}
      "bascule.yield"(%a) : (f32) -> ()
    }}) {{kind = "sum", dim = 0 : i64, ranges = affine_map<() -> (5003)>}} : () -> {row}
    "bascule.foreach"() ({{
    ^bb0(%k: index):
      %b = tensor.extract %r[%k] : {row}
      {store("%b", "%y", "%i, %k", x)}
      "bascule.yield"() : () -> ()
    }}) {{ranges = affine_map<() -> (5003)>}} : () -> ()"""
    plan = rows(domain_of(kernel(f"%x: {x}, %y: {x}", "%i", "7", scan)))
    assert plan.kind == "scan"
    assert plan.loops[0].step == 8192  # the row fits, and is one step

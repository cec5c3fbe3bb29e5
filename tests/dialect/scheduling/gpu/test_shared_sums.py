"""Sums of which many read the same: a program has all of them."""

from bascule.dialect.scheduling.gpu.shared_sums import shared

from tests.dialect.small_kernels import domain_of, foreach, kernel, load, mlir, reduce, row_sums, store

__all__ = ["mlir"]

CHOSEN = """{load}
%e = arith.index_cast %r : index to i32
%f = arith.sitofp %e : i32 to f32
%c = arith.mulf %a, %f : f32"""


def sums(rows: int, length: int):
    """y[r] = the sum of x[k] * r: what is read does not depend on r."""
    x, y = f"memref<{length}xf32>", f"memref<{rows}xf32>"
    total = reduce("%s", "%k", f"{length}", CHOSEN.format(load=load("%a", "%x", "%k", x)), "%c")
    return kernel(f"%x: {x}, %y: {y}", "%r", f"{rows}", total, store("%s", "%y", "%r", y))


def test_a_program_has_all_rows():
    plan = shared(domain_of(sums(11, 1009)), across=False)
    assert (plan.kind, plan.axes, plan.tile, plan.order) == ("row", [1], [16], [0])
    assert ([loop.step for loop in plan.loops], plan.warps, plan.stages) == ([512], 8, 3)


def test_a_program_has_at_most_64_rows_and_short_sums_few_warps():
    plan = shared(domain_of(sums(101, 37)), across=False)
    assert (plan.tile, [loop.step for loop in plan.loops], plan.warps) == ([64], [64], 4)


def test_columns_beside_shared_rows():
    """y[r, j] = the sum of x[k, j] * r."""
    x, y = "memref<1009x37xf32>", "memref<11x37xf32>"
    total = reduce("%s", "%k", "1009", CHOSEN.format(load=load("%a", "%x", "%k, %j", x)), "%c")
    op = kernel(f"%x: {x}, %y: {y}", "%r, %j", "11, 37", total, store("%s", "%y", "%r, %j", y))
    plan = shared(domain_of(op), across=True)
    assert (plan.kind, plan.order, plan.axes, plan.tile) == ("column", [0, 1], [1, 1], [16, 64])
    assert plan.loops[0].step == 8192 // (16 * 64)


def test_none_for_other_domains():
    assert shared(domain_of(row_sums(11, 1009)), across=False) is None  # each row reads its own
    assert shared(domain_of(sums(1, 1009)), across=False) is None
    x, y = "memref<1009xf32>", "memref<11x1009xf32>"
    end = foreach("%k", "1009", load("%a", "%x", "%k", x) + "\n" + store("%a", "%y", "%r, %k", y))
    assert shared(domain_of(kernel(f"%x: {x}, %y: {y}", "%r", "11", end)), across=False) is None

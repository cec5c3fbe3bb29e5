"""Products of a row by a matrix: which kernels are such, and the rows of the matrix that a program has."""

import pytest
from bascule.dialect.scheduling.gpu.few_row_products import products, summed

from tests.dialect.small_kernels import column_sums, domain_of, kernel, load, mlir, reduce, row_sums, store

__all__ = ["mlir"]


def product(rows: int, length: int, kind: str = "sum"):
    """y[n] = the sum of x[k] * w[n, k]."""
    x, w, y = f"memref<{length}xf32>", f"memref<{rows}x{length}xf32>", f"memref<{rows}xf32>"
    body = (load("%a", "%x", "%k", x), load("%b", "%w", "%n, %k", w), "%c = arith.mulf %a, %b : f32")
    total = reduce("%s", "%k", f"{length}", "\n".join(body), "%c", kind=kind)
    return kernel(f"%x: {x}, %w: {w}, %y: {y}", "%n", f"{rows}", total, store("%s", "%y", "%n", y))


def test_the_length_of_sums_of_products():
    assert summed(domain_of(product(257, 1009))) == 1009
    assert summed(domain_of(product(257, 1009, "max"))) is None
    assert summed(domain_of(row_sums(257, 1009))) is None  # nothing is read by all points
    assert summed(domain_of(column_sums(1009, 257))) is None


def test_a_sum_along_columns_of_the_matrix_is_none():
    x, w, y = "memref<1009xf32>", "memref<1009x257xf32>", "memref<257xf32>"
    body = (load("%a", "%x", "%k", x), load("%b", "%w", "%k, %n", w), "%c = arith.mulf %a, %b : f32")
    total = reduce("%s", "%k", "1009", "\n".join(body), "%c")
    assert (
        summed(domain_of(kernel(f"%x: {x}, %w: {w}, %y: {y}", "%n", "257", total, store("%s", "%y", "%n", y)))) is None
    )


@pytest.mark.parametrize(
    "rows, length, tile, warps, step, held",
    [
        (257, 1009, 1, 2, 256, True),  # 4036 bytes: two warps of 32 bytes a thread, half of them at once
        (257, 1024, 1, 4, 1024, False),  # one tile
        (1583, 1009, 1, 2, 256, True),
        (1584, 1009, 4, 2, 256, True),  # twelve rows a multiprocessor
        (1584, 1024, 1, 4, 1024, False),
        (1584, 512, 2, 2, 512, False),  # 2 KiB are too little for a program
    ],
)
def test_rows_of_a_program(rows, length, tile, warps, step, held):
    plan = products(domain_of(product(rows, length)))
    (loop,) = plan.loops
    assert (plan.kind, plan.tile, plan.warps, loop.step, loop.held) == ("row", [tile], warps, step, held)


def test_rows_that_tiles_fill_badly_are_left_to_others():
    assert products(domain_of(product(257, 129))) is None  # 129 of 256
    assert products(domain_of(product(257, 1 << 15))) is None  # more than registers hold

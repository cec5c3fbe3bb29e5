"""Contractions: which loops are, and on what their factors depend."""

import pytest
from bascule.dialect.analysis.products.contractions import contraction_of

from tests.dialect.small_kernels import column_sums, domain_of, kernel, load, mlir, product, reduce, row_sums, store

__all__ = ["mlir"]

X, Y, Z = "memref<100x64xbf16>", "memref<30x64xbf16>", "memref<100x30xf32>"


def found_in(op):
    domain = domain_of(op)
    return contraction_of(domain.inner[0], domain.indices, domain.sizes, domain.accesses)


def dims(op):
    found = found_in(op)
    return found and (found.batch, found.rows, found.columns, str(found.x.element))


@pytest.mark.parametrize(
    ("x", "y", "z", "at", "sizes", "wanted"),
    [
        ("100x64 : %m, %k", "64x30 : %k, %n", "100x30 : %m, %n", "%m, %n", "100, 30", ((), (0,), (1,))),
        ("100x64 : %m, %k", "30x64 : %n, %k", "100x30 : %m, %n", "%m, %n", "100, 30", ((), (0,), (1,))),
        ("30x64 : %n, %k", "100x64 : %m, %k", "100x30 : %m, %n", "%m, %n", "100, 30", ((), (1,), (0,))),
        ("7x9x64 : %i, %j, %k", "30x64 : %n, %k", "7x9x30 : %i, %j, %n", "%i, %j, %n", "7, 9, 30", ((), (0, 1), (2,))),
        (
            "5x9x64 : %i, %m, %k",
            "5x64x30 : %i, %k, %n",
            "5x9x30 : %i, %m, %n",
            "%i, %m, %n",
            "5, 9, 30",
            ((0,), (1,), (2,)),
        ),
        ("1x64 : %m, %k", "64x30 : %k, %n", "1x30 : %m, %n", "%m, %n", "1, 30", ((0,), (), (1,))),
    ],
    ids=["mm", "linear", "exchanged", "rows of two dims", "bmm", "one row"],
)
def test_the_indices_of_products(x, y, z, at, sizes, wanted):
    assert dims(product(x, y, z, at, sizes, 64)) == (*wanted, "bf16")


def test_operands_exchanged():
    found = found_in(product("100x64 : %m, %k", "30x64 : %n, %k", "100x30 : %m, %n", "%m, %n", "100, 30", 64))
    other = found.swapped()
    assert (other.x, other.rows, other.columns) == (found.y, found.columns, found.rows)


def scaled(scale, kind="sum"):
    """A product whose first factor is what the lines `scale` make of %a, %aw of bf16."""
    lines = [load("%r", "%x", "%m, %k", X), "%a = arith.extf %r : bf16 to f32", *scale]
    lines += [load("%q", "%y", "%n, %k", Y), "%b = arith.extf %q : bf16 to f32", "%c = arith.mulf %f, %b : f32"]
    total = reduce("%s", "%k", "64", "\n".join(lines), "%c", kind=kind)
    arguments = f"%x: {X}, %y: {Y}, %g: memref<64xf32>, %h: memref<100xf32>, %z: {Z}"
    before = load("%o", "%h", "%m", "memref<100xf32>")
    return kernel(arguments, "%m, %n", "100, 30", before, total, store("%s", "%z", "%m, %n", Z))


def test_a_factor_that_is_computed_from_what_is_read():
    weighted = [load("%w", "%g", "%k", "memref<64xf32>"), "%f = arith.mulf %a, %w : f32"]
    found = found_in(scaled(weighted))
    assert (found.rows, found.columns, str(found.x.element)) == ((0,), (1,), "f32") and len(found.x.accesses) == 2


def test_a_factor_that_is_scaled_by_what_is_read_before_the_loop():
    found = found_in(scaled(["%f = arith.mulf %a, %o : f32"]))
    assert (found.rows, found.columns) == ((0,), (1,)) and len(found.x.accesses) == 2 and found.x.is_computed


@pytest.mark.parametrize(
    "scale",
    [
        ["%f = arith.mulf %o, %o : f32"],
        [
            "%i = arith.index_cast %n : index to i32",
            "%j = arith.sitofp %i : i32 to f32",
            "%f = arith.addf %a, %j : f32",
        ],
    ],
    ids=["values from around the loop alone", "an index that becomes a number"],
)
def test_a_factor_of_other_than_what_is_read_is_none(scale):
    assert found_in(scaled(scale)) is None


def test_other_loops_are_none():
    assert found_in(scaled(["%f = arith.addf %a, %a : f32"], kind="max")) is None
    assert found_in(row_sums(40, 50)) is None and found_in(column_sums(40, 50)) is None

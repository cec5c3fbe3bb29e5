"""Which loops of a program are walked together, which go along with another, and what they ask of the cache."""

import pytest

from tests.dialect.small_kernels import domain_of, foreach, kernel, load, mlir, reduce, scaled_rows, store

__all__ = ["mlir"]

X, V = "memref<5x257xf32>", "memref<5xf32>"


def two_sums(other: str):
    """The sums of the rows of x, and of those of `other`."""
    first = reduce("%s", "%k", "257", load("%a", "%x", "%i, %k", X), "%a")
    second = reduce("%t", "%k", "257", load("%a", other, "%i, %k", X), "%a", kind="max")
    ends = store("%s", "%u", "%i", V), store("%t", "%v", "%i", V)
    return kernel(f"%x: {X}, %y: {X}, %u: {V}, %v: {V}", "%i", "5", first, second, *ends)


@pytest.mark.parametrize("other, walks", [("%x", [0, 0]), ("%y", [0, 1])])
def test_loops_that_read_one_buffer_walk_together(other, walks):
    domain = domain_of(two_sums(other))
    assert [plan.walk for plan in domain.plan(dict.fromkeys(domain.inner, 128))] == walks


def test_held_reductions_meet_once():
    domain = domain_of(two_sums("%y"))
    assert [plan.walk for plan in domain.plan(dict.fromkeys(domain.inner, 512))] == [0, 0]


def test_loops_of_other_steps_do_not():
    domain = domain_of(two_sums("%x"))
    first, second = domain.inner
    assert [plan.walk for plan in domain.plan({first: 128, second: 64})] == [0, 1]


def test_rows_that_are_walked_again_stay_in_the_cache():
    domain = domain_of(scaled_rows(5, 257))
    plans = domain.plan(dict.fromkeys(domain.inner, 128))
    assert [(plan.walk, plan.evict) for plan in plans] == [(0, "last"), (1, "first")]  # the second needs the first
    assert [plan.evict for plan in domain.plan(dict.fromkeys(domain.inner, 512))] == ["normal", "normal"]


@pytest.mark.parametrize("rows, along", [("7", 0), ("6", -1)])
def test_sums_of_columns_go_along_with_rows_of_their_length(rows, along):
    """Chunk i of x has rows r and columns c: each row is summed, and each column over `rows` of them."""
    x, u, v = "memref<5x7x13xf32>", "memref<5x7xf32>", "memref<5x13xf32>"
    row = reduce("%s", "%c", "13", load("%a", "%x", "%i, %r, %c", x), "%a") + "\n" + store("%s", "%u", "%i, %r", u)
    column = reduce("%s", "%r", rows, load("%a", "%x", "%i, %r, %c", x), "%a") + "\n" + store("%s", "%v", "%i, %c", v)
    op = kernel(f"%x: {x}, %u: {u}, %v: {v}", "%i", "5", foreach("%r", "7", row), foreach("%c", "13", column))
    domain = domain_of(op)
    each_row, each_column = domain.inner
    (summed,) = each_row.inner_loops()
    plans = domain.plan({summed: 16, each_column: 16})
    assert [plan.along for plan in plans] == [-1, along]

"""Which ranges of a loop are walked as one, which points may meet at one place, which reads run along memory."""

import pytest
from bascule.dialect.scheduling.cpu.loop_legality import (
    colliding,
    group_ranges,
    length,
    moving_reads,
    reads_along,
    slice_of,
)

from tests.dialect.small_kernels import body_of, copied, kernel, load, mlir, row_sums, store

__all__ = ["mlir"]


@pytest.mark.parametrize(
    "rows, columns, transposed, groups",
    [
        (7, 13, False, ((0, 1),)),
        (7, 13, True, ((0,), (1,))),
        (1, 13, True, ((1,),)),  # the index of a range of 1 is 0
        (1, 1, False, ()),
    ],
)
def test_ranges_that_are_walked_as_one(rows, columns, transposed, groups):
    body = body_of(copied(rows, columns, transposed))
    assert group_ranges(body, body.block) == groups


@pytest.mark.parametrize(
    "steps, places, groups",
    [
        (("s0 * s1", "s1"), "%i, %j, %k", ((0, 1, 2),)),  # row by row, without gaps
        (("s1 * s0", "s1"), "%i, %j, %k", ((0, 1, 2),)),
        (("s0 * s1 + 8", "s1"), "%i, %j, %k", ((0,), (1, 2))),
        (("s0 * s2", "s2"), "%i, %j, %k", ((0, 1), (2,))),  # rows that are longer than what is read of them
        (("s1", "s0 * s1"), "%i, %j, %k", ((0,), (1,), (2,))),
        (("s0 * s1", "s1"), "%i, %j, %p", ((0, 1), (2,))),  # an index that is computed of the loop's
    ],
)
def test_dynamic_ranges_are_walked_as_one_by_their_symbols(steps, places, groups):
    x = f"memref<7x?x?xf32, affine_map<(d0, d1, d2)[s0, s1, s2] -> (d0 * ({steps[0]}) + d1 * ({steps[1]}) + d2)>>"
    at = "%p = affine.apply affine_map<(d0) -> (d0 + 1)>(%k)" if "%p" in places else ""
    copy = at, load("%a", "%x", places, x), store("%a", "%y", "%i, %j, %k", x)
    body = body_of(kernel(f"%s0: index, %s1: index, %s2: index, %x: {x}, %y: {x}", "%i, %j, %k", "7, s0, s1", *copy))
    assert group_ranges(body, body.block) == groups
    assert length(body, body.block, (0,)) == 7
    assert length(body, body.block, (0, 1)) is None


def test_the_length_of_no_ranges_is_one():
    body = body_of(copied(7, 13))
    assert (length(body, body.block, ()), length(body, body.block, (0, 1))) == (1, 91)


@pytest.mark.parametrize("step, meeting", [(13, []), (14, []), (12, [0, 1]), (0, [0])])
def test_points_that_may_store_to_one_place(step, meeting):
    """Stores at step * i + j, j below 13."""
    x, y = "memref<7x13xf32>", "memref<128xf32>"
    at = f"%p = affine.apply affine_map<(d0, d1) -> (d0 * {step} + d1)>(%i, %j)"
    op = kernel(f"%x: {x}, %y: {y}", "%i, %j", "7, 13", load("%a", "%x", "%i, %j", x), at, store("%a", "%y", "%p", y))
    body = body_of(op)
    assert colliding(body, body.block) == {body.block.arguments[n] for n in meeting}


def test_points_of_a_place_from_data_may_meet():
    x, y = "memref<13xi64>", "memref<7xi64>"
    at = "%p = arith.index_cast %a : i64 to index"
    op = kernel(f"%x: {x}, %y: {y}", "%i", "13", load("%a", "%x", "%i", x), at, store("%a", "%y", "%p", y, "i64"))
    body = body_of(op)
    assert colliding(body, body.block) == set(body.block.arguments)


def test_reads_that_move_with_the_loop_around():
    (loop,) = (body := body_of(row_sums(5, 129))).loops
    (k,) = loop.indices
    assert len(moving_reads(loop.blocks[0], k)) == 1
    assert moving_reads(body.block, body.block.arguments[0]) == []


def test_reads_along_another_group_than_the_lanes():
    body = body_of(copied(7, 13, transposed=True))  # read along j, stored along i
    groups = group_ranges(body, body.block)
    (read,) = reads_along(body.block, groups, 0, 1)
    assert read.name == "memref.load"
    assert reads_along(body.block, groups, 1, 0) == []
    assert slice_of(body.block, read) == []

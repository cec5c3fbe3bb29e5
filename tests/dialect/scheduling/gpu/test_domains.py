"""A parallel domain of a GPU kernel: bytes along its indices, what a thread loads at once, orders and runs of indices."""

import pytest

from tests.dialect.small_kernels import (
    column_sums,
    copied,
    domain_of,
    kernel,
    load,
    mlir,
    reduce,
    row_sums,
    scaled_rows,
    store,
)

__all__ = ["mlir"]


def test_indices_that_every_access_sees_as_one_are_a_run():
    domain = domain_of(copied(7, 13))
    order = domain.order(domain.indices, domain.sizes)
    assert (domain.points, order, domain.runs(order)) == (91, [0, 1], [[0, 1]])
    assert domain.run_size([0, 1]) == 91
    assert domain.heaviest == 4 * 91


def test_a_transpose_has_two_runs():
    domain = domain_of(copied(7, 13, transposed=True))
    i, j = domain.indices
    assert (domain.along[i], domain.along[j]) == (4 * 91, 4 * 91)
    assert domain.runs([0, 1]) == [[0], [1]]


def test_the_index_along_memory_goes_last():
    x = "memref<13x7xf32>"  # read and stored at [j, i] of a domain (i, j)
    body = (load("%a", "%x", "%j, %i", x), store("%a", "%y", "%j, %i", x))
    domain = domain_of(kernel(f"%x: {x}, %y: {x}", "%i, %j", "7, 13", *body))
    assert domain.order(domain.indices, domain.sizes) == [1, 0]
    assert domain.runs([1, 0]) == [[1, 0]]


def test_an_access_that_runs_unevenly_tells_no_order():
    """That of the gradient of a pooling, which reads most: four windows that an element may be in."""
    x, y, at = "memref<5x4x3xf32>", "memref<5x8x3xf64>", "affine_map<(d0, d1) -> (d0 floordiv 2 + d1)>"
    body = (
        f"%w = affine.apply {at}(%h, %i)",
        load("%a", "%x", "%n, %w, %c", x),
        "%b = arith.extf %a : f32 to f64",
        store("%b", "%y", "%n, %h, %c", y).replace("f32", "f64"),
    )
    domain = domain_of(kernel(f"%x: {x}, %y: {y}", "%h, %c, %i, %n", "8, 3, 4, 5", *body))
    assert domain.order(domain.indices, domain.sizes)[-3:] == [3, 0, 1]


@pytest.mark.parametrize("length, loaded", [(129, (1, False)), (130, (2, False)), (132, (4, True)), (136, (4, True))])
def test_what_a_thread_loads_at_once(length, loaded):
    domain = domain_of(row_sums(5, length))
    (loop,) = domain.inner
    assert domain.neighbours(loop.indices[0]) == loaded
    assert domain.neighbours(domain.indices[0]) == (1, True)  # of no access there is nothing against it


def test_bytes_along_a_loop():
    rows, columns = domain_of(row_sums(5, 129)), domain_of(column_sums(5, 129))
    assert (rows.bytes_along(rows.inner[0]), rows.along[rows.indices[0]]) == (4 * 5 * 129, 4 * 5)
    assert (columns.bytes_along(columns.inner[0]), columns.along[columns.indices[0]]) == (0, 4 * 5 * 129 + 4 * 129)


def test_positions_are_found_in_the_order_of_their_loop():
    def walked(kind: str) -> list[int]:
        x, y = "memref<5x7x11xf32>", "memref<5xf32>" if kind == "sum" else "memref<5xi64>"
        total = reduce("%s", "%k, %l", "11, 7", load("%a", "%x", "%i, %l, %k", x), "%a", kind=kind)
        end = store("%s", "%y", "%i", y, "f32" if kind == "sum" else "i64")
        domain = domain_of(kernel(f"%x: {x}, %y: {y}", "%i", "5", total, end))
        return domain.loop_order(domain.inner[0])

    assert walked("sum") == [1, 0]
    assert walked("argmax") == [0, 1]


def test_a_dynamic_domain_has_no_number_of_points():
    x = "memref<?xf32>"
    body = (load("%a", "%x", "%i", x), store("%a", "%y", "%i", x))
    domain = domain_of(kernel(f"%s0: index, %x: {x}, %y: {x}", "%i", "s0", *body))
    assert domain.points is None
    assert domain.run_size([0]) == 256  # what a symbol counts as


def test_a_plan_has_the_steps_of_its_loops():
    domain = domain_of(scaled_rows(5, 129))
    first, second = domain.inner
    plans = domain.plan({first: 256})
    assert [plan.step for plan in plans] == [256, 1]
    assert domain.plans[second] is plans[1]

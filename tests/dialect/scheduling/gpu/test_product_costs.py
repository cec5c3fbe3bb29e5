"""Costs of products: what the choice between calls and kernels goes by."""

import pytest
from bascule.dialect.scheduling.gpu.product_costs import GroupedCosts, Product, kernel

SM_COUNT = 132


def moved(rows, summed, columns, width=2):
    return 2 * rows * summed + width * summed * columns + 2 * rows * columns


@pytest.mark.parametrize(
    "sizes, measured",
    [
        ((8192, 4096, 16384), 1.407),
        ((4096, 4096, 4096), 0.184),
        ((8192, 768, 3072), 0.0685),
        ((4096, 2048, 5632), 0.149),
    ],
)
def test_contractions_of_16_bits_take_about_what_was_measured(sizes, measured):
    """An H200, in ms: docs/gpu.md."""
    assert 0.85 < Product(1, *sizes, 2).fused(moved(*sizes), SM_COUNT) * 1e3 / measured < 1.2


def test_few_rows_are_widened_inside_and_many_are_not():
    for rows, inside in ((8, True), (128, True), (4096, False)):
        product, sizes = Product(1, rows, 4096, 16384, 2), (rows, 4096, 16384)
        once = kernel(3 * 4096 * 16384) + product.fused(moved(*sizes), SM_COUNT)
        assert (product.fused(moved(*sizes, width=1), SM_COUNT, ops=2) < once) == inside


def test_programs_that_are_too_few_do_not_read_at_full_rate():
    few, many = (Product(1, 16, 4096, columns, 2).fused(0, SM_COUNT) for columns in (64, 64 * SM_COUNT))
    assert few <= many
    read = 1 << 30
    assert Product(1, 16, 4096, 64, 2).fused(read, SM_COUNT) > 100 * kernel(read)


def test_sums_that_are_added_up_apart_take_longer():
    """In a kernel: a call of fp8 was measured with them."""
    exact, fast = (Product(1, 8192, 4096, 16384, 1, sums) for sums in (2, 1))
    assert exact.fused(0, SM_COUNT) > fast.fused(0, SM_COUNT) and exact.called(0) == fast.called(0)


def test_grouped_products_as_measured():
    """Eight groups of 8192 x 2048 x 5632: 0.258 ms as a call, 0.049 of what reads and writes 184 MB behind it; two take nearly twice as long."""
    sizes, result = (8192, 2048, 5632, 8), 2 * 8192 * 5632
    alone, read = GroupedCosts(1, *sizes, 0), GroupedCosts(1, *sizes, 2 * result)
    assert 0.25e-3 < alone.called() < 0.27e-3 < 0.3e-3 < read.called() < 0.315e-3
    one, two = (GroupedCosts(products, *sizes, 0).fused(SM_COUNT) for products in (1, 2))
    assert alone.called() < one < read.called() and 1.9 * one < two < 2 * one


def test_few_tiles_of_long_sums_are_a_call():
    """Half of the multiprocessors have a second tile."""
    sizes = 8192, 16384, 704, 8
    assert GroupedCosts(1, *sizes, 4 * 8192 * 704).called() < GroupedCosts(1, *sizes, 0).fused(SM_COUNT)

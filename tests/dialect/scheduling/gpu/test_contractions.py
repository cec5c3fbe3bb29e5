"""Contractions for tensor cores: the tiles of programs, on three cards."""

import pytest
from bascule.dialect.scheduling.gpu.contractions import contraction
from bascule.dialect.scheduling.gpu.machine import H200, CudaMachine

from tests.dialect.small_kernels import domain_of, mlir, product, row_sums

__all__ = ["mlir"]

A100, L40, T4 = (
    CudaMachine(108, 80, 1 << 16, 40 << 20),
    CudaMachine(142, 89, 1 << 16, 96 << 20),
    CudaMachine(40, 75, 1 << 16, 4 << 20),
)


def linear(rows, summed, columns, element="bf16"):
    x, y = f"{rows}x{summed} : %m, %k", f"{columns}x{summed} : %n, %k"
    return product(x, y, f"{rows}x{columns} : %m, %n", "%m, %n", f"{rows}, {columns}", summed, element)


def shape(rows, summed, columns, machine=H200, element="bf16"):
    plan = contraction(domain_of(linear(rows, summed, columns, element), machine))
    return plan and (plan.tile, plan.loops[0].step, plan.warps, plan.stages)


@pytest.mark.parametrize(
    ("sizes", "machine", "wanted"),
    [
        ((4096, 4096, 4096), H200, ([128, 256], 64, 8, 4)),
        ((4096, 4096, 4096), A100, ([128, 256], 64, 8, 3)),
        ((4096, 4096, 4096), L40, ([128, 256], 64, 8, 2)),
        ((2048, 1024, 1024), H200, ([64, 128], 64, 4, 4)),  # half as many programs as there are multiprocessors else
        ((16384, 768, 30522), H200, ([128, 256], 64, 8, 4)),
        ((100, 64, 50), H200, ([64, 64], 64, 4, 1)),
        ((9, 40, 4096), H200, ([16, 256], 64, 4, 1)),
        ((17, 16, 17), H200, ([32, 32], 16, 4, 1)),
    ],
)
def test_tiles(sizes, machine, wanted):
    assert shape(*sizes, machine) == wanted


def test_f32_has_smaller_tiles():
    assert shape(4096, 4096, 4096, element="f32") == ([64, 64], 16, 4, 4)


@pytest.mark.parametrize("sizes", [(8, 64, 4096), (4096, 64, 8), (64, 8, 64)], ids=["rows", "columns", "summed"])
def test_few_are_none(sizes):
    assert shape(*sizes) is None


def test_an_older_card_has_none():
    assert shape(4096, 4096, 4096, T4) is None


def test_other_kernels_have_none():
    assert contraction(domain_of(row_sums(400, 500))) is None


def test_rows_and_columns_are_those_of_the_result():
    exchanged = product("300x64 : %n, %k", "64x500 : %k, %m", "500x300 : %m, %n", "%m, %n", "500, 300", 64)
    plan = contraction(domain_of(exchanged))
    assert (plan.order, plan.axes) == ([0, 1], [1, 1])
    across = product("500x64 : %m, %k", "300x64 : %n, %k", "300x500 : %n, %m", "%m, %n", "500, 300", 64)
    plan = contraction(domain_of(across))
    assert (plan.order, plan.axes) == ([1, 0], [1, 1])  # memory runs along what is the first factor's


def test_a_batch_is_an_axis_of_its_own():
    sizes = "5x200x64 : %i, %m, %k", "5x64x300 : %i, %k, %n", "5x200x300 : %i, %m, %n"
    plan = contraction(domain_of(product(*sizes, "%i, %m, %n", "5, 200, 300", 64)))
    assert (plan.order, plan.axes, plan.tile[0], plan.group) == ([0, 1, 2], [1, 1, 1], 1, 8)

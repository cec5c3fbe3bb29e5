"""Measures of a GPU that its schedules share."""

import pytest
from bascule.dialect.scheduling.gpu.machine import H200, CudaMachine, power_of_two, warps_of, waste


@pytest.mark.parametrize("size, power", [(0, 1), (1, 1), (2, 2), (3, 4), (127, 128), (128, 128), (129, 256)])
def test_power_of_two(size, power):
    assert power_of_two(size) == power


def test_waste_is_of_whole_blocks():
    assert waste(8, 8) == 1
    assert waste(9, 8) == 16 / 9
    assert waste(0, 8) == 0  # of no points there is no block


@pytest.mark.parametrize("elements, each, warps", [(1, 32, 1), (2047, 32, 1), (2048, 32, 2), (1 << 20, 8, 16)])
def test_warps_are_one_to_sixteen(elements, each, warps):
    assert warps_of(elements, each) == warps


def test_shared_memory_by_capability():
    assert H200.shared == 227 << 10
    assert CudaMachine(72, 89, 1 << 16, 48 << 20).shared == 99 << 10
    assert CudaMachine(40, 75, 1 << 16, 4 << 20).shared == 64 << 10
    assert CudaMachine(40, 73, 1 << 16, 4 << 20).shared == 99 << 10  # of one unknown, what it has at least


def test_shares_of_a_multiprocessor():
    assert H200.held == 40 * 4 * 1024  # 40 of the 64 registers of each of 1024 threads
    assert H200.cached == (60 << 20) * 7 // 16 // 132
    assert CudaMachine(108, 80, 1 << 15, 40 << 20).held == H200.held // 2
    assert CudaMachine(66, 90, 1 << 16, 30 << 20).cached == H200.cached

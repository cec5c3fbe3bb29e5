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
    assert CudaMachine(72, 89, 1 << 16).shared == 99 << 10
    assert CudaMachine(40, 75, 1 << 16).shared == 64 << 10
    assert CudaMachine(40, 73, 1 << 16).shared == 99 << 10  # of one unknown, what it has at least

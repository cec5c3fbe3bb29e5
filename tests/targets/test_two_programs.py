"""Products of few steps on an H200 have two programs of a multiprocessor, each with half of a tile, in groups and with others too."""

import re

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.nn import functional as F

from tests.targets.test_cuda_pipelines import run

ROWS, GROUPS = 8192, 8


def grouped(x, w, ends):
    return F.silu(torch._grouped_mm(x, w.transpose(1, 2), offs=ends))


def two_grouped(x, w, ends, v):
    return grouped(x, w, ends) * torch._grouped_mm(x, v.transpose(1, 2), offs=ends)


def schedule(function, summed, columns):
    """Programs, resident ones, rows and columns of a tile, and stages of the kernel that multiplies."""
    with FakeTensorMode():
        sizes = [(ROWS, summed), (GROUPS, columns, summed), (GROUPS, columns, summed)]
        x, w, v = (torch.empty(size, dtype=torch.bfloat16, device="cuda") for size in sizes)
        ends = torch.empty(GROUPS, dtype=torch.int32, device="cuda")
        text = run(function, [x, w, ends, v][: function.__code__.co_argcount])
    found = next(line for line in text.splitlines() if 'kind = "contraction"' in line)
    numbers = [re.search(rf"{name} = (\d+)", found) for name in ("programs", "resident", "stages")]
    tile = re.findall(r"tile = array<i64: (\d+), (\d+)>", found)[-1]
    return *(int(number[1]) if number else 0 for number in numbers), *map(int, tile)


@pytest.mark.parametrize(("function", "columns"), [(grouped, 128), (two_grouped, 64)])
def test_few_steps(function, columns):
    assert schedule(function, 512, 1792) == (264, 2, 3, 128, columns)


def test_steps_count_once_for_each_product():
    assert schedule(grouped, 2048, 5632)[1] == 2
    assert schedule(two_grouped, 2048, 5632) == (132, 0, 4, 128, 128)

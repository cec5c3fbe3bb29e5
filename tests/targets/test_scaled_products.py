"""Scales of floats of 8 bits: those of all, of rows and of columns are in a kernel, whichever of PyTorch's functions asks; those of blocks along
what is summed are a call's, whatever sizes they have."""

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.nn import functional as F

from .test_cuda_pipelines import run

# M, K, N; of the first three there are as many blocks of 128 along K as rows and columns
SIZES = [(16, 2048, 16), (32, 4096, 32), (64, 8192, 64), (128, 2048, 16), (16, 2048, 128), (48, 512, 256)]
RECIPES = {
    "TensorWise": lambda lines, summed: empty(1, 1),
    "RowWise": lambda lines, summed: empty(lines, 1),
    "BlockWise1x128": lambda lines, summed: empty(summed // 128, lines).t(),
}


def empty(*size, dtype=torch.float32):
    return torch.empty(size, dtype=dtype, device="cuda")


def factors(m, k, n):
    return [empty(size, k, dtype=torch.float8_e4m3fn) for size in (m, n)]


def older(x, w, a, b):
    return torch._scaled_mm(x, w.t(), a, b.t(), out_dtype=torch.bfloat16) + 1


def newer(name):
    recipe, of_lines = getattr(F.ScalingType, name), name == "RowWise"

    def product(x, w, a, b):
        b = b.t() if of_lines else b
        return F.scaled_mm(x, w.t(), a, recipe, b, recipe, output_dtype=torch.bfloat16) + 1

    return product


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("name", RECIPES)
def test_only_scales_of_lines_are_in_a_kernel(name, size):
    m, k, n = size
    calls = []
    with FakeTensorMode():
        for function in (older, newer(name)):
            text = run(function, [*factors(*size), RECIPES[name](m, k), RECIPES[name](n, k)])
            calls.append("call @aten._scaled_mm" in text)
            assert '"no rule"' not in text
    assert calls[0] == calls[1]
    assert calls[0] or name != "BlockWise1x128"
    if (m, n) == (16, 16):
        assert calls[0] == (name == "BlockWise1x128")  # a kernel is faster

"""Variances of numbers whose squares are beyond f32: infinite as in eager, whatever lanes, tiles and chunks had nothing to add."""

import pytest
import torch

import bascule  # noqa: F401  (for the backend)

SIZES = [(4, 33), (3, 8), (2, 1000), (5, 4099), (1, 1), (40, 7)]


def moments(x):
    return x.var(-1, correction=0), x.var(0, correction=0), x.var(correction=0)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("target", ["cpu", "interpret"])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_of_large_numbers(size, target, dynamic):
    x = torch.randn(size, generator=torch.Generator().manual_seed(0)) * 1e30
    torch._dynamo.reset()
    options = {"on_error": "raise", "target": target}
    compiled = torch.compile(moments, backend="bascule", options=options, dynamic=dynamic)
    for got, want in zip(compiled(x), moments(x)):
        torch.testing.assert_close(got, want)
    x[0, 0] = torch.inf
    for got, want in zip(compiled(x), moments(x)):
        torch.testing.assert_close(got, want, equal_nan=True)

"""Products of few rows as kernels, held against f64."""

import pytest
import torch
import torch.nn.functional as F

TOLERANCES = {torch.float16: 2e-3, torch.bfloat16: 1.5e-2, torch.float32: 2e-6, torch.float64: 1e-14}
OPTIONS = {"on_error": "raise", "cache": False}
SIZES = [(1024, 2048), (2048, 5632), (768, 768), (1000, 1001), (64, 16384), (333, 100), (5000, 64)]


def check(function, *given, **options):
    mine = torch.compile(function, backend="bascule", dynamic=False, options={**OPTIONS, **options})(*given)
    exact = function(*[x.double() for x in given])
    for got, want in zip(*((r,) if torch.is_tensor(r) else r for r in (mine, exact)), strict=True):
        off = (got.double() - want).abs().max() / want.abs().max()
        assert off.item() <= TOLERANCES[got.dtype]


def drawn(dtype, *sizes):
    return [torch.randn(*size, dtype=dtype, device="cuda") for size in sizes]


@pytest.mark.parametrize("dtype", list(TOLERANCES))
@pytest.mark.parametrize("columns, inner", SIZES)
def test_one_row(dtype, columns, inner):
    check(F.linear, *drawn(dtype, (1, inner), (columns, inner), (columns,)))


@pytest.mark.parametrize("dtype", list(TOLERANCES))
def test_a_layer(dtype):
    def layer(x, q, k, v, gate, up, down):
        y = F.linear(x, q), F.linear(x, k), F.linear(x, v)
        return *y, x + F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), down)

    sizes = (1, 512), (512, 512), (256, 512), (256, 512), (1408, 512), (1408, 512), (512, 1408)
    given = [x / 16 for x in drawn(dtype, *sizes)]
    check(layer, *given)
    check(layer, *given, cudagraphs=True)


def test_exact_whatever_is_allowed():
    given = drawn(torch.float32, (1, 4096), (256, 4096))
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        check(F.linear, *given)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before

"""Functions whose results are rounded to 16 bits, at every number of 16 bits."""

import pytest
import torch
from bascule.lowering.triton.values.approximations import INSTRUCTIONS

from tests.lowering.triton.check import cubins, lowered, program, run

EVERY = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32).to(torch.int16)
LEAST = 2.0**-120  # what is smaller may be 0
EXACT = {"erf": torch.erf, "tanh": torch.tanh, "sigmoid": torch.sigmoid}


def half_steps(dtype: torch.dtype, got: torch.Tensor, want: torch.Tensor) -> torch.Tensor:
    """The distance from `want`, of float64, in halves of the step between neighbours of `dtype` there."""
    tiny = torch.finfo(dtype).smallest_normal
    step = torch.finfo(dtype).eps * 2.0 ** want.abs().clamp_min(tiny).log2().floor()
    return (got.double() - want).abs() / (step / 2)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", EXACT)
def test_rounded_as_the_exact_value_is(name, dtype):
    function, x = EXACT[name], EVERY.view(dtype)
    (got,) = run(program(function, x), [x])
    want = function(x.double())
    assert torch.equal(got.isnan(), want.isnan())
    seen = ~want.isnan() & ((want == 0) | (want.abs() >= LEAST))
    assert half_steps(dtype, got[seen], want[seen]).max() <= 1.02  # 1: the nearest


FACTORS = [(0.088, 1.4427), (1e30, 1e30), (1e-30, 1e-30), (1e30, 1e-30), (1e-30, 1e30), (-3.0, 2.5)]


@pytest.mark.parametrize("one, other", FACTORS)
def test_two_factors(one, other):
    """Made one where nothing overflows or vanishes otherwise: (x * 1e30) * 1e30 is finite for small x, 1e60 is no f32."""

    def scaled(x):
        return ((x.float() * one) * other).bfloat16()

    x = EVERY.view(torch.bfloat16)
    (got,) = run(program(scaled, x), [x])
    want = scaled(x)
    assert torch.equal(got.isnan(), want.isnan()) and torch.equal(got.isinf(), want.isinf())
    seen = want.isfinite() & (want.abs() >= LEAST)
    assert half_steps(torch.bfloat16, got[seen], x[seen].double() * one * other).max() <= 1.02


def silu(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.silu(x.float()).to(x.dtype)


def test_silu():
    x = EVERY.view(torch.bfloat16)
    (kernel,) = lowered(program(silu, x)).values()
    assert "arith.divf" not in kernel.ttir
    (got,) = run(program(silu, x), [x])
    want = torch.nn.functional.silu(x.double())
    assert torch.equal(got.isnan(), silu(x).isnan())
    seen = want.isfinite() & (want.abs() >= LEAST)
    assert half_steps(torch.bfloat16, got[seen], want[seen]).max() <= 1.02


@pytest.mark.parametrize(
    "function",
    [lambda x, y: y / (1 + (-x).exp()), lambda x, y: x / (1 + x.exp()), lambda x, y: x / (2 + (-x).exp())],
    ids=["another", "not negated", "two"],
)
def test_large_numerators_over_large_denominators_are_divided(function):
    """1e38 / (1 + exp(87.5)) is 1, though nothing is left of 1 / (1 + exp(87.5))."""
    x, y = torch.randn(64), torch.randn(64)
    (kernel,) = lowered(program(lambda x, y: function(x, y).bfloat16(), x, y)).values()
    assert "arith.divf" in kernel.ttir


def test_results_of_32_bits_are_exact():
    for function in EXACT.values():
        (kernel,) = lowered(program(function, torch.randn(64))).values()
        assert kernel.ttir.count("inline_asm") == 1  # with which each kernel begins: `early_start.WAIT`
        assert not any(text in kernel.ttir for text in INSTRUCTIONS)


def rounded_and_summed(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = torch.tanh(x)
    return y, y.sum(0, dtype=torch.float32)


def wide_and_summed(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = torch.tanh(x.float())
    return y.bfloat16(), y.sum(0)


def test_what_a_program_rounds_is_computed_once_for_a_sum_too():
    """The sum of a gradient of 16 bits, a bias's, takes it unrounded, but need not have its last bits of f32."""
    x = EVERY.view(torch.bfloat16)
    x = x[x.isfinite()][:65024].view(-1, 64)
    kernels = lowered(program(rounded_and_summed, x))
    assert not any("__nv_tanh" in kernel.ttir for kernel in kernels.values())
    stored, total = run(program(rounded_and_summed, x), [x])
    want = torch.tanh(x.double())
    assert half_steps(torch.bfloat16, stored, want)[want.abs() >= LEAST].max() <= 1.02
    torch.testing.assert_close(total.double(), want.sum(0), rtol=1e-5, atol=1e-4)


def test_a_sum_of_32_bits_is_exact_beside_a_rounded_result():
    kernels = lowered(program(wide_and_summed, torch.randn(512, 64).bfloat16()))
    assert any("__nv_tanh" in kernel.ttir for kernel in kernels.values())


def test_compiles():
    for size in ((64,), ()):
        x = torch.randn(size).bfloat16()
        assert all(cubins(lambda x: (torch.erf(x), torch.tanh(x), torch.sigmoid(x), x.exp(), x.exp2()), x))

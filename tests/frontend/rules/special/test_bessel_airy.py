"""Bessel functions J and Y and Airy's Ai against mpmath: eager's own f64 is good to 1e-6 only, in some ranges."""

import math

import mpmath
import pytest
import torch

from tests.frontend.checking import aten, run

EXACT = {
    "bessel_j0": lambda x: mpmath.besselj(0, x),
    "bessel_j1": lambda x: mpmath.besselj(1, x),
    "bessel_y0": lambda x: mpmath.bessely(0, x),
    "bessel_y1": lambda x: mpmath.bessely(1, x),
    "airy_ai": mpmath.airyai,
}
RANGES = [(1e-6, 0.01), (0.01, 2.0), (2.0, 5.0), (5.0, 8.5), (8.5, 30.0), (30.0, 90.0)]
INFINITE = torch.tensor([0.0, -0.0, math.inf, -math.inf, math.nan, -1.0, 2000.0, 5.0, 2.09, -2.09, 1e-30])


def operator_of(name: str):
    return getattr(aten, f"special_{name}").default


def exact(name: str, x: torch.Tensor) -> torch.Tensor:
    with mpmath.workdps(40):
        return torch.tensor([float(EXACT[name](mpmath.mpf(v))) for v in x.tolist()], dtype=torch.float64)


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("low, high", RANGES)
def test_f64_is_exact_to_a_few_units_of_the_largest_value(name, low, high):
    x = torch.rand(80, dtype=torch.float64) * (high - low) + low
    if "y" not in name.removeprefix("airy"):
        x[1::2] *= -1
    (got,) = run(lambda x: operator_of(name)(x), x)
    want = exact(name, x)
    scale = want.abs().max()
    if name == "airy_ai":  # it decays: each value counts by itself, and its logarithm is rounded
        scale = torch.where(x > 0, want.abs() * (1.0 + x.abs() ** 1.5), want[x < 0].abs().max() * (1.0 + high**1.5))
    assert ((got - want).abs() / scale).max() < 5e-15


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.bool], ids=str)
def test_f32_is_exact_to_one_unit(name, dtype):
    x = (torch.rand(200) * 60).to(dtype)
    (got,) = run(lambda x: operator_of(name)(x), x)
    want = exact(name, x.double())
    finite = want.isfinite()
    assert got.dtype == torch.float32 and torch.equal(got.isfinite(), finite)
    error = (got.double() - want).abs()[finite]
    assert (error <= want.abs()[finite] * torch.finfo(torch.float32).eps + torch.finfo(torch.float32).tiny).all()


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_zeros_and_infinities_are_eagers(name, dtype):
    x = INFINITE.to(dtype)
    (got,) = run(lambda x: operator_of(name)(x), x)
    want = operator_of(name)(x)
    torch.testing.assert_close(got, want, equal_nan=True, rtol=1e-6, atol=1e-6)
    assert torch.equal(torch.signbit(got[:2]), torch.signbit(want[:2]))

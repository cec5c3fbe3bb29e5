"""The rules of special functions: in f32 they are those of f64, rounded."""

import math

import mpmath
import pytest
import torch

from tests.frontend.checking import aten, check, run
from tests.generators.elementwise import differences

SPECIAL = """
    lgamma digamma erfinv special_erfcx special_log_ndtr special_ndtri special_entr i0 special_i0e special_i1 special_i1e
    special_modified_bessel_k0 special_modified_bessel_k1 special_scaled_modified_bessel_k0 special_spherical_bessel_j0
"""


@pytest.mark.parametrize("name", SPECIAL.split())
def test_special_functions_are_exact_to_one_unit_in_f32(name):
    operator = getattr(aten, name).default
    spread = torch.rand(2000, dtype=torch.float64)
    x = torch.cat([spread * 2 - 1, (spread - 0.5) * 40, torch.exp((spread - 0.5) * 80)]).float()
    (got,) = run(lambda x: operator(x), x)
    want = operator(x.double())
    finite = (
        want.isfinite() & (want.abs() < torch.finfo(torch.float32).max) & (want.abs() > torch.finfo(torch.float32).tiny)
    )
    assert torch.equal(got.isnan(), want.isnan())
    unit = torch.finfo(torch.float32).eps
    error = ((got.double() - want).abs() / (want.abs() * unit + (1e-14 if name == "lgamma" else 0)))[finite]
    assert error.max() <= 1.0


def exactly(function, x: torch.Tensor) -> torch.Tensor:
    """`function` of mpmath, with 40 digits, of each number."""
    with mpmath.workdps(40):
        return torch.tensor([float(function(mpmath.mpf(value))) for value in x.tolist()], dtype=torch.float64)


def edges(dtype: torch.dtype) -> torch.Tensor:
    """Numbers at the ends of the range and of the subnormals, around 1 and 2, and halves."""
    info = torch.finfo(dtype)
    least, eps = info.smallest_normal * info.eps, info.eps
    sizes = [least, 3 * least, info.tiny / 4, info.tiny * (1 - eps), info.tiny, info.tiny * 3, 1e-30, 1e-9, eps]
    sizes += [
        0.3,
        0.5,
        0.7,
        1 - eps,
        1.0,
        1 + eps,
        1.46,
        1.5,
        2 - eps,
        2.0,
        2 + eps,
        2.5,
        3.0,
        3.5,
        7.25,
        88.5,
        1e10,
        1e17,
    ]
    sizes += [info.max**0.5, info.max / 2, info.max, math.inf, 0.0]
    x = torch.tensor([*sizes, math.nan], dtype=dtype)
    return torch.cat([x, -x])


SPREAD = torch.rand(300, dtype=torch.float64, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize(
    "name, reference", [("lgamma", lambda x: mpmath.log(abs(mpmath.gamma(x)))), ("digamma", mpmath.digamma)]
)
def test_gamma_functions_of_f64_are_right(name, reference):
    """To a few units in the last place, and where they cross zero to those of what half a unit of `x` changes."""
    x = torch.cat(
        [SPREAD * 4 - 3, SPREAD * 9, SPREAD * -12, SPREAD * 200, (SPREAD - 0.5) * 1e-6 + 1, torch.exp(SPREAD * -700)]
    )
    (got,) = run(getattr(aten, name).default, x)
    want, h = exactly(reference, x), 1e-6
    slope = (exactly(reference, x * (1 + h)) - want).abs() / h
    unit = torch.finfo(torch.float64).eps
    assert ((got - want).abs() <= 4 * unit * want.abs() + unit * torch.where(x < 0, slope, 0)).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(
    "name", ["lgamma", "erf", "erfc", "expm1", "log1p", "sinc", "sigmoid", "rsqrt", "reciprocal", "tanh", "asinh"]
)
def test_at_the_edges_of_the_range_they_are_eagers(name, dtype):
    """A reciprocal inside that overflows of a subnormal number would show, or a term that cancels."""
    function, x = getattr(torch, name), edges(dtype)
    (got,) = run(function, x)
    want, best = function(x), function(x.double())
    assert not differences(name, got, want, best, ulps=4)


def test_inverses_of_the_error_function_of_f64_are_right():
    """At both ends too, where a probability is subnormal and where it is next to 1."""
    ends = torch.tensor([1 - 2.0**-53, 1 - 2.0**-52, 1 - 1e-12, 0.5, 0.4999], dtype=torch.float64)
    x = torch.cat([ends, 1 - torch.exp(SPREAD * -36), SPREAD, torch.exp(SPREAD * -700)])
    x = x[x < 1]
    (got,) = run(torch.special.erfinv, x)
    want = exactly(mpmath.erfinv, x)
    assert ((got - want).abs() <= 4 * torch.finfo(x.dtype).eps * want.abs()).all()
    p = torch.cat([torch.tensor([5e-324, 4.94e-321, 2.3e-308], dtype=x.dtype), x])
    (got,) = run(torch.special.ndtri, p)
    torch.testing.assert_close(got, torch.special.ndtri(p), rtol=1e-15, atol=1e-16)


@pytest.mark.parametrize("name", ["igamma", "igammac"])
def test_incomplete_gamma_functions_are_exact_to_one_unit_in_f32(name):
    """Where eager's own f64 is exact: it stops after 2000 terms, and Q of a tiny `a` cancels."""
    operator = getattr(aten, name).default
    spread = torch.rand(4, 3000, dtype=torch.float64)
    a = torch.exp(spread[:3] * 14 - 5).float()
    ratios = torch.exp(spread[3] * 3 - 1.5), 1 + (spread[3] - 0.5) * 8 / a[1].sqrt(), 1 + (spread[3] - 0.5)
    x = torch.stack([a[0] * ratios[0], a[1] * ratios[1].abs(), a[2] * ratios[2]]).float()
    (got,) = run(lambda a, x: operator(a, x), a, x)
    want = operator(a.double(), x.double())
    error = ((got.double() - want) / want).abs()[want > torch.finfo(torch.float32).tiny]
    assert error.max() <= torch.finfo(torch.float32).eps


@pytest.mark.parametrize("name", ["igamma", "igammac"])
def test_incomplete_gamma_functions_at_the_ends_are_eagers(name):
    operator = getattr(aten, name).default
    ends = torch.tensor([0.0, 1.0, 2.5, math.inf, math.nan, -1.0, 1e-30, 1e38, 12.0, 1.5])
    a, x = torch.meshgrid(ends, ends, indexing="ij")
    (got,) = run(lambda a, x: operator(a, x), a, x)
    torch.testing.assert_close(got, operator(a, x), equal_nan=True, rtol=1e-5, atol=1e-6)
    check(lambda a, x: operator(a, x), a.double(), x.double(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("low, high", [(-8.0, 0.0), (0.0, 2.3), (2.3, 3.4), (3.4, 5.3), (5.3, 8.0)])
def test_incomplete_gamma_functions_of_f64_are_right(low, high):
    """Eager's are good to 1e-9 where x is near a large `a`."""
    a = torch.exp(torch.rand(30, dtype=torch.float64) * (high - low) + low)
    x = a * torch.exp(torch.rand(30, dtype=torch.float64) * 1.6 - 0.8)
    x[::2] = a[::2] * (1 + torch.randn(15, dtype=torch.float64) * 2 / a[::2].sqrt()).abs().clamp(min=0.05)
    p, q = run(lambda a, x: (aten.igamma.default(a, x), aten.igammac.default(a, x)), a, x)
    for got, between in ((p, lambda v: (0, v)), (q, lambda v: (v, mpmath.inf))):
        with mpmath.workdps(40):
            exact = [float(mpmath.gammainc(u, *between(v), regularized=True)) for u, v in zip(a.tolist(), x.tolist())]
        want = torch.tensor(exact, dtype=torch.float64)
        seen = want > 1e-290
        assert ((got - want).abs() / want)[seen].max() < 4e-13


def test_incomplete_gamma_functions_agree_with_closed_forms():
    """Of a tiny `a`, Q is a times the exponential integral; of a large one at its mean, P is 1/2 + 1 / (3 sqrt(2 pi a))."""
    a = torch.full((1,), 1e-16)
    (q,) = run(lambda a, x: aten.igammac.default(a, x), a, torch.ones(1))
    torch.testing.assert_close(q / a, torch.tensor([0.21938393]))  # E1(1)
    a = torch.tensor([1e6, 5e7])
    (p,) = run(lambda a, x: aten.igamma.default(a, x), a, a)
    torch.testing.assert_close(p.double(), 0.5 + 1 / (3 * (2 * math.pi * a.double()).sqrt()), rtol=1e-7, atol=0)


@pytest.mark.parametrize(
    "name", ["i0", "i0e", "i1", "i1e", "erf", "erfc", "erfcx", "ndtr", "log_ndtr", "gammaln", "digamma", "entr", "sinc"]
)
def test_at_the_largest_numbers_of_f64_they_are_eagers(name):
    """A product inside that overflows where the result does not, or the other way round, would show."""
    function = getattr(torch.special, name)
    largest = torch.finfo(torch.float64).max
    x = torch.tensor([1e100, 1e200, 1e308, largest], dtype=torch.float64)
    x = torch.cat([x, -x])
    (got,) = run(function, x)
    torch.testing.assert_close(got, function(x), rtol=1e-12, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    "name", ["i0", "i1", "i1e", "modified_bessel_i1", "erf", "erfinv", "expm1", "sinc", "entr", "psi"]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_sign_of_zero_is_eagers(name, dtype):
    function = getattr(torch.special, name)
    x = torch.tensor([0.0, -0.0, 1e-45, -1e-45], dtype=dtype)
    (got,) = run(function, x)
    assert torch.equal(got.signbit(), function(x).signbit())

"""The rules of special functions: in f32 they are those of f64, rounded."""

import math

import pytest
import torch
from bascule.dialect.errors import UnsupportedError
from checking import aten, check, convert, run

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
    with pytest.raises(UnsupportedError, match="in f64"):
        convert(lambda a, x: operator(a, x), a.double(), x.double())


def test_incomplete_gamma_functions_agree_with_closed_forms():
    """Of a tiny `a`, Q is a times the exponential integral; of a large one at its mean, P is 1/2 + 1 / (3 sqrt(2 pi a))."""
    a = torch.full((1,), 1e-16)
    (q,) = run(lambda a, x: aten.igammac.default(a, x), a, torch.ones(1))
    torch.testing.assert_close(q / a, torch.tensor([0.21938393]))  # E1(1)
    a = torch.tensor([1e6, 5e7])
    (p,) = run(lambda a, x: aten.igamma.default(a, x), a, a)
    torch.testing.assert_close(p.double(), 0.5 + 1 / (3 * (2 * math.pi * a.double()).sqrt()), rtol=1e-7, atol=0)


def test_polygamma():
    x = torch.rand(500, dtype=torch.float64) * 20 - 5
    check(lambda x: (aten.polygamma.default(0, x), aten.polygamma.default(1, x)), x, rtol=1e-9, atol=0)
    with pytest.raises(UnsupportedError, match="order above 1"):
        convert(lambda x: aten.polygamma.default(2, x), x)

"""Orthogonal polynomials of data's degree: eager's numbers where it rounds as they do, else at least as exact as eager's."""

import math

import mpmath
import pytest
import torch
from bascule.frontend.rules.special.orthogonal_polynomials import POLYNOMIALS

from tests.frontend.checking import aten, check, run

EXACT = {
    "chebyshev_polynomial_t": mpmath.chebyt,
    "chebyshev_polynomial_u": mpmath.chebyu,
    "hermite_polynomial_h": mpmath.hermite,
    "legendre_polynomial_p": mpmath.legendre,
    "laguerre_polynomial_l": lambda n, x: mpmath.laguerre(n, 0, x),
}
X = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, -2.5, math.inf, -math.inf, 1e30, 1 + 2**-20, 1 - 2**-20, 1e-9]
DEGREES = [0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 30, 100, 129, 513, 1000]
ODD_DEGREES = [-1.0, -0.5, 2.7, -7.0, math.nan, math.inf, -math.inf, 1e20]


def operator_of(name: str, overload: str = "default"):
    return getattr(getattr(aten, f"special_{name}"), overload)


def points(dtype: torch.dtype) -> torch.Tensor:
    # Eager's recurrences are not stable everywhere: the same points in every run.
    generator = torch.Generator().manual_seed(0)
    drawn = [torch.rand(30, generator=generator) * 2 - 1, torch.rand(20, generator=generator) * 6 - 3]
    return torch.cat([*drawn, torch.tensor(X)]).to(dtype)


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_f64_is_eagers(name):
    x = points(torch.float64)[:, None]
    n = torch.tensor(DEGREES + ODD_DEGREES, dtype=torch.float64)[None, :]
    check(lambda x, n: operator_of(name)(x, n), x, n, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_f32_is_as_exact_as_eagers_and_overflows_where_it_does(name):
    x, n = points(torch.float32)[:, None], torch.tensor(DEGREES + ODD_DEGREES, dtype=torch.float32)[None, :]
    (got,) = run(lambda x, n: operator_of(name)(x, n), x, n)
    eager, exact = operator_of(name)(x, n), operator_of(name)(x.double(), n.double())
    assert torch.equal(got.isnan(), eager.isnan()) and torch.equal(got.isinf(), eager.isinf())
    finite = eager.isfinite() & exact.isfinite()
    mine, theirs = (got.double() - exact).abs(), (eager.double() - exact).abs()
    assert (mine <= 1.5 * theirs + 1e-6 * exact.abs() + 1e-30)[finite].all()


@pytest.mark.parametrize("name", EXACT)
def test_f64_is_right(name):
    x = torch.rand(15, dtype=torch.float64) * 2 - 1
    n = torch.tensor([0, 1, 2, 6, 7, 9, 25], dtype=torch.float64)
    (got,) = run(lambda x, n: operator_of(name)(x, n), x[:, None], n[None, :])
    want = [[float(EXACT[name](int(k), mpmath.mpf(v))) for k in n.tolist()] for v in x.tolist()]
    want = torch.tensor(want, dtype=torch.float64)
    # Next to a root the terms cancel: an error is measured by the largest value of its degree, not by what is left of it.
    assert ((got - want).abs() <= 1e-12 * want.abs().amax(0)).all()


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_nan_stays_nan(name):
    """From degree 2 on eager returns what happens to lie in memory."""
    x, n = torch.full((3,), math.nan), torch.tensor([1.0, 2.0, 9.0])
    assert run(lambda x, n: operator_of(name)(x, n), x, n)[0].isnan().all()


def test_overloads_and_integers():
    x, n = torch.arange(-3, 4), torch.arange(7)
    name = "hermite_polynomial_he"
    check(lambda x: operator_of(name, "n_scalar")(x, 5), x)
    check(lambda n: operator_of(name, "x_scalar")(0.3, n), n)
    check(lambda x, n: operator_of(name)(x, n), x, n)


@pytest.mark.parametrize("target", ["auto", "interpret"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", ["chebyshev_polynomial_u", "laguerre_polynomial_l"])
def test_compiled_code_has_lanes_that_end_at_different_steps(name, dtype, target):
    x, n = torch.rand(1037).to(dtype) * 3 - 1.5, torch.randint(-2, 30, (1037,)).to(dtype)

    def function(x, n):
        return operator_of(name)(x, n)

    compiled = torch.compile(function, backend="bascule", options={"on_error": "raise", "target": target})
    exact = function(x.double(), n.double())
    error = (compiled(x, n).double() - exact).abs() / exact.abs().clamp(min=1)
    assert error.max() < (1e-11 if dtype == torch.float64 else 1e-4)

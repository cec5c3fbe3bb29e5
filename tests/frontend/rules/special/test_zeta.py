"""Hurwitz's zeta function and the polygamma functions, against mpmath and eager."""

import math

import mpmath
import pytest
import torch
from bascule.frontend.rules.special.zeta import bernoulli_ratios

from tests.frontend.checking import FLOATS, aten, check, run

ORDERS = [math.inf, -math.inf, math.nan, 1.0, 2.0, 3.0, 2.5, 0.5, -1.0, 0.0, 50.0, 1e5]
PLACES = [0.0, -0.0, -1.0, -1.5, -20.5, -3.25, 1.0, 2.0, 1e-30, 1e10, 1e30, math.inf, -math.inf, math.nan, 0.5, 1e-3]


def test_zeta_is_exact_in_f64():
    s = torch.rand(100, dtype=torch.float64) * 12 + 1.001
    a = torch.exp(torch.rand(100, dtype=torch.float64) * 7 - 3)
    (got,) = run(lambda s, a: aten.special_zeta.default(s, a), s, a)
    with mpmath.workdps(80):
        want = [float(mpmath.zeta(mpmath.mpf(x), mpmath.mpf(y))) for x, y in zip(s.tolist(), a.tolist())]
    torch.testing.assert_close(got, torch.tensor(want, dtype=torch.float64), rtol=2e-15, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_zeta_at_poles_and_infinities_is_eagers(dtype):
    s, a = torch.tensor(ORDERS, dtype=dtype)[:, None], torch.tensor(PLACES, dtype=dtype)[None, :]
    check(lambda s, a: aten.special_zeta.default(s, a), s, a, rtol=1e-6, atol=0)


def test_zeta_of_numbers_and_integers():
    x = torch.arange(-3, 9)
    check(lambda x: (aten.special_zeta.other_scalar(x, 2), aten.special_zeta.self_scalar(3.5, x)), x)


def test_the_corrections_are_eulers_and_maclaurins():
    want = [float(mpmath.bernoulli(2 * k) / mpmath.factorial(2 * k)) for k in range(1, len(bernoulli_ratios()) + 1)]
    assert bernoulli_ratios() == pytest.approx(want, rel=1e-15)


@pytest.mark.parametrize("n", [2, 3, 4, 7, 20, 60])
def test_polygamma_is_exact_in_f64(n):
    x = torch.cat([torch.rand(30, dtype=torch.float64) * 20 + 0.05, torch.rand(10, dtype=torch.float64) * -5 - 0.01])
    (got,) = run(lambda x: aten.polygamma.default(n, x), x)
    with mpmath.workdps(60):
        want = [float(mpmath.polygamma(n, mpmath.mpf(v))) for v in x.tolist()]
    want = torch.tensor(want, dtype=torch.float64)
    # Below 0 terms of both signs cancel.
    terms = torch.stack([(x + k).abs() ** -(n + 1.0) for k in range(8)]).amax(0) * float(math.factorial(n))
    finite = want.isfinite()
    error = (got - want).abs() / torch.maximum(want.abs(), torch.where(x < 0, terms, 0.0))
    assert error[finite].max() < 2e-15
    assert torch.equal(got.isinf(), want.isinf())


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_polygamma_at_its_poles_is_eagers(n):
    x = torch.tensor([0.0, -0.0, -1.0, -2.0, -7.0, math.inf, -math.inf, math.nan, 1.0, 0.5])
    for given in (x, x.double(), torch.arange(-5, 6), torch.tensor([True, False])):
        check(lambda x: aten.polygamma.default(n, x), given, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_gradients_of_polygamma(dtype):
    x = torch.rand(50).to(dtype) * 4 + 0.5
    compiled = torch.compile(lambda x: torch.polygamma(2, x).sum(), backend="bascule", options={"on_error": "raise"})
    given = x.clone().requires_grad_()
    (got,) = torch.autograd.grad(compiled(given), given)
    exact = torch.polygamma(3, x.double())
    torch.testing.assert_close(got.double(), exact, rtol=4 * torch.finfo(dtype).eps, atol=0)
    assert got.dtype == dtype

"""Stored polynomials are as good as fresh fits, and one that is not is found out."""

from dataclasses import replace
from functools import cache

import pytest
import torch
from torch import Tensor

from benchmarks import polynomials
from benchmarks.polynomials import (
    FITS,
    TEST_POINTS,
    Comparison,
    Fit,
    chebyshev_points,
    lawson,
    one_thread,
    powers,
    rounded,
)

compared = cache(Comparison.of)
each_fit = pytest.mark.parametrize("fit", FITS, ids=lambda fit: fit.name)


@pytest.fixture(autouse=True)
def quick():
    with one_thread():
        yield


def passes(fit: Fit, coefficients: Tensor) -> bool:
    """Whether these would pass instead of the stored ones."""
    return replace(compared(fit), stored=fit.error(coefficients)).passes


def moved(fit: Fit, place: int, by: float) -> Tensor:
    """The stored coefficients, one of which is so far off that it alone moves the result by `by` at some x."""
    x = chebyshev_points(fit.low, fit.high, TEST_POINTS)
    coefficients = rounded(torch.tensor(fit.stored, dtype=torch.float64))
    coefficients[place] += by / (fit.columns(x)[:, place].abs() * fit.slope(x)).max()
    return coefficients


def test_lawson_finds_the_least_error():
    """x^6 less its best polynomial of lower degree on [-1, 1] is T_6 / 2^5."""
    x = chebyshev_points(-1.0, 1.0, 500)
    errors = powers(x, 5) @ lawson(powers(x, 5), x**6) - x**6
    assert errors.abs().max().item() == pytest.approx(2.0**-5, rel=2e-3)


@each_fit
def test_stored_is_as_good_as_fitted(fit):
    found = compared(fit)
    assert found.passes
    # A fit is no worse than stored coefficients, or it would not have found the least error.
    assert found.fitted <= 1.01 * found.stored
    assert found.rounded <= found.limit


@each_fit
def test_a_wrong_coefficient_is_found_out(fit):
    assert passes(fit, moved(fit, 0, 0.0))
    for place in range(len(fit.stored)):
        assert not passes(fit, moved(fit, place, 2.5 * compared(fit).limit))
    order = torch.arange(len(fit.stored))
    order[:2] = order[:2].flip(0)
    assert not passes(fit, moved(fit, 0, 0.0)[order])


def test_the_command_prints_coefficients_and_errors(monkeypatch, capsys):
    good = FITS[0]
    monkeypatch.setattr(polynomials, "FITS", [good])
    polynomials.main()
    out = capsys.readouterr().out
    assert f"{compared(good).stored:.3e}" in out and compared(good).line() in out
    assert str(good.stored[2]) in compared(good).line()


def test_the_command_fails_for_a_worse_set(monkeypatch, capsys):
    good, other = FITS[0], FITS[-1]
    monkeypatch.setattr(polynomials, "FITS", [good, replace(other, stored=(other.stored[0], -1 / 3, 1.0))])
    with pytest.raises(SystemExit, match=f"^worse than a fresh fit: {other.name}$"):
        polynomials.main()
    assert "| NO" in capsys.readouterr().out

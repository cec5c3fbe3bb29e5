"""Errors of compiled special functions in units in the last place, at dense points of every branch and around its borders, against mpmath."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import mpmath
import pytest
import torch
from bascule.frontend.rules.special import fits
from torch import Tensor, special

F64 = torch.float64
UNITS = 5.0  # of f64; f32 is f64 rounded
LEAST = torch.finfo(F64).tiny
Reference = Callable[[mpmath.mpf], mpmath.mpf]


def log_gamma(x: mpmath.mpf) -> mpmath.mpf:
    return mpmath.log(abs(mpmath.gamma(x)))


besselk = cache(mpmath.besselk)  # slow, and four functions have it


def scaled(function: Callable, order: int, sign: int) -> Reference:
    return lambda x: function(order, x) * mpmath.exp(sign * abs(x))


def normal(x: mpmath.mpf) -> mpmath.mpf:
    return mpmath.erfc(-x / mpmath.sqrt(2)) / 2


@dataclass(frozen=True)
class Case:
    """`spans` are sampled evenly, `count` points each; so is the neighbourhood of each of the `borders`. `conditioned`: what a unit of the
    argument changes is allowed too, which is much where the function has zeros."""

    function: Callable[[Tensor], Tensor]
    reference: Reference
    spans: tuple[tuple[float, float], ...]
    borders: tuple[float, ...] = ()
    count: int = 150
    conditioned: bool = False

    def points(self) -> Tensor:
        generator = torch.Generator().manual_seed(0)
        around = [(border * (1 - 1e-3), border * (1 + 1e-3)) for border in self.borders]
        many = [torch.rand(self.count, dtype=F64, generator=generator) * (b - a) + a for a, b in self.spans]
        few = [torch.rand(30, dtype=F64, generator=generator) * (b - a) + a for a, b in around]
        tiny = (
            [torch.exp(torch.rand(10, dtype=F64, generator=generator) * -80)]
            if any(0.0 in s for s in self.spans)
            else []
        )
        x = torch.cat([*many, *few])
        x[::3] = x[::3].float().double()  # one in three for f32
        return torch.cat([x, *tiny])


WHOLE = ((-3.0, 0.0), (0.0, 3.0), (-60.0, 60.0))
POSITIVE = ((0.0, 2.0), (0.0, 30.0))
BESSEL = dict(spans=((-5.0, 0.0), (0.0, 5.0), (-50.0, 50.0), (0.0, 1000.0)), borders=(5.0, -5.0), conditioned=True)
BESSEL_Y = dict(spans=((0.0, 5.0), (0.0, 60.0)), borders=(2.5, 5.0), conditioned=True, count=80)
I = dict(spans=WHOLE, borders=(5.0, -5.0, 1e-3))  # noqa: E741
K = dict(spans=POSITIVE, borders=(1.0,), count=80)
GAMMA = dict(
    spans=((-3.0, -2.0), (-2.0, 1.0), (1.0, 8.0), (8.0, 100.0), (-40.0, -3.0)),
    borders=(0.5, 1.0, 1.5, 2.0, -2.4570247, -2.7476826, 1.4616321, -3.0, 8.0),
    conditioned=True,
)
CASES = {
    "airy_ai": Case(
        special.airy_ai,
        mpmath.airyai,
        ((-12.0, -2.09), (-100.0, -12.0), (-2.09, 0.0), (0.0, 2.09), (2.0, 2.2), (2.09, 10.0), (10.0, 103.0)),
        (2.09, -2.09, -2.3381074, -4.0879494, 1e-3, -1e-3),
        conditioned=True,
    ),
    "bessel_j0": Case(special.bessel_j0, partial(mpmath.besselj, 0), **BESSEL),
    "bessel_j1": Case(special.bessel_j1, partial(mpmath.besselj, 1), **BESSEL),
    "bessel_y0": Case(special.bessel_y0, partial(mpmath.bessely, 0), **BESSEL_Y),
    "bessel_y1": Case(special.bessel_y1, partial(mpmath.bessely, 1), **BESSEL_Y),
    "i0": Case(torch.i0, partial(mpmath.besseli, 0), **I),
    "i1": Case(special.i1, partial(mpmath.besseli, 1), **I),
    "i0e": Case(special.i0e, scaled(mpmath.besseli, 0, -1), **I),
    "i1e": Case(special.i1e, scaled(mpmath.besseli, 1, -1), **I),
    "k0": Case(special.modified_bessel_k0, partial(besselk, 0), **K),
    "k1": Case(special.modified_bessel_k1, partial(besselk, 1), **K),
    "k0e": Case(special.scaled_modified_bessel_k0, scaled(besselk, 0, 1), **K),
    "k1e": Case(special.scaled_modified_bessel_k1, scaled(besselk, 1, 1), **K),
    "erfcx": Case(
        special.erfcx,
        lambda x: mpmath.exp(x * x) * mpmath.erfc(x),
        ((-26.0, 0.0), (0.0, 10.0), (10.0, 1e3)),
        (10.0,),
    ),
    "erfinv": Case(special.erfinv, mpmath.erfinv, ((-1.0, 1.0), (0.99, 1.0)), (0.5, -0.5), 80),
    "ndtri": Case(
        special.ndtri, lambda p: mpmath.sqrt(2) * mpmath.erfinv(2 * p - 1), ((0.001, 1.0),), (0.5, 0.25), conditioned=True
    ),
    "log_ndtr": Case(
        special.log_ndtr, lambda x: mpmath.log(normal(x)), ((-40.0, 0.0), (0.0, 8.0)), (-1.0,), conditioned=True
    ),
    "lgamma": Case(torch.lgamma, log_gamma, **GAMMA),
    "digamma": Case(torch.digamma, mpmath.digamma, **GAMMA),
    "trigamma": Case(partial(torch.polygamma, 1), partial(mpmath.psi, 1), ((-10.0, 0.5), (0.5, 8.0), (8.0, 100.0)), (0.5, 8.0)),
    "polygamma": Case(
        partial(torch.polygamma, 4), partial(mpmath.psi, 4), ((-3.0, 0.0), (0.0, 30.0)), (10.0,), conditioned=True
    ),
    "zeta": Case(
        lambda x: special.zeta(x, 0.75), lambda x: mpmath.zeta(x, mpmath.mpf(0.75)), ((1.001, 3.0), (1.0, 30.0)), (), 60
    ),
    "spherical_bessel_j0": Case(
        special.spherical_bessel_j0, lambda x: mpmath.sin(x) / x, ((-30.0, 0.0), (0.0, 30.0)), (1e-3,)
    ),
    "entr": Case(special.entr, lambda x: -x * mpmath.log(x), POSITIVE, (1.0,)),
}  # fmt: skip


@dataclass(frozen=True)
class Exact:
    """The exact values as two f64, and what a unit of the argument changes."""

    high: Tensor
    low: Tensor
    unit_of_argument: Tensor

    def errors(self, got: Tensor) -> Tensor:
        return ((got.double() - self.high) - self.low).abs()


@cache
def exact(name: str) -> Exact:
    case, rows = CASES[name], []
    with mpmath.workdps(35):
        for number in case.points().tolist():
            x = mpmath.mpf(number)
            value = mpmath.re(case.reference(x))
            high = float(value)
            moved = mpmath.re(case.reference(x + x * mpmath.mpf(2) ** -52)) if case.conditioned else value
            rows.append((high, float(value - high) if math.isfinite(high) else 0.0, float(abs(moved - value))))
    return Exact(*torch.tensor(rows, dtype=F64).T)


def unit(value: Tensor) -> Tensor:
    """The distance to the next larger number."""
    size = value.abs()
    return torch.nextafter(size, torch.full_like(size, math.inf)) - size


def compiled(case: Case, x: Tensor) -> Tensor:
    return torch.compile(case.function, backend="bascule", options={"on_error": "raise"})(x)


@pytest.mark.parametrize("name", CASES)
def test_f64_errs_by_a_few_units(name):
    case, want = CASES[name], exact(name)
    x = case.points()
    got = compiled(case, x)
    allowed = torch.maximum(UNITS * unit(want.high), want.unit_of_argument)
    regular = want.high.isfinite() & (want.high.abs() > LEAST)
    assert regular.sum() > 0.9 * len(x)
    wrong = regular & ~(want.errors(got) <= allowed)
    assert not wrong.any(), list(zip(x[wrong].tolist(), got[wrong].tolist(), want.high[wrong].tolist()))[:5]


@pytest.mark.parametrize("name", CASES)
def test_f32_errs_by_one_unit(name):
    case, want = CASES[name], exact(name)
    wide = case.points()
    narrow = wide == wide.float()
    x, high = wide[narrow].float(), want.high[narrow]
    got = compiled(case, x)
    allowed = unit(high.float()).double()
    regular = (high.abs() < torch.finfo(torch.float32).max) & (high.abs() > torch.finfo(torch.float32).tiny)
    assert not (regular & ~((got.double() - high).abs() <= allowed)).any()


# -- the fitted polynomials ------------------------------------------------------------------------------------------------------


def fitted(function: Reference, argument: Reference, width: str = "1") -> tuple[float, ...]:
    """The polynomial through `function(argument(t))` at 60 Chebyshev points, t within 1, as far as its Chebyshev series goes before what is
    left is below 2**-57 of its largest coefficient; in `width` t, the highest power first."""
    count = 60
    angles = [mpmath.pi * (j + mpmath.mpf(1) / 2) / count for j in range(count)]
    values = [function(argument(mpmath.cos(angle))) for angle in angles]
    series = [2 * sum(v * mpmath.cos(k * a) for v, a in zip(values, angles)) / count for k in range(count)]
    series[0] /= 2
    largest = max(map(abs, series))
    terms = next(k for k in range(count) if max(map(abs, series[k:])) < largest * mpmath.mpf(2) ** -57)
    powers, last, now = [mpmath.mpf(0)] * terms, [], [1]
    for k in range(terms):
        for i, factor in enumerate(now):
            powers[i] += series[k] * factor
        doubled = [0, *((2 if k else 1) * factor for factor in now)]
        last, now = now, [a - (last[i] if i < len(last) else 0) for i, a in enumerate(doubled)]
    return tuple(float(power / mpmath.mpf(width) ** k) for k, power in reversed(list(enumerate(powers))))


def beyond(start: int) -> Reference:
    return lambda t: 2 * start / (1 + t)


def middle(t: mpmath.mpf) -> mpmath.mpf:
    return mpmath.mpf("3.75") + mpmath.mpf("1.25") * t


def times_root(function: Reference) -> Reference:
    return lambda x: function(x) * mpmath.sqrt(x)


def decaying_airy(zeta: mpmath.mpf) -> mpmath.mpf:
    x = (zeta * 3 / 2) ** (mpmath.mpf(2) / 3)
    return mpmath.exp(zeta) * mpmath.airyai(x) * 2 * mpmath.sqrt(mpmath.pi) * mpmath.root(x, 4)


def log_gamma_without_zeros(x: mpmath.mpf) -> mpmath.mpf:
    return mpmath.loggamma(x) / ((x - 1) * (x - 2))


FITS = {
    "Y0": (partial(mpmath.bessely, 0), middle, "1.25"),
    "Y1": (partial(mpmath.bessely, 1), middle, "1.25"),
    "I0": (times_root(scaled(mpmath.besseli, 0, -1)), beyond(5)),
    "I1": (times_root(scaled(mpmath.besseli, 1, -1)), beyond(5)),
    "K0": (times_root(scaled(besselk, 0, 1)), beyond(1)),
    "K1": (times_root(scaled(besselk, 1, 1)), beyond(1)),
    "AI_NEAR": (lambda x: mpmath.exp(x) * mpmath.airyai(x), lambda t: 1 + mpmath.mpf("1.1") * t, "1.1"),
    "AI_BELOW": (mpmath.airyai, lambda t: mpmath.mpf("1.1") * t - 1, "1.1"),
    "AI_FAR": (decaying_airy, beyond(2)),
    "LOG_GAMMA": (log_gamma_without_zeros, lambda t: mpmath.mpf("1.75") + mpmath.mpf("0.75") * t, "0.75"),
}


@pytest.mark.parametrize("name", FITS)
def test_the_fits_are_those_of_their_functions(name):
    with mpmath.workdps(40):
        assert fitted(*FITS[name]) == getattr(fits, name)

"""Modified Bessel functions of order 0 and 1, computed in f64: power series near 0, fitted polynomials beyond.

Formulas by their numbers in Abramowitz and Stegun, "Handbook of Mathematical Functions". Those that oscillate are in `bessel_airy.py`.
"""

import math
from functools import cache, partial

from ..elementwise.pointwise import register_unary
from ..support.operands import Emit
from ..support.scalars import Scalar, polynomial, select
from . import fits
from .gamma_erf import EULER, in_double

# Where the fits begin. Up to there the series of I has few terms and no large argument, whose rounding it would take in as an exponential
# does, and the terms of K, of both signs, are hardly larger than their sum.
NEAR_I, NEAR_K = 5.0, 1.0
FAR_I, FAR_K = (fits.I0, fits.I1), (fits.K0, fits.K1)


@cache
def power_series(order: int, terms: int) -> tuple[float, ...]:
    """I_n(x) (2/x)^n in x²/4 (9.6.10): all terms are positive. The highest power first."""
    return tuple(1.0 / (math.factorial(k) * math.factorial(k + order)) for k in reversed(range(terms)))


def near_i(order: int, x: Scalar) -> Scalar:
    series = polynomial(x * x * 0.25, power_series(order, 18))
    return series * x * 0.5 if order else series


def beyond(x: Scalar, start: float, coefficients: tuple[float, ...]) -> Scalar:
    """A fit from `start` on, whose argument runs from 1 there to -1, over the root of `x`."""
    return polynomial(2.0 * start / x - 1.0, coefficients) / x.sqrt()


def modified_i(order: int, scaled: bool, x: Scalar) -> Scalar:
    """I_n(x), by exp(-|x|) with `scaled`."""
    size = x.abs()
    near, far = near_i(order, size), beyond(size, NEAR_I, FAR_I[order])
    if scaled:
        near = near * (-size).exp()
    else:
        far = far * size.exp()
    value = select(size > NEAR_I, far, near)
    return select(x < 0.0, -value, value) if order else value


@cache
def logarithmic_series(order: int) -> tuple[float, ...]:
    """The sum in K_n that does not have the logarithm (9.6.13, 9.6.11), in x²/4, for x up to 1. The highest power first."""
    harmonic = [sum(1.0 / j for j in range(1, k + 1)) for k in range(12)]
    if order == 0:
        return tuple((harmonic[k] - EULER) / math.factorial(k) ** 2 for k in reversed(range(10)))
    sums = [harmonic[k] + harmonic[k + 1] - 2 * EULER for k in range(10)]
    return tuple(sums[k] / (math.factorial(k) * math.factorial(k + 1)) for k in reversed(range(10)))


def modified_k(order: int, scaled: bool, x: Scalar) -> Scalar:
    """K_n(x), by exp(x) with `scaled`; infinite at 0, NaN below."""
    quarter = x * x * 0.25
    series = polynomial(quarter, logarithmic_series(order))
    logarithm = (x * 0.5).log()
    growing = polynomial(quarter, power_series(order, 10))
    near = 1.0 / x + x * 0.5 * (logarithm * growing - series * 0.5) if order else series - logarithm * growing
    far = beyond(x, NEAR_K, FAR_K[order])
    if scaled:
        near = near * x.exp()
    else:
        far = far * (-x).exp()
    value = select(x <= NEAR_K, near, far)
    return select(x.eq(0.0), math.inf, select(x < 0.0, math.nan, value))


FUNCTIONS: dict[str, Emit] = {
    "i0": partial(modified_i, 0, False),
    "special_i0e": partial(modified_i, 0, True),
    "special_i1": partial(modified_i, 1, False),
    "special_i1e": partial(modified_i, 1, True),
    "special_modified_bessel_i0": partial(modified_i, 0, False),
    "special_modified_bessel_i1": partial(modified_i, 1, False),
    "special_modified_bessel_k0": partial(modified_k, 0, False),
    "special_modified_bessel_k1": partial(modified_k, 1, False),
    "special_scaled_modified_bessel_k0": partial(modified_k, 0, True),
    "special_scaled_modified_bessel_k1": partial(modified_k, 1, True),
}
register_unary({name: in_double(function) for name, function in FUNCTIONS.items()})

"""Modified Bessel functions of order 0 and 1, computed in f64: power series, asymptotic series, and a Chebyshev series between.

Formulas by their numbers in Abramowitz and Stegun, "Handbook of Mathematical Functions". The coefficients are computed here, from
the formulas. Those that oscillate are in `bessel_airy.py`.
"""

import math
from functools import cache, partial

from ..elementwise.pointwise import register_unary
from ..support.operands import Emit
from ..support.scalars import Scalar, polynomial, select
from .gamma_erf import EULER, in_double

NEAR = 25.0  # the power series of I up to here, the asymptotic series from here


@cache
def power_series(order: int) -> tuple[float, ...]:
    """I_n(x) (2/x)^n in x²/4 (9.6.10): all terms are positive. The highest power first."""
    return tuple(1.0 / (math.factorial(k) * math.factorial(k + order)) for k in reversed(range(75)))


@cache
def asymptotic_series(order: int) -> tuple[float, ...]:
    """sqrt(2 pi x) exp(-x) I_n(x) in 1/x (9.7.1). The highest power first."""
    terms = [1.0]
    for k in range(1, 25):
        terms.append(-terms[-1] * (4 * order**2 - (2 * k - 1) ** 2) / (8 * k))
    return tuple(reversed(terms))


def scaled_i(order: int, x: Scalar) -> Scalar:
    """exp(-|x|) I_n(x)."""
    size = x.abs()
    near = polynomial(size * size * 0.25, power_series(order)) * (-size).exp()
    if order:
        near = near * size * 0.5
    far = polynomial(1.0 / size, asymptotic_series(order)) / (size.sqrt() * math.sqrt(2.0 * math.pi))
    value = select(size > NEAR, far, near)
    return select(x < 0.0, -value, value) if order else value


def unscaled_i(order: int, x: Scalar) -> Scalar:
    return scaled_i(order, x) * x.abs().exp()


@cache
def logarithmic_series(order: int) -> tuple[float, ...]:
    """The sum in K_n that does not have the logarithm (9.6.13, 9.6.11), in x²/4, for x up to 2. The highest power first."""
    harmonic = [sum(1.0 / j for j in range(1, k + 1)) for k in range(16)]
    if order == 0:
        return tuple((harmonic[k] - EULER) / math.factorial(k) ** 2 for k in reversed(range(14)))
    sums = [harmonic[k] + harmonic[k + 1] - 2 * EULER for k in range(14)]
    return tuple(sums[k] / (math.factorial(k) * math.factorial(k + 1)) for k in reversed(range(14)))


def _tail_of_k(order: int, x: float) -> float:
    """sqrt(x) exp(x) K_n(x) by the trapezoidal rule on 9.6.24, which converges faster than any power of the step."""
    step, terms = 0.1 / math.sqrt(x), [0.5]
    while terms[-1] >= 1e-20:
        t = len(terms) * step
        # cosh(t) - 1, which cancels where x is large and t small, is 2 sinh(t/2)².
        terms.append(math.exp(-2.0 * x * math.sinh(t / 2.0) ** 2) * math.cosh(order * t))
    return math.fsum(terms) * step * math.sqrt(x)


@cache
def chebyshev_series(order: int) -> tuple[float, ...]:
    """sqrt(x) exp(x) K_n(x), x from 2 on, in Chebyshev polynomials of 4/x - 1."""
    count = 40
    cosines = [
        math.cos(math.pi * n / (2 * count)) for n in range(4 * count)
    ]  # of whole numbers of angles, which no product rounds
    values = [_tail_of_k(order, 4.0 / (1.0 + cosines[j])) for j in range(1, 2 * count, 2)]
    series = [
        2.0 / count * math.fsum(v * cosines[k * (2 * j + 1) % (4 * count)] for j, v in enumerate(values))
        for k in range(28)
    ]
    return (series[0] / 2, *series[1:])


def clenshaw(x: Scalar, series: tuple[float, ...]) -> Scalar:
    """The sum of `series[k]` T_k(x)."""
    last, before = x.like(0.0), x.like(0.0)
    for coefficient in reversed(series[1:]):
        last, before = x * 2.0 * last - before + coefficient, last
    return x * last - before + series[0]


def scaled_k(order: int, x: Scalar) -> Scalar:
    """exp(x) K_n(x); infinite at 0, NaN below."""
    quarter = x * x * 0.25
    series = polynomial(quarter, logarithmic_series(order))
    logarithm = (x * 0.5).log()
    growing = polynomial(quarter, power_series(order)[-16:])
    near = 1.0 / x + x * 0.5 * (logarithm * growing - series * 0.5) if order else series - logarithm * growing
    far = clenshaw(4.0 / x - 1.0, chebyshev_series(order)) / x.sqrt()
    value = select(x <= 2.0, near * x.exp(), far)
    return select(x.eq(0.0), math.inf, select(x < 0.0, math.nan, value))


def unscaled_k(order: int, x: Scalar) -> Scalar:
    return scaled_k(order, x) * (-x).exp()


FUNCTIONS: dict[str, Emit] = {
    "i0": partial(unscaled_i, 0),
    "special_i0e": partial(scaled_i, 0),
    "special_i1": partial(unscaled_i, 1),
    "special_i1e": partial(scaled_i, 1),
    "special_modified_bessel_i0": partial(unscaled_i, 0),
    "special_modified_bessel_i1": partial(unscaled_i, 1),
    "special_modified_bessel_k0": partial(unscaled_k, 0),
    "special_modified_bessel_k1": partial(unscaled_k, 1),
    "special_scaled_modified_bessel_k0": partial(scaled_k, 0),
    "special_scaled_modified_bessel_k1": partial(scaled_k, 1),
}
register_unary({name: in_double(function) for name, function in FUNCTIONS.items()})

"""The regularized incomplete gamma functions P (`igamma`) and Q = 1 - P (`igammac`) of f32 and narrower, computed in f64.

Each pair (a, x) belongs to one of four regions, in which one of P and Q is computed without cancellation, by a number of terms that does not
depend on them: Temme's uniform expansion where x is near a large a, the power series of P where x <= a, one of Q where x is small, Legendre's
continued fraction elsewhere. Together they are good to 1e-9; f64 goes to ATen. Formulas by their numbers in the Digital Library of Mathematical
Functions (DLMF, https://dlmf.nist.gov); the coefficients are computed here, from the formulas.
"""

import math
from fractions import Fraction
from functools import cache, partial

import torch

from ..conversion import Conversion, NoRule, rule
from .operands import dtype_of_result, elementwise
from .scalars import Scalar, polynomial, select
from .special import in_double, lgamma

LARGE = 12.0  # an `a` from which on Temme's expansion holds, where x / a is within NEAR of 1
NEAR = 0.4
SMALL = 1.5  # an x up to which Q has a power series
ORDERS, POWERS = 7, 14  # of Temme's expansion: powers of 1/a, and of eta in each
TERMS = {"series of P": 45, "series of Q": 24, "fraction": 32}
EULER = 0.57721566490153286


@cache
def temme_coefficients() -> list[tuple[float, ...]]:
    """c_k(eta) of DLMF 8.12.9 as power series, the highest power first, k from 0.

    mu = x/a - 1 is a power series in eta, as mu mu' = eta (1 + mu); c_0 = 1/mu - 1/eta, and c_k = c_(k-1)' / eta + g_k / mu, where g_k is the
    number for which the poles at 0 cancel.
    """
    count = POWERS + 2 * ORDERS + 2
    mu = [Fraction(0), Fraction(1)]
    for n in range(2, count + 2):
        inner = sum(mu[i] * (n + 1 - i) * mu[n + 1 - i] for i in range(2, n))
        mu.append((mu[n - 1] - inner) / (n + 1))
    inverse = [Fraction(1)]  # of mu / eta
    for n in range(1, count + 1):
        inverse.append(-sum((mu[i + 1] * inverse[n - i] for i in range(1, n + 1)), Fraction(0)))
    reciprocal = inverse[1:]  # of mu, without its pole
    orders, series = [], list(reciprocal)
    for _ in range(ORDERS):
        orders.append(tuple(float(c) for c in reversed(series[:POWERS])))
        pole = -series[1]
        series = [(n + 2) * series[n + 2] + pole * reciprocal[n] for n in range(len(series) - 2)]
    return orders


@cache
def lgamma1p_coefficients() -> tuple[float, ...]:
    """log gamma(1 + a) / a in a, for a up to 0.2 (DLMF 5.7.3). The highest power first."""
    return tuple(reversed([-EULER, *((-1) ** k * _zeta(k) / k for k in range(2, 20))]))


def _zeta(k: int) -> float:
    """Riemann's function: a thousand terms, and the rest by the formula of Euler and Maclaurin."""
    end = 1000.5
    return sum(n**-k for n in range(1, 1001)) + end ** (1 - k) / (k - 1) - k * end ** (-k - 1) / 24


def stirling(a: Scalar) -> Scalar:
    """log of gamma(a + 1) / (sqrt(2 pi a) a^a exp(-a)), from 12 on (DLMF 5.11.1)."""
    return polynomial(1.0 / (a * a), (-1 / 1680, 1 / 1260, -1 / 360, 1 / 12)) / a


def log_gamma1p(a: Scalar) -> Scalar:
    """log gamma(1 + a), exact to a relative error near 0."""
    return select(a < 0.2, polynomial(a, lgamma1p_coefficients()) * a, lgamma(a + 1.0))


def p_and_q(a: Scalar, x: Scalar) -> tuple[Scalar, Scalar]:
    """P and Q of positive, finite `a` and `x`: x^a exp(-x) / gamma(a + 1) is `front` in what follows."""
    mu = (x - a) / a
    half_square = mu - mu.log1p()  # eta² / 2
    moderate = a < LARGE
    logarithm = a * x.log() - log_gamma1p(a)
    root = (a * (2.0 * math.pi)).sqrt()
    front = select(moderate, logarithm - x, -(a * half_square) - stirling(a)).exp() / select(moderate, 1.0, root)

    # DLMF 8.12.3 and 8.12.7
    eta = (half_square * 2.0).sqrt().copysign(mu)
    *orders, last = [polynomial(eta, coefficients) for coefficients in temme_coefficients()]
    rest = last
    for order in reversed(orders):
        rest = rest / a + order
    rest = rest * (-(a * half_square)).exp() / root
    point = eta * (a * 0.5).sqrt()
    temme_p = (-point).call("math.erfc") * 0.5 - rest
    temme_q = point.call("math.erfc") * 0.5 + rest

    series = x.like(1.0)  # DLMF 8.7.1, from its last term
    for n in range(TERMS["series of P"], 0, -1):
        series = series * x / (a + float(n)) + 1.0
    series_p = front * series

    # DLMF 8.7.1 with 8.2.4: 1 - x^a / gamma(a + 1) (1 + a sum_n (-x)^n / (n! (a + n)))
    total, power = x.like(0.0), x.like(1.0)
    for n in range(1, TERMS["series of Q"] + 1):
        power = power * x * (-1.0 / n)
        total = total + power / (a + float(n))
    small_q = -logarithm.call("math.expm1") - logarithm.exp() * a * total

    fraction = x - a + (2.0 * TERMS["fraction"] + 1.0)  # DLMF 8.9.2, from its end
    for n in range(TERMS["fraction"], 0, -1):
        fraction = x - a + (2.0 * n - 1.0) + (a - float(n)) * float(n) / fraction
    fraction_q = front * a / fraction

    near = (mu.abs() < NEAR) & (a >= LARGE)
    below = x <= a
    right_q = select(x < SMALL, small_q, fraction_q)
    p = select(near, temme_p, select(below, series_p, 1.0 - right_q))
    q = select(near, temme_q, select(below, 1.0 - series_p, right_q))
    return p, q


def igamma(a: Scalar, x: Scalar, *, upper: bool) -> Scalar:
    """P, or Q if `upper`. At the ends of the ranges eager's values, which has the last of these conditions first."""
    one, zero = (0.0, 1.0) if upper else (1.0, 0.0)  # where P is 1, where it is 0
    value = select(x.isinf(), one, p_and_q(a, x)[upper])
    value = select(a.isinf(), select(x.isinf(), math.nan, x.like(zero)), value)
    value = select(x.eq(0.0), zero, value)
    value = select(a.eq(0.0), select(x > 0.0, one, x.like(math.nan)), value)
    return select((x < 0.0) | (a < 0.0), math.nan, value)


def _igamma_rule(upper: bool, c: Conversion, a, x):
    if dtype_of_result(c) == torch.float64:
        raise NoRule("an incomplete gamma function in f64")
    return elementwise(c, in_double(partial(igamma, upper=upper)), a, x)


rule("aten.igamma.default")(partial(_igamma_rule, False))
rule("aten.igammac.default")(partial(_igamma_rule, True))

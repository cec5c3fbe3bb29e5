"""The regularized incomplete gamma functions P (`igamma`) and Q = 1 - P (`igammac`), computed in f64.

Each pair (a, x) belongs to one of four regions, in which one of P and Q is computed without cancellation: Temme's uniform expansion where x
is near a large a, the power series of P where x <= a, one of Q where x is small, Legendre's continued fraction elsewhere. The second and the
last take as many terms as each pair needs. Formulas by their numbers in the Digital Library of Mathematical Functions (DLMF,
https://dlmf.nist.gov); the coefficients are computed here, from the formulas.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial

import torch

from ...conversion.context import Conversion
from ...conversion.registry import rule
from ..support.operands import dtype_of_result, elementwise
from ..support.scalars import Scalar, polynomial, select
from ..support.while_loops import repeat
from .gamma_erf import EULER, STIRLING, hurwitz, in_double, lgamma

MODERATE = 10.0  # an `a` up to which gamma(a + 1) is taken as it is, and beyond which by Stirling's series
SMALL = 1.5  # an x up to which Q has a power series ...
SMALL_TERMS = 24  # ... of so many terms
CLOSE = 0.4  # a distance of x / a from 1 up to which its logarithm would cancel


@dataclass(frozen=True)
class Accuracy:
    """`epsilon`: the relative size of a term that is not needed; `large`: an `a` from which on Temme's expansion holds, where x / a is within
    `near` (at most `CLOSE`) of 1, with powers of 1/a up to `orders` and so many `powers` of eta in each."""

    epsilon: float
    large: float
    near: float
    orders: int
    powers: int


ACCURACY = {
    True: Accuracy(2.0**-54, 30.0, 0.3, 10, 20),
    False: Accuracy(2.0**-32, 12.0, 0.4, 7, 14),
}  # of f64, of the others


@cache
def temme_coefficients(highest: int, powers: int) -> list[tuple[float, ...]]:
    """c_k(eta) of DLMF 8.12.9 as power series, the highest power first, k from 0.

    mu = x/a - 1 is a power series in eta, as mu mu' = eta (1 + mu); c_0 = 1/mu - 1/eta, and c_k = c_(k-1)' / eta + g_k / mu, where g_k is the
    number for which the poles at 0 cancel.
    """
    count = powers + 2 * highest + 2
    mu = [Fraction(0), Fraction(1)]
    for n in range(2, count + 2):
        inner = sum(mu[i] * (n + 1 - i) * mu[n + 1 - i] for i in range(2, n))
        mu.append((mu[n - 1] - inner) / (n + 1))
    inverse = [Fraction(1)]  # of mu / eta
    for n in range(1, count + 1):
        inverse.append(-sum((mu[i + 1] * inverse[n - i] for i in range(1, n + 1)), Fraction(0)))
    reciprocal = inverse[1:]  # of mu, without its pole
    orders, series = [], list(reciprocal)
    for _ in range(highest):
        orders.append(tuple(float(c) for c in reversed(series[:powers])))
        pole = -series[1]
        series = [(n + 2) * series[n + 2] + pole * reciprocal[n] for n in range(len(series) - 2)]
    return orders


@cache
def lgamma1p_coefficients() -> tuple[float, ...]:
    """log gamma(1 + a) / a in a, for a up to 0.2 (DLMF 5.7.3). The highest power first."""
    return tuple(reversed([-EULER, *((-1) ** k * hurwitz(k, 1.0) / k for k in range(2, 26))]))


def stirling(a: Scalar) -> Scalar:
    """log of gamma(a + 1) / (sqrt(2 pi a) a^a exp(-a)), from 10 on (DLMF 5.11.1)."""
    return polynomial(1.0 / (a * a), STIRLING) / a


def log_gamma1p(a: Scalar) -> Scalar:
    """log gamma(1 + a), exact to a relative error near 0."""
    return select(a < 0.2, polynomial(a, lgamma1p_coefficients()) * a, lgamma(a + 1.0))


def half_square_of_eta(a: Scalar, x: Scalar, mu: Scalar) -> Scalar:
    """mu - log(1 + mu), mu = x / a - 1 (DLMF 8.12.1); near 0, where that cancels, by the series of the logarithm in mu / (2 + mu)."""
    r = mu / (mu + 2.0)
    square = r * r
    tail = polynomial(square, tuple(2.0 / (2 * k + 3) for k in reversed(range(15))))
    return select(mu.abs() < CLOSE, r * (mu - square * tail), mu - (x / a).log())


def series_of_p(front: Scalar, a: Scalar, x: Scalar, wanted: Scalar, epsilon: float) -> Scalar:
    """DLMF 8.7.1."""

    def step(term: Scalar, total: Scalar, place: Scalar) -> list[Scalar]:
        place = place + 1.0
        term = term * x / place
        return [term, total + term, place]

    one = x.like(1.0)
    return front * repeat([one, one, a], lambda term, total, _: wanted & (term > total * epsilon), step)[1]


def fraction_of_q(front: Scalar, a: Scalar, x: Scalar, wanted: Scalar, epsilon: float) -> Scalar:
    """DLMF 8.9.2 as a sum, whose terms are the differences of its convergents: each is the one before times a quotient (Steed's method)."""
    start = x - a + 1.0

    def step(term: Scalar, total: Scalar, inverse: Scalar, n: Scalar) -> list[Scalar]:
        numerator = n * (a - n)
        after = 1.0 / (start + n * 2.0 + numerator * inverse)
        term = -(term * numerator * inverse * after)
        return [term, total + term, after, n + 1.0]

    def goes_on(term: Scalar, total: Scalar, inverse: Scalar, n: Scalar) -> Scalar:
        return wanted & (term.abs() > total * epsilon)

    first = 1.0 / start
    return front * a * repeat([first, first, first, x.like(1.0)], goes_on, step)[1]


def series_of_q(logarithm: Scalar, a: Scalar, x: Scalar) -> Scalar:
    """DLMF 8.7.1 with 8.2.4: 1 - x^a / gamma(a + 1) (1 + a sum_n (-x)^n / (n! (a + n)))."""
    total, power = x.like(0.0), x.like(1.0)
    for n in range(1, SMALL_TERMS + 1):
        power = power * x * (-1.0 / n)
        total = total + power / (a + float(n))
    return -logarithm.call("math.expm1") - logarithm.exp() * a * total


def temme(a: Scalar, mu: Scalar, half_square: Scalar, accuracy: Accuracy) -> tuple[Scalar, Scalar]:
    """P and Q by DLMF 8.12.3 and 8.12.7."""
    eta = (half_square * 2.0).sqrt().copysign(mu)
    *orders, last = [
        polynomial(eta, coefficients) for coefficients in temme_coefficients(accuracy.orders, accuracy.powers)
    ]
    rest = last
    for order in reversed(orders):
        rest = rest / a + order
    rest = rest * (-(a * half_square)).exp() / (a * (2.0 * math.pi)).sqrt()
    point = eta * (a * 0.5).sqrt()
    return (-point).call("math.erfc") * 0.5 - rest, point.call("math.erfc") * 0.5 + rest


def p_and_q(a: Scalar, x: Scalar, accuracy: Accuracy) -> tuple[Scalar, Scalar]:
    """P and Q of positive, finite `a` and `x`: x^a exp(-x) / gamma(a + 1) is `front` in what follows."""
    mu = (x - a) / a
    half_square = half_square_of_eta(a, x, mu)
    moderate = a < MODERATE
    logarithm = a * x.log() - log_gamma1p(a)
    exponent = select(moderate, logarithm - x, -(a * half_square) - stirling(a))
    front = exponent.exp() / select(moderate, 1.0, (a * (2.0 * math.pi)).sqrt())

    regular = (a > 0.0) & (a < math.inf) & (x > 0.0) & (x < math.inf)
    near = (mu.abs() < accuracy.near) & (a >= accuracy.large)
    below, small = x <= a, x < SMALL
    left, right = regular & below & ~near, regular & ~below & ~near & ~small
    series_p = series_of_p(front, a, x, left, accuracy.epsilon)
    fraction_q = fraction_of_q(front, a, x, right, accuracy.epsilon)
    right_q = select(small, series_of_q(logarithm, a, x), fraction_q)
    temme_p, temme_q = temme(a, mu, half_square, accuracy)
    p = select(near, temme_p, select(below, series_p, 1.0 - right_q))
    q = select(near, temme_q, select(below, 1.0 - series_p, right_q))
    return p, q


def igamma(a: Scalar, x: Scalar, *, upper: bool, accuracy: Accuracy) -> Scalar:
    """P, or Q if `upper`. At the ends of the ranges eager's values, which has the last of these conditions first."""
    one, zero = (0.0, 1.0) if upper else (1.0, 0.0)  # where P is 1, where it is 0
    value = select(x.isinf(), one, p_and_q(a, x, accuracy)[upper])
    value = select(a.isinf(), select(x.isinf(), math.nan, x.like(zero)), value)
    value = select(x.eq(0.0), zero, value)
    value = select(a.eq(0.0), select(x > 0.0, one, x.like(math.nan)), value)
    return select((x < 0.0) | (a < 0.0), math.nan, value)


def _igamma_rule(upper: bool, c: Conversion, a, x):
    accuracy = ACCURACY[dtype_of_result(c) == torch.float64]
    return elementwise(c, in_double(partial(igamma, upper=upper, accuracy=accuracy)), a, x)


rule("aten.igamma.default")(partial(_igamma_rule, False))
rule("aten.igammac.default")(partial(_igamma_rule, True))

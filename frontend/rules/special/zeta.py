"""Hurwitz's zeta function and the polygamma functions, computed in f64.

Formulas by their numbers in the Digital Library of Mathematical Functions (DLMF, https://dlmf.nist.gov).
"""

import math
from fractions import Fraction
from functools import cache, partial

from ...conversion.registry import rule
from ..elementwise.pointwise import register_binary
from ..support.operands import elementwise
from ..support.scalars import Scalar, select
from ..support.while_loops import repeat
from .gamma_erf import digamma, in_double, trigamma

TERMS = 10.0  # summed as they are
CORRECTIONS = 12
EPSILON = 2.0**-53


@cache
def bernoulli_ratios() -> tuple[float, ...]:
    """B_2k / (2k)!, k from 1."""
    numbers = [Fraction(1)]
    for m in range(1, 2 * CORRECTIONS + 1):
        numbers.append(-sum((math.comb(m + 1, k) * numbers[k] for k in range(m)), Fraction(0)) / (m + 1))
    return tuple(float(numbers[2 * k] / math.factorial(2 * k)) for k in range(1, CORRECTIONS + 1))


def zeta(s: Scalar, a: Scalar) -> Scalar:
    """The sum of (a + k)**-s over k from 0 (25.11.1): the first terms, and those of a negative `a`, as they are, the rest by the formula of
    Euler and Maclaurin (25.11.5).

    Infinite for s = 1 and at the poles, a = 0, -1, ...; NaN for s < 1, and for a < 0 unless s is whole; at infinities what eager gives.
    """
    pole = (a <= 0.0) & a.call("math.floor").eq(a)
    real = (a > 0.0) | s.call("math.floor").eq(s)
    regular = (s > 1.0) & real & ~pole & (s < math.inf) & (a < math.inf)
    power = -s

    def unsettled(term: Scalar, total: Scalar, place: Scalar, count: Scalar) -> Scalar:
        few = (count < TERMS - 1.0) | (place < TERMS)
        return regular & few & ((place < 0.0) | (term.abs() > total.abs() * EPSILON))

    def add(term: Scalar, total: Scalar, place: Scalar, count: Scalar) -> list[Scalar]:
        place = place + 1.0
        term = place.call("math.powf", power)
        return [term, total + term, place, count + 1.0]

    first = a.call("math.powf", power)
    term, total, place, _ = repeat([first, first, a, a.like(0.0)], unsettled, add)
    rest = term * place / (s - 1.0) - term * 0.5
    factor, square = s / place, 1.0 / (place * place)
    for k, ratio in enumerate(bernoulli_ratios(), 1):
        rest = rest + factor * ratio * term
        factor = factor * (s + (2.0 * k - 1.0)) * (s + 2.0 * k) * square
    value = select(term.abs() <= total.abs() * EPSILON, total, total + rest)
    endless = select(a < 1.0, math.inf, select(a.eq(1.0), 1.0, a.like(math.nan)))
    value = select(s.eq(math.inf), endless, select(a.eq(math.inf), math.nan, value))
    value = select(real, value, math.nan)
    value = select(pole | s.eq(1.0), math.inf, value)
    return select(s < 1.0, math.nan, value)


def polygamma(n: int, x: Scalar) -> Scalar:
    """The derivative number `n`, from 2 on, of digamma (25.11.12)."""
    factorial = float(math.factorial(n)) if n <= 170 else math.inf
    return zeta(x.like(n + 1.0), x) * (factorial if n % 2 else -factorial)


register_binary({f"special_zeta.{kind}": in_double(zeta) for kind in ("default", "self_scalar", "other_scalar")})


@rule("aten.polygamma.default")
def polygamma_rule(c, n, x):
    if n == 1:
        return elementwise(c, trigamma, x)
    return elementwise(c, in_double(partial(polygamma, n) if n else digamma), x)

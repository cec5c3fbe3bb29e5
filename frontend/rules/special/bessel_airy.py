"""Bessel functions J and Y of order 0 and 1, and Airy's Ai, computed in f64: approximations near 0, amplitude and phase beyond.

Formulas by their numbers in Abramowitz and Stegun, "Handbook of Mathematical Functions". Their f64 is good to a few units of the largest
value around; eager's, whose denominators lack their leading 1, to 1e-6 between 2 and 20.
"""

import math
from functools import partial

from ..elementwise.pointwise import register_unary
from ..support.operands import Emit
from ..support.scalars import Scalar, polynomial, select
from . import bessel_tables as tables
from . import fits
from .bessel_tables import Rational
from .gamma_erf import in_double

NEAR = 5.0
# The squares of the first two zeros.
ZEROS = (
    (5.783185962946784521175995758455807035071, 30.471262343662086399078163175),
    (14.6819706421238932572, 49.2184563216946036703),
)
HANKEL = ((tables.P0, tables.Q0), (tables.P1, tables.Q1))
NEAR_J, NEAR_Y = (tables.J0, tables.J1), (tables.Y0, tables.Y1)
BETWEEN_Y, FITS_Y = 2.5, (fits.Y0, fits.Y1)  # up to NEAR
AIRY_NEAR = 2.09
AIRY_ZERO = 103.892  # Ai(x) of f64 is 0 from here on
TWO_THIRDS, TWO_THIRDS_LOW = 2.0 / 3.0, 2.0**-54 * 2.0 / 3.0  # their sum is 2/3 to twice the digits


def quotient(x: Scalar, of: Rational) -> Scalar:
    return polynomial(x, of.numerator) / polynomial(x, of.denominator)


def near_j(order: int, x: Scalar) -> Scalar:
    square = x * x
    first, second = ZEROS[order]
    value = quotient(square, NEAR_J[order]) * (square - first) * (square - second)
    return value * x if order else select(square < 1e-10, 1.0 - square * 0.25, value)


def far(order: int, x: Scalar) -> tuple[Scalar, Scalar]:
    """J and Y by their amplitude and phase (9.2.5, 9.2.6), x from 5 on. The phase is not taken off x, which would round it."""
    inverse = NEAR / x
    p, q = (quotient(inverse * inverse, of) for of in HANKEL[order])
    q = q * inverse
    sine, cosine = x.call("math.sin"), x.call("math.cos")
    # Of the phase x - pi/4, or x - 3 pi/4; both by sqrt(2).
    up, along = (sine - cosine, sine + cosine) if order == 0 else (-(sine + cosine), sine - cosine)
    amplitude = (1.0 / math.sqrt(math.pi)) / x.sqrt()
    return (p * along - q * up) * amplitude, (p * up + q * along) * amplitude


def bessel_j(order: int, x: Scalar) -> Scalar:
    size = x.abs()
    value = select(size <= NEAR, near_j(order, size), far(order, size)[0])
    return value * x.like(1.0).copysign(x) if order else value


def bessel_y(order: int, x: Scalar) -> Scalar:
    """-infinity at 0, NaN below."""
    logarithm = near_j(order, x) * x.log()
    rest = quotient(x * x, NEAR_Y[order])
    if order:
        rest, logarithm = rest * x, logarithm - 1.0 / x
    # Between, the two would cancel.
    near = select(x < BETWEEN_Y, rest + logarithm * (2.0 / math.pi), polynomial(x - 3.75, FITS_Y[order]))
    value = select(x <= NEAR, near, far(order, x)[1])
    return select(x.eq(0.0), -math.inf, select(x < 0.0, math.nan, value))


def _zeta(size: Scalar) -> tuple[Scalar, Scalar]:
    """2/3 size^(3/2), and what its rounding loses, which the sine and the exponential of a large number would take in."""
    root = size.sqrt()
    power = size * root
    rest = size.call("math.fma", root, -power) + (-root).call("math.fma", root, size) * root * 0.5
    zeta = power * TWO_THIRDS
    low = power.call("math.fma", TWO_THIRDS, -zeta) + power * TWO_THIRDS_LOW + rest * TWO_THIRDS
    return zeta, select(low.abs() < 0.1, low, 0.0)  # beyond, a unit of `size` is more than a turn of the phase


def _airy_far(x: Scalar) -> tuple[Scalar, Scalar]:
    """Ai by its exponential, x from 2.09 on, and by its sine and cosine, x up to -2.09."""
    size = x.abs()
    zeta, low = _zeta(size)
    inverse = 1.0 / zeta
    front = (1.0 / math.sqrt(math.pi)) / size.sqrt().sqrt()
    decaying = front * 0.5 * polynomial(inverse * 4.0 - 1.0, fits.AI_FAR) * ((-zeta).exp() * (1.0 - low))
    # 10.4.60: the phase is zeta + pi/4.
    square = inverse * inverse
    s, c = zeta.call("math.sin"), zeta.call("math.cos")
    sine, cosine = s + low * c, c - low * s  # of zeta + low
    f = quotient(square, tables.AF) * square + 1.0
    g = quotient(square, tables.AG) * inverse
    return decaying, front * math.sqrt(0.5) * ((sine + cosine) * f - (cosine - sine) * g)


def airy_ai(x: Scalar) -> Scalar:
    """NaN at infinities, as in eager."""
    # Fits, not the series at 0, whose two sums cancel from 1 on.
    near = select(x >= 0.0, polynomial(x - 1.0, fits.AI_NEAR) * (-x).exp(), polynomial(x + 1.0, fits.AI_BELOW))
    decaying, oscillating = _airy_far(x)
    value = select(x >= AIRY_NEAR, decaying, select(x < -AIRY_NEAR, oscillating, near))
    value = select(x > AIRY_ZERO, 0.0, value)
    return select(x.isinf(), math.nan, value)


FUNCTIONS: dict[str, Emit] = {
    "special_bessel_j0": partial(bessel_j, 0),
    "special_bessel_j1": partial(bessel_j, 1),
    "special_bessel_y0": partial(bessel_y, 0),
    "special_bessel_y1": partial(bessel_y, 1),
    "special_airy_ai": airy_ai,
}
register_unary({name: in_double(function) for name, function in FUNCTIONS.items()})

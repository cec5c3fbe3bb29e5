"""Special functions, computed in f64 whatever the dtype: by recurrences, asymptotic series and Newton's method on `math.erfc`.

Formulas by their numbers in Abramowitz and Stegun, "Handbook of Mathematical Functions" (A&S).
"""

import math

import torch

from ..elementwise.pointwise import register_unary
from ..support.operands import Emit
from ..support.scalars import Scalar, polynomial, select

EULER = 0.57721566490153286  # Euler's constant
SQRT_HALF = math.sqrt(0.5)
SHIFT = 8  # the asymptotic series below are good to 1e-15 from here on


def in_double(emit: Emit) -> Emit:
    """`emit` of the operands as f64, rounded back."""
    return lambda *operands: emit(*(x.to(torch.float64) for x in operands)).to(operands[0].dtype)


def _turn(x: Scalar) -> tuple[Scalar, Scalar]:
    """x - round(x), of which sin(pi x) and tan(pi x) are computed, and whether x is whole."""
    nearest = x.call("math.roundeven")
    return x - nearest, x.eq(nearest)


# -- the gamma function and its derivatives ------------------------------------------------------------------------------------

STIRLING = (1 / 156, -691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)  # A&S 6.1.41
DIGAMMA = (1 / 12, -691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12)  # A&S 6.3.18
TRIGAMMA = (7 / 6, -691 / 2730, 5 / 66, -1 / 30, 1 / 42, -1 / 30, 1 / 6)  # A&S 6.4.12


def lgamma(x: Scalar) -> Scalar:
    """log|gamma(x)|: Stirling's series from 8 on, the recurrence below, the reflection formula below 1/2; infinite at the poles."""
    reflect = x < 0.5
    z = select(reflect, 1.0 - x, x)
    small = z < float(SHIFT)
    product = z
    for k in range(1, SHIFT):
        product = product * (z + float(k))
    large = select(small, z + float(SHIFT), z)
    series = polynomial(1.0 / (large * large), STIRLING) / large
    value = (large - 0.5) * (large.log() - 1.0) + (series + (0.5 * math.log(2.0 * math.pi) - 0.5))
    value = value - select(small, product, 1.0).log()
    turn, whole = _turn(x)
    sine = (turn * math.pi).call("math.sin").abs()
    value = select(reflect, (math.pi / sine).log() - value, value)
    value = select(x.eq(1.0) | x.eq(2.0), 0.0, value)
    return select((whole & (x <= 0.0)) | x.isinf(), math.inf, value)


def digamma(x: Scalar) -> Scalar:
    reflect = x < 0.0
    z = select(reflect, 1.0 - x, x)
    small = z < float(SHIFT)
    reciprocals = 1.0 / z
    for k in range(1, SHIFT):
        reciprocals = reciprocals + 1.0 / (z + float(k))
    large = select(small, z + float(SHIFT), z)
    square = 1.0 / (large * large)
    value = large.log() - 0.5 / large - square * polynomial(square, DIGAMMA) - select(small, reciprocals, 0.0)
    turn, whole = _turn(x)
    value = select(reflect, value - math.pi / (turn * math.pi).call("math.tan"), value)
    value = select(whole & reflect, math.nan, value)
    return select(x.eq(0.0), x.like(-math.inf).copysign(-x), value)


def trigamma(x: Scalar) -> Scalar:
    """At the poles, where the function is infinite, the large number that eager gives: it rounds pi in the dtype."""
    return _trigamma(x.to(torch.float64), (x * math.pi).call("math.sin").to(torch.float64)).to(x.dtype)


def _trigamma(x: Scalar, at_pole: Scalar) -> Scalar:
    """`at_pole`: sin(pi x) of whole numbers."""
    reflect = x < 0.5
    z = select(reflect, 1.0 - x, x)
    small = z < float(SHIFT)
    reciprocals = 1.0 / (z * z)
    for k in range(1, SHIFT):
        shifted = z + float(k)
        reciprocals = reciprocals + 1.0 / (shifted * shifted)
    large = select(small, z + float(SHIFT), z)
    square = 1.0 / (large * large)
    value = (1.0 + 0.5 / large + square * polynomial(square, TRIGAMMA)) / large + select(small, reciprocals, 0.0)
    turn, whole = _turn(x)
    sine = select(whole, at_pole, (turn * math.pi).call("math.sin")) * (1.0 / math.pi)
    return select(reflect, 1.0 / (sine * sine) - value, value)


# -- the error function's relatives ------------------------------------------------------------------------------------------

# 1 - 1/2x² + 3/4x⁴ - ..., in 1/x² (A&S 7.1.23), good to 1e-14 from 10 on.
ERFCX = tuple((-1) ** k * math.prod(range(1, 2 * k, 2)) / 2.0**k for k in reversed(range(13)))
# Giles, "Approximating the erfinv function" (2010): single precision, in w = -log(1 - x²), for w below and above 5.
ERFINV_MIDDLE = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
    -0.00125372503, -0.00417768164, 0.246640727, 1.50140941,
)  # fmt: skip
ERFINV_TAIL = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
    -0.0076224613, 0.00943887047, 1.00167406, 2.83297682,
)  # fmt: skip


def erfcx(x: Scalar) -> Scalar:
    """exp(x²) erfc(x), without overflow for large x."""
    near = (x * x).exp() * x.call("math.erfc")
    far = polynomial(1.0 / (x * x), ERFCX) * (1.0 / math.sqrt(math.pi)) / x
    return select(x < 10.0, near, far)


def ndtr(x: Scalar) -> Scalar:
    return (x * -SQRT_HALF).call("math.erfc") * 0.5


def log_ndtr(x: Scalar) -> Scalar:
    scaled = x * SQRT_HALF
    left = (erfcx(-scaled) * 0.5).log() - scaled * scaled
    right = (scaled.call("math.erfc") * -0.5).log1p()
    return select(x < -1.0, left, right)


def erfinv(x: Scalar) -> Scalar:
    """Giles's approximation, then two steps of Newton's method: on erf, and near 1, where that is flat, on erfc."""
    size = x.abs()
    rest = 1.0 - size
    w = -(rest * (size + 1.0)).log()
    middle = polynomial(w - 2.5, ERFINV_MIDDLE)
    tail = polynomial(w.sqrt() - 3.0, ERFINV_TAIL)
    y = select(w < 5.0, middle, tail) * size
    for _ in range(2):
        slope = (-(y * y)).exp() * (2.0 / math.sqrt(math.pi))
        excess = select(size < 0.5, size - y.call("math.erf"), y.call("math.erfc") - rest)
        y = y + excess / slope
    y = select(size.eq(1.0), math.inf, y).copysign(x)
    return select(size <= 1.0, y, math.nan)


def ndtri(p: Scalar) -> Scalar:
    """The x with ndtr(x) = p: Newton's method on log(erfc), from an asymptotic start, in the half where p is small."""
    upper = p > 0.5
    q = select(upper, 1.0 - p, p) * 2.0
    target = q.log()
    y = (-target).sqrt()
    for _ in range(6):
        tail = y.call("math.erfc")
        y = (y + (tail.log() - target) * tail * (y * y).exp() * (math.sqrt(math.pi) / 2.0)).maximum(0.0)
    x = y * math.sqrt(2.0)
    x = select(q.eq(0.0), math.inf, x)
    x = select(q.eq(1.0), 0.0, select(upper, x, -x))
    return select((p >= 0.0) & (p <= 1.0), x, math.nan)


def entr(x: Scalar) -> Scalar:
    """-x log(x), 0 at 0, -infinity below."""
    inside = select(x.eq(0.0), 0.0, -(x * x.log()))
    return select(x < 0.0, -math.inf, inside)


def spherical_bessel_j0(x: Scalar) -> Scalar:
    """sin(x) / x."""
    value = select(x.eq(0.0), 1.0, x.call("math.sin") / x)
    return select(x.isinf(), 0.0, value)


IN_DOUBLE: dict[str, Emit] = {
    "lgamma": lgamma,
    "special_gammaln": lgamma,
    "digamma": digamma,
    "special_psi": digamma,
    "erfinv": erfinv,
    "special_erfinv": erfinv,
    "special_erfcx": erfcx,
    "special_log_ndtr": log_ndtr,
    "special_ndtri": ndtri,
    "special_ndtr": ndtr,
    "special_spherical_bessel_j0": spherical_bessel_j0,
}
register_unary({name: in_double(emit) for name, emit in IN_DOUBLE.items()} | {"special_entr": entr})

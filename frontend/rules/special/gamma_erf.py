"""Special functions, computed in f64 whatever the dtype: by recurrences, asymptotic series and Newton's method on `math.erfc`.

Formulas by their numbers in Abramowitz and Stegun, "Handbook of Mathematical Functions" (A&S).
"""

import math
from functools import cache

import torch

from ..elementwise.pointwise import register_unary
from ..support.operands import Emit
from ..support.scalars import Scalar, polynomial, select
from . import fits

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
DIGAMMA = (-3617 / 8160, 1 / 12, -691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12)  # A&S 6.3.18
DIGAMMA_ZERO, DIGAMMA_ZERO_LOW = 1.4616321449683622, 9.549995429965697e-17  # where digamma is 0, in two parts
# A&S 6.4.12
TRIGAMMA = (-174611 / 330, 43867 / 798, -3617 / 510, 7 / 6, -691 / 2730, 5 / 66, -1 / 30, 1 / 42, -1 / 30, 1 / 6)


def hurwitz(k: int, a: float) -> float:
    """The sum of (a + n)**-k over n from 0: a thousand terms, and the rest by the formula of Euler and Maclaurin."""
    end = a + 999.5
    rest = end ** (1 - k) / (k - 1) - k * end ** (-k - 1) / 24
    return math.fsum([*((a + n) ** -k for n in range(1000)), rest])


def lgamma(x: Scalar) -> Scalar:
    """log|gamma(x)|, infinite at the poles.

    Between -3 and 8 the recurrence leads to a place between 1 and 2.5, of which a fit has the zeros as factors, and the logarithm of its
    product is added: where another zero is near, around -2.5, neither is large. Stirling's series is taken from 8 on, the reflection formula
    below -3.
    """
    reflect = x < -3.0
    z = select(reflect, -x, x)
    steps, taken = _whole_steps(z, (1.0, 2.5), 4, SHIFT - 2)
    over_1, over_2 = z + (steps - 1.0), z + (steps - 2.0)  # where small, z + steps would be rounded
    logarithm = _log_of_product([select(step, place, 1.0) for step, place in taken])
    middle = over_1 * over_2 * polynomial(over_1 - 0.75, fits.LOG_GAMMA) + select(z < 1.0, -logarithm, logarithm)
    series = polynomial(1.0 / (z * z), STIRLING) / z
    large = (z - 0.5) * (z.log() - 1.0) + (series + (0.5 * math.log(2.0 * math.pi) - 0.5))
    value = select(z < float(SHIFT), middle, large)
    turn, whole = _turn(x)
    sine = (turn * math.pi).call("math.sin")
    value = select(reflect, math.log(math.pi) - (z * sine).abs().log() - value, value)
    return select((whole & (x <= 0.0)) | x.isinf(), math.inf, value)


def _log_of_product(factors: list[Scalar]) -> Scalar:
    """log|the product|. Each product's rounding is kept: between -3 and -2, where the two logarithms of `lgamma` cancel, it would show."""
    product = factors[0]
    rest = product.like(0.0)
    for factor in factors[1:]:
        exact = product
        product = exact * factor
        rest = rest * factor + exact.call("math.fma", factor, -product)
    return product.abs().log() + select(rest.eq(0.0), 0.0, rest / product)


def _whole_steps(
    z: Scalar, interval: tuple[float, float], ups: int, downs: int
) -> tuple[Scalar, list[tuple[Scalar, Scalar]]]:
    """How many steps of 1, at most `ups` or -`downs`, lead from `z` to the half-open `interval`, of length 1 or more; and what the recurrence
    takes in on the way, gamma(z + 1) = z gamma(z): whether a step is taken, and its z."""
    steps, taken = z.like(0.0), []
    for number in range(ups + downs):
        place = z + steps
        up = number < ups
        step = place < interval[0] if up else place >= interval[1]
        taken.append((step, place if up else place - 1.0))
        steps = select(step, steps + (1.0 if up else -1.0), steps)
    return steps, taken


@cache
def digamma_coefficients() -> tuple[float, ...]:
    """digamma(DIGAMMA_ZERO + t) / t in t, for |t| up to 1/2: Hurwitz's zeta functions (DLMF 5.15.1). The highest power first."""
    return tuple(reversed([(-1) ** k * hurwitz(k, DIGAMMA_ZERO) for k in range(2, 40)]))


def digamma(x: Scalar) -> Scalar:
    """The derivative of log gamma: Taylor's series at its zero, the recurrence between -3 and 8, the asymptotic series from there on, the
    reflection formula below."""
    reflect = x < -3.0
    z = select(reflect, -x, x)
    least = DIGAMMA_ZERO - 0.5
    steps, taken = _whole_steps(z, (least, least + 1.0), 4, SHIFT - 1)
    t = ((z - DIGAMMA_ZERO) + steps) - DIGAMMA_ZERO_LOW
    # The sum of the reciprocals as one fraction.
    numerator, denominator = z.like(0.0), z.like(1.0)
    for step, place in taken:
        numerator = select(step, numerator * place + denominator, numerator)
        denominator = select(step, denominator * place, denominator)
    reciprocals = numerator / denominator
    middle = t * polynomial(t, digamma_coefficients()) + select(z < least, -reciprocals, reciprocals)
    square = 1.0 / (z * z)
    large = z.log() - 0.5 / z - square * polynomial(square, DIGAMMA)
    value = select(z < float(SHIFT), middle, large)
    turn, whole = _turn(x)
    value = select(reflect, (value + 1.0 / z) - math.pi / (turn * math.pi).call("math.tan"), value)
    value = select(whole & (x < 0.0), math.nan, value)
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
    square = x * x
    rest = select(
        square.isinf(), 0.0, x.call("math.fma", x, -square)
    )  # of the square, which rounds: exp makes that a relative error
    near = square.exp() * (rest + 1.0) * x.call("math.erfc")
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
    size = x.abs()
    y = _inverse_of_erf(size, 1.0 - size).copysign(x)
    return select(size <= 1.0, y, math.nan)


def ndtri(p: Scalar) -> Scalar:
    """The x with ndtr(x) = p: sqrt(2) erfinv(2 p - 1), from the half where p is small."""
    upper = p > 0.5
    rest = select(upper, 1.0 - p, p) * 2.0
    x = _inverse_of_erf(1.0 - rest, rest) * math.sqrt(2.0)
    x = select(upper | rest.eq(1.0), x, -x)
    return select((p >= 0.0) & (p <= 1.0), x, math.nan)


def _inverse_of_erf(size: Scalar, rest: Scalar) -> Scalar:
    """The y with erf(y) = `size`, which is not negative, and erfc(y) = `rest`: three steps of Newton's method from an approximation, on erf,
    and near 1, where that is flat, on log(erfc)."""
    logarithm = rest.log()
    w = -(size + 1.0).log() - logarithm
    far = (-logarithm - (w * math.pi).log() * 0.5).sqrt()  # erfc(y) is exp(-y * y) / (sqrt(pi) y)
    tail = select(w < 16.0, polynomial(w.sqrt() - 3.0, ERFINV_TAIL) * size, far)
    y = select(w < 5.0, polynomial(w - 2.5, ERFINV_MIDDLE) * size, tail)
    for _ in range(3):
        square, scaled = y * y, erfcx(y)
        near = (size - y.call("math.erf")) * square.exp()
        y = y + select(size < 0.5, near, (scaled.log() - square - logarithm) * scaled) * (math.sqrt(math.pi) / 2.0)
    return select(rest.eq(0.0), math.inf, y)


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

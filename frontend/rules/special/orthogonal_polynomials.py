"""Orthogonal polynomials of a degree that is data: their recurrences in three terms, and Chebyshev's by angles between -1 and 1.

Numbers are rounded in the dtype and in the order in which eager rounds them, so that both overflow at the same places; the angles are
computed in f64. A degree is rounded towards zero; of one below 0, NaN or beyond 64 bits the polynomial is 0. Formulas by their numbers in the
Digital Library of Mathematical Functions (DLMF, https://dlmf.nist.gov).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from ..elementwise.pointwise import register_binary
from ..support.operands import Emit
from ..support.scalars import Scalar, select
from ..support.while_loops import repeat

Step = Callable[[Scalar, Scalar, Scalar, Scalar], Scalar]  # of x, the last two members, and the degree of the last
OVERLOADS = ("default", "x_scalar", "n_scalar")


@dataclass(frozen=True)
class Degree:
    """A degree as f64: `number`, a whole one, or -1."""

    number: Scalar

    @staticmethod
    def of(n: Scalar) -> "Degree":
        n = n.to(torch.float64)
        return Degree(select((n > -1.0) & (n < 2.0**63), n.call("math.trunc"), -1.0))

    @property
    def even(self) -> Scalar:
        half = self.number * 0.5
        return half.call("math.floor").eq(half)

    @property
    def sign(self) -> Scalar:
        """(-1)**n, f64."""
        return select(self.even, self.number.like(1.0), -1.0)


def _fused(x: Scalar, y: Scalar, z: Scalar) -> Scalar:
    """x * y - z, rounded once, as eager's compiler does it: the product may be larger than any number of the dtype."""
    return x.call("math.fma", y, -z)


def member(x: Scalar, n: Degree, linear: Scalar, step: Step, further: Scalar) -> Scalar:
    """The member of degree `n`: 1, `linear`, and from degree 2 on, where `further` holds, by steps; it ends at the first NaN."""
    last = select(further, n.number, 0.0)

    def next_(before: Scalar, now: Scalar, k: Scalar) -> list[Scalar]:
        return [now, step(x, before, now, k), k + 1.0]

    first = [x.like(1.0), linear, n.number.like(1.0)]
    now = repeat(first, lambda before, now, k: (k < last) & ~now.isnan(), next_)[1]
    return select(n.number < 0.0, 0.0, select(n.number.eq(0.0), 1.0, now))


# -- Chebyshev's -----------------------------------------------------------------------------------------------------------------


def _cosines(y: Scalar, angle: Scalar, n: Degree) -> Scalar:
    return (angle * n.number).call("math.cos") * select(y < 0.0, n.sign, 1.0)


def _sines(y: Scalar, angle: Scalar, n: Degree) -> Scalar:
    return (angle * (n.number + 1.0)).call("math.sin") / angle.call("math.sin") * select(y < 0.0, n.sign, 1.0)


def _halves(cosine: bool, y: Scalar, angle: Scalar, n: Degree) -> Scalar:
    """V, or W without `cosine`: one at -y is the other at y, but for the sign (18.6.1)."""
    middle, half = angle * (n.number + 0.5), angle * 0.5
    even = middle.call("math.cos") / half.call("math.cos")
    odd = middle.call("math.sin") / half.call("math.sin")
    negative = y < 0.0
    return select(negative, (odd if cosine else even) * n.sign, even if cosine else odd)


@dataclass(frozen=True)
class Chebyshev:
    """One of the four kinds. `shift`: what the linear one has beside its multiple `slope` of x; `ends`: the values at 1 and, but for the sign
    (-1)**n, at -1; `between`: the value by the angle of |x| (18.5.1 to 18.5.4), above the degrees `recurrent`, plain and shifted."""

    slope: int
    shift: float
    ends: tuple[Callable[[Scalar], Scalar], Callable[[Scalar], Scalar]]
    between: Callable[[Scalar, Scalar, Degree], Scalar]
    recurrent: tuple[float, float]


def _one(n: Scalar) -> Scalar:
    return n.like(1.0)


def _next(n: Scalar) -> Scalar:
    return n + 1.0


def _odd(n: Scalar) -> Scalar:
    return n + n + 1.0


KINDS = {
    "t": Chebyshev(1, 0.0, (_one, _one), _cosines, (6.0, 6.0)),
    "u": Chebyshev(2, 0.0, (_next, _next), _sines, (8.0, 6.0)),
    "v": Chebyshev(2, -1.0, (_one, _odd), partial(_halves, True), (8.0, 6.0)),
    "w": Chebyshev(2, 1.0, (_odd, _one), partial(_halves, False), (8.0, 4.0)),
}


def chebyshev(kind: Chebyshev, shifted: bool, x: Scalar, n: Scalar) -> Scalar:
    degree, dtype = Degree.of(n), x.dtype
    y = x + x - 1.0 if shifted else x
    size = y.abs()
    end = size.eq(1.0)
    by_angle = (size < 1.0) & (degree.number > kind.recurrent[shifted])
    linear = y if kind.slope == 1 else y + y
    if kind.shift:
        linear = linear + kind.shift
    value = member(y, degree, linear, lambda y, before, now, k: _fused(y + y, now, before), ~(end | by_angle))
    wide = y.to(torch.float64)
    angle = wide.abs().minimum(1.0).call("math.acos")
    value = select(by_angle, kind.between(wide, angle, degree).to(dtype), value)
    at_one, at_minus_one = kind.ends
    at_end = select(wide > 0.0, at_one(degree.number), at_minus_one(degree.number) * degree.sign)
    return select(end & (degree.number >= 0.0), at_end.to(dtype), value)


# -- Hermite's, Laguerre's, Legendre's -----------------------------------------------------------------------------------------

HERMITE_LIMITS = {torch.float32: 128.0, torch.float64: 512.0}  # the degrees that eager computes


def hermite(physicists: bool, x: Scalar, n: Scalar) -> Scalar:
    degree, dtype = Degree.of(n), x.dtype
    factor = 2.0 if physicists else 1.0
    first = x + x if physicists else x
    too_large = degree.number > HERMITE_LIMITS[dtype]

    def step(first: Scalar, before: Scalar, now: Scalar, k: Scalar) -> Scalar:
        return _fused(first, now, (k * factor).to(dtype) * before)

    return select(too_large, math.nan, member(first, degree, first, step, ~too_large))


def laguerre(x: Scalar, n: Scalar) -> Scalar:
    degree, dtype = Degree.of(n), x.dtype
    zero, rest = x.eq(0.0), 1.0 - x

    def step(rest: Scalar, before: Scalar, now: Scalar, k: Scalar) -> Scalar:
        k = k.to(dtype)
        return _fused(k + k + rest, now, k * before) / (k + 1.0)

    return select(zero & (degree.number >= 0.0), 1.0, member(rest, degree, rest, step, ~zero))


def legendre(x: Scalar, n: Scalar) -> Scalar:
    degree, dtype = Degree.of(n), x.dtype
    end = x.abs().eq(1.0)

    def step(x: Scalar, before: Scalar, now: Scalar, k: Scalar) -> Scalar:
        twice, k = (k + k + 1.0).to(dtype), k.to(dtype)
        return _fused(twice * x, now, k * before) / (k + 1.0)

    at_end = select(x < 0.0, degree.sign.to(dtype), 1.0)
    return select(end & (degree.number >= 0.0), at_end, member(x, degree, x, step, ~end))


POLYNOMIALS: dict[str, Emit] = {
    "hermite_polynomial_h": partial(hermite, True),
    "hermite_polynomial_he": partial(hermite, False),
    "laguerre_polynomial_l": laguerre,
    "legendre_polynomial_p": legendre,
}
for _letter, _kind in KINDS.items():
    POLYNOMIALS[f"chebyshev_polynomial_{_letter}"] = partial(chebyshev, _kind, False)
    POLYNOMIALS[f"shifted_chebyshev_polynomial_{_letter}"] = partial(chebyshev, _kind, True)
register_binary({f"special_{name}.{kind}": emit for name, emit in POLYNOMIALS.items() for kind in OVERLOADS})

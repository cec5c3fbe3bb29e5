"""Division with a rounding, remainders and powers: what torch gives for signs, zeros, infinities and the smallest integer.

Eager raises for an integer division by zero on the CPU and gives an arbitrary number elsewhere. A compiled region may neither
raise nor trap: there the quotient is 0 and the remainder the dividend.
"""

import math
from collections.abc import Callable
from functools import partial

import torch
from bascule.dialect.ir.types import STORED

from ...conversion.registry import NoRule, rule
from ..support.operands import dtype_of_result, elementwise, numbers_only
from ..support.requirements import require, require_divisor
from ..support.scalars import Scalar, is_float, is_signed, refuse_symbolic, select


def _integer_quotient(a: Scalar, b: Scalar) -> tuple[Scalar, Scalar]:
    """Quotient towards zero and remainder, defined for every pair of integers."""
    if b.known() not in (None, 0, -1):
        return a.quotient(b), a.remainder(b)
    unsafe = b.eq(0)
    if is_signed(b.dtype):  # the smallest integer over -1 overflows, which traps on x86: negate instead
        minus_one = b.eq(-1)
        safe = select(unsafe | minus_one, 1, b)
        quotient = select(minus_one, -a, a.quotient(safe))
    else:
        safe = select(unsafe, 1, b)
        quotient = a.quotient(safe)
    return select(unsafe, 0, quotient), select(unsafe, a, a.remainder(safe))


def _differ_in_sign(a: Scalar, b: Scalar) -> Scalar:
    return (a < 0) ^ (b < 0)


def floor_divide(a: Scalar, b: Scalar) -> Scalar:
    if not is_float(a.dtype):
        if is_signed(a.dtype) and (b.known() or 0) > 0:
            return a.floor_quotient(b)
        quotient, remainder = _integer_quotient(a, b)
        if not is_signed(a.dtype):
            return quotient
        inexact = remainder.ne(0) & b.ne(0) & _differ_in_sign(a, b)
        return select(inexact, quotient - 1, quotient)
    # Rounding a / b could step over an integer; the exact remainder tells how many whole times b goes into a.
    remainder = a.remainder(b)
    quotient = (a - remainder) / b
    quotient = select(remainder.ne(0) & _differ_in_sign(b, remainder), quotient - 1.0, quotient)
    floor = quotient.floor()
    floor = select((quotient - floor) > 0.5, floor + 1.0, floor)
    ratio = a / b
    floor = select(quotient.eq(0), a.like(0.0).copysign(ratio), floor)
    overflow = ratio.isinf() & ~a.isinf()  # then the remainder may be NaN: so many steps that its loop gives up
    return select(b.eq(0) | overflow, ratio, floor)


def truncated_divide(a: Scalar, b: Scalar) -> Scalar:
    return (a / b).call("math.trunc") if is_float(a.dtype) else _integer_quotient(a, b)[0]


def remainder(a: Scalar, b: Scalar) -> Scalar:
    """The sign of the divisor, as in Python."""
    rest = a.remainder(b) if is_float(a.dtype) else _integer_quotient(a, b)[1]
    if not (is_float(a.dtype) or is_signed(a.dtype)):
        return rest
    return select(rest.ne(0) & _differ_in_sign(rest, b) & b.ne(0), rest + b, rest)


def fmod(a: Scalar, b: Scalar) -> Scalar:
    """The sign of the dividend, as in C."""
    return a.remainder(b) if is_float(a.dtype) else _integer_quotient(a, b)[1]


@rule("aten.div.Tensor_mode", "aten.div.Scalar_mode", "aten.divide.Tensor_mode", "aten.divide.Scalar_mode")
@numbers_only
def divide_with_mode(c, a, b, rounding_mode=None):
    if rounding_mode is not None:
        require_divisor(b, dtype_of_result(c))
    emit = {None: lambda a, b: a / b, "floor": floor_divide, "trunc": truncated_divide}[rounding_mode]
    return elementwise(c, emit, a, b, wide_numbers=True, mark=None if rounding_mode is None else STORED)


@rule("aten.floor_divide.default", "aten.floor_divide.Scalar")
def floor_divide_rule(c, a, b):
    require_divisor(b, dtype_of_result(c))
    return elementwise(c, floor_divide, a, b, wide_numbers=True, mark=STORED)


@rule("aten.remainder.Tensor", "aten.remainder.Scalar", "aten.remainder.Scalar_Tensor")
@numbers_only
def remainder_rule(c, a, b):
    require_divisor(b, dtype_of_result(c))
    return elementwise(c, remainder, a, b, mark=STORED)


@rule("aten.fmod.Tensor", "aten.fmod.Scalar")
@numbers_only
def fmod_rule(c, a, b):
    require_divisor(b, dtype_of_result(c))
    return elementwise(c, fmod, a, b, mark=STORED)


# -- powers ----------------------------------------------------------------------------------------------------------


def whole_power(x: Scalar, exponent: int) -> Scalar:
    """x to a whole `exponent` of at least 1, by repeated squaring."""
    result, square = None, x
    while exponent:
        if exponent & 1:
            result = square if result is None else result * square
        exponent >>= 1
        if exponent:
            square = square * square
    assert result is not None, "an exponent below 1"
    return result


def power(a: Scalar, b: Scalar) -> Scalar:
    if is_float(a.dtype):
        return a.call("math.powf", b)
    if a.dtype != torch.int64:  # wrapping to fewer bits afterwards changes nothing
        return power(a.to(torch.int64), b.to(torch.int64)).to(a.dtype)
    # A negative exponent: only 1 and -1 have whole reciprocals.
    odd = (b & 1).ne(0)
    reciprocal = select(a.eq(1), 1, select(a.eq(-1), select(odd, a, 1), 0))
    return select(b < 0, reciprocal, a.call("math.ipowi", b.maximum(0)))


def power_beyond(x: Scalar, exponent: float) -> Scalar:
    """x to an `exponent` that is no number of the dtype: to the nearest that is one, and once more to the rest, exp(rest log x). Alone, the
    nearest is off by up to half a unit for each unit of log x. One too small for the dtype is its least: to the power of 0 even 0 and NaN are 1.
    """
    nearest = torch.tensor(exponent, dtype=x.dtype).item()
    if abs(nearest) < (least := torch.finfo(x.dtype).tiny):
        return power(x, x.like(math.copysign(least, exponent)))
    result = power(x, x.like(nearest))
    if nearest == exponent or not math.isfinite(nearest) or nearest == math.floor(nearest):
        return result  # nothing is left, or a whole power, which is one of negative numbers too
    more = result + result * (x.log() * (exponent - nearest))
    return select(result.eq(0.0) | result.isinf(), result, more)


PRODUCTS = 8  # the largest whole exponent of floats that products take: their roundings are 3.5 units in the last place, at most
SPECIAL_EXPONENTS: dict[float, Callable[[Scalar], Scalar]] = {
    0.5: lambda x: x.sqrt(),
    -0.5: lambda x: 1.0 / x.sqrt(),
    -1.0: lambda x: 1.0 / x,
    -2.0: lambda x: 1.0 / (x * x),
    1.0: lambda x: x,
    2.0: lambda x: x * x,
    **{float(n): partial(whole_power, exponent=n) for n in range(3, PRODUCTS + 1)},
}


@rule("aten.pow.Tensor_Scalar")
def power_of_number(c, x, exponent):
    dtype = dtype_of_result(c)
    if not isinstance(exponent, int | float):
        if not is_float(dtype):
            refuse_symbolic(exponent)
        return elementwise(c, power, x, exponent)
    require(is_float(dtype) or exponent >= 0, "an exponent of integers that is not negative")
    if exponent == 0:
        return elementwise(c, lambda x: x.like(1), x)
    if is_float(dtype):
        if special := SPECIAL_EXPONENTS.get(exponent):
            return elementwise(c, special, x)
        if isinstance(exponent, float) and dtype.itemsize > 2:  # eager rounds it to 16 bits
            return elementwise(c, lambda x: power_beyond(x, exponent), x)
        return elementwise(c, power, x, exponent)
    if isinstance(exponent, int) and 0 < exponent < 64:
        return elementwise(c, lambda x: whole_power(x, exponent), x)
    return elementwise(c, power, x, exponent)


@rule("aten.pow.Tensor_Tensor", "aten.pow.Scalar")
def power_rule(c, a, b):
    if dtype_of_result(c) == torch.bool:
        raise NoRule("a power of booleans")
    return elementwise(c, power, a, b)


@rule("aten.float_power.Tensor_Tensor", "aten.float_power.Tensor_Scalar", "aten.float_power.Scalar")
def float_power(c, a, b):
    return elementwise(c, power, a, b)

"""Bitwise operators and shifts of integers and booleans, and operators on the bits of floats."""

import math
from dataclasses import dataclass
from functools import partial

import torch
from bascule.dialect.ir.types import STORED

from ...conversion.context import Conversion
from ...conversion.registry import NoRule, rule
from ..support.operands import Emit, dtype_of_result, elementwise, floats_only
from ..support.scalars import Scalar, is_float, is_signed, opmath, select
from .pointwise import register_binary

OVERLOADS = ("Tensor", "Scalar", "Scalar_Tensor")
BITWISE: dict[str, Emit] = {
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}
for _name, _emit in BITWISE.items():
    register_binary({f"bitwise_{_name}.{overload}": _emit for overload in OVERLOADS})
    register_binary({f"__{_name}__.{overload}": _emit for overload in OVERLOADS[:2]})


@rule("aten.bitwise_not.default")
def bitwise_not(c, x):
    return elementwise(c, lambda x: ~x, x)


# -- shifts: a count below zero or beyond the width shifts everything out -------------------------------------------------


def _out_of_range(x: Scalar, count: Scalar) -> tuple[Scalar, Scalar]:
    """Whether `count` is no shift within x's width, and a count that is one."""
    outside = (count < 0) | (count >= x.dtype.itemsize * 8) if is_signed(x.dtype) else count >= x.dtype.itemsize * 8
    return outside, select(outside, 0, count)


def shift_left(x: Scalar, count: Scalar) -> Scalar:
    outside, count = _out_of_range(x, count)
    return select(outside, 0, x.shift_left(count))


def shift_right(x: Scalar, count: Scalar) -> Scalar:
    outside, count = _out_of_range(x, count)
    if not is_signed(x.dtype):
        return select(outside, 0, x.shift_right(count))
    return x.shift_right(select(outside, x.dtype.itemsize * 8 - 1, count))


def _shift_rule(emit: Emit, c: Conversion, a, b):
    dtype = dtype_of_result(c)
    if is_float(dtype) or dtype == torch.bool:
        raise NoRule(f"a shift of {dtype}")
    return elementwise(c, emit, a, b)


SHIFTS: dict[str, Emit] = {
    "bitwise_left_shift.Tensor": shift_left,
    "bitwise_left_shift.Tensor_Scalar": shift_left,
    "bitwise_left_shift.Scalar_Tensor": shift_left,
    "__lshift__.Tensor": shift_left,
    "__lshift__.Scalar": shift_left,
    "bitwise_right_shift.Tensor": shift_right,
    "bitwise_right_shift.Tensor_Scalar": shift_right,
    "bitwise_right_shift.Scalar_Tensor": shift_right,
    "__rshift__.Tensor": shift_right,
    "__rshift__.Scalar": shift_right,
}
for _name, _emit in SHIFTS.items():
    rule(f"aten.{_name}")(partial(_shift_rule, _emit))


# -- the bits of floats -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Format:
    """IEEE 754 binary formats: the integer that holds the bits, how many of them the fraction has, the largest exponent field."""

    integer: torch.dtype
    fraction: int
    top: int

    @property
    def half(self) -> int:
        """The exponent field of numbers in [1/2, 1)."""
        return self.top // 2 - 1


FORMATS = {
    torch.float16: Format(torch.int16, 10, 0x1F),
    torch.bfloat16: Format(torch.int16, 7, 0xFF),
    torch.float32: Format(torch.int32, 23, 0xFF),
    torch.float64: Format(torch.int64, 52, 0x7FF),
}


@rule("aten.nextafter.default")
@floats_only
def nextafter(c, a, b):
    """The neighbour of `a` towards `b`: the next larger or smaller integer, as the bits of a float of one sign are ordered."""
    dtype = dtype_of_result(c)
    integer = FORMATS[dtype].integer

    def emit(a: Scalar, b: Scalar) -> Scalar:
        bits = a.to(dtype).bitcast(integer)
        outwards = (a < b) ^ (a < 0.0)
        moved = bits + select(outwards, bits.like(1), -1)
        smallest = bits.like(1).bitcast(dtype).to(a.dtype).copysign(b)
        value = select(a.eq(0.0), smallest, moved.bitcast(dtype).to(a.dtype))
        value = select(a.eq(b), b, value)
        return select(a.isnan() | b.isnan(), math.nan, value)

    return elementwise(c, emit, a, b, mark=STORED)


@rule("aten.frexp.Tensor")
def frexp(c, x):
    """A fraction in [1/2, 1) and the exponent of 2; zeros, infinities and NaN are their own fraction, with exponent 0."""
    inside = opmath(dtype_of_result(c))
    format_ = FORMATS[inside]

    def parts(x: Scalar) -> tuple[Scalar, Scalar, Scalar]:
        """The bits of x, scaled out of the subnormal numbers; its exponent; whether it has one."""
        lift = 2.0**64 if inside == torch.float64 else 2.0**32
        subnormal = x.abs() < torch.finfo(inside).tiny
        bits = select(subnormal, x * lift, x).bitcast(format_.integer)
        field = bits.shift_right(format_.fraction) & format_.top
        exponent = field - format_.half - select(subnormal, field.like(round(math.log2(lift))), 0)
        return bits, exponent, x.ne(0.0) & (x.abs() < math.inf)

    def fraction(x: Scalar) -> Scalar:
        bits, _, regular = parts(x)
        bits = (bits & ~(format_.top << format_.fraction)) | (format_.half << format_.fraction)
        return select(regular, bits.bitcast(inside), x)

    def exponent(x: Scalar) -> Scalar:
        _, value, regular = parts(x)
        return select(regular, value, 0)

    return [elementwise(c, fraction, x, mark=STORED), elementwise(c, exponent, x, dtype=inside, number=1, mark=STORED)]

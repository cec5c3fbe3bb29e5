"""Bitwise operators and shifts of integers and booleans, and operators on the bits of floats."""

from functools import partial

import torch

from ..conversion import Conversion, NoRule, rule
from .operands import Emit, dtype_of_result, elementwise
from .pointwise import register_binary
from .scalars import Scalar, is_float, is_signed, select

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

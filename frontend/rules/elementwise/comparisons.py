"""Comparisons and predicates (which compute in the promoted dtype of their operands), logic, selection, clamping."""

import math
from functools import partial

import torch
from bascule.dialect.ir.types import STORED
from bascule.dialect.mlir import ir

from ...conversion.context import Conversion
from ...conversion.registry import rule
from ..support.operands import Emit, Mask, Operand, dtype_of_result, elementwise, numbers_only, promoted, tensor_dtype
from ..support.requirements import require_held
from ..support.scalars import Scalar, is_float, is_signed, opmath, select


def predicate(c: Conversion, emit: Emit, *operands: Operand, number: int = 0) -> ir.Value:
    """Result `number`: `emit` of the operands as eager stores them, each rounded to the dtype they all promote to.

    A number that was not rounded would not be found equal to the largest of its like.
    """
    dtype = promoted(c, *operands)
    inside = opmath(dtype)
    if inside == dtype:
        return elementwise(c, emit, *operands, dtype=dtype, number=number, mark=STORED)
    operands = tuple(torch.tensor(x, dtype=dtype).item() if isinstance(x, int | float) else x for x in operands)
    coarser = [isinstance(x, ir.Value) and tensor_dtype(x) != dtype for x in operands]

    def rounded(*values: Scalar) -> Scalar:
        return emit(*(v.to(dtype, rounding=True).to(inside) if round_ else v for v, round_ in zip(values, coarser)))

    return elementwise(c, rounded, *operands, dtype=dtype, number=number, mark=STORED)


COMPARISONS = {"eq": "eq", "ne": "ne", "not_equal": "ne", "lt": "lt", "less": "lt", "le": "le", "less_equal": "le"}
COMPARISONS |= {"gt": "gt", "greater": "gt", "ge": "ge", "greater_equal": "ge"}

for _name, _predicate in COMPARISONS.items():

    @rule(f"aten.{_name}.Tensor", f"aten.{_name}.Scalar")
    def comparison(c, a, b, *, predicate_=_predicate):
        return predicate(c, lambda a, b: a.compare(predicate_, b), a, b)


def isfinite(x: Scalar) -> Scalar:
    return x.abs() < math.inf if is_float(x.dtype) else Scalar.constant(True, torch.bool)


def equals_number(number: float):
    return lambda x: x.eq(number) if is_float(x.dtype) else Scalar.constant(False, torch.bool)


def signbit(x: Scalar) -> Scalar:
    if is_float(x.dtype):  # of -0.0 and of NaN too
        return x.like(1.0).copysign(x) < 0.0
    return x < 0 if is_signed(x.dtype) else Scalar.constant(False, torch.bool)


PREDICATES = {
    "isnan": Scalar.isnan,
    "isinf": Scalar.isinf,
    "isfinite": isfinite,
    "isposinf": equals_number(math.inf),
    "isneginf": equals_number(-math.inf),
    "signbit": signbit,
    "logical_not": lambda x: x.eq(0),
}


def _predicate_rule(emit: Emit, c: Conversion, x):
    return predicate(c, emit, x)


for _name, _emit in PREDICATES.items():
    rule(f"aten.{_name}.default")(partial(_predicate_rule, _emit))

LOGICAL = {
    "logical_and": lambda a, b: a & b,
    "logical_or": lambda a, b: a | b,
    "logical_xor": lambda a, b: a ^ b,
}


def _logical_rule(emit: Emit, c: Conversion, a, b):
    return elementwise(c, emit, a, b, dtype=torch.bool)


for _name, _emit in LOGICAL.items():
    rule(f"aten.{_name}.default")(partial(_logical_rule, _emit))


# -- selection --------------------------------------------------------------------------------------------------------


@rule("aten.where.self", "aten.where.ScalarSelf", "aten.where.ScalarOther", "aten.where.Scalar")
def where(c, condition, yes, no):
    return elementwise(c, lambda p, yes, no: select(p, yes, no), Mask(condition), yes, no)


@rule("aten.masked_fill.Scalar", "aten.masked_fill.Tensor")
def masked_fill(c, x, mask, value):
    require_held(value, tensor_dtype(x))
    return elementwise(c, lambda p, value, x: select(p, value, x), Mask(mask), value, x)


@rule("aten.clamp.default", "aten.clamp.Tensor", "aten.clip.default", "aten.clip.Tensor")
@numbers_only
def clamp(c, x, low=None, high=None):
    """NaN in any operand wins; the upper bound wins over the lower."""
    require_held(low, dtype_of_result(c))
    require_held(high, dtype_of_result(c))
    if low is None and high is None:
        return elementwise(c, lambda x: x, x)
    if high is None:
        return elementwise(c, Scalar.maximum, x, low)
    if low is None:
        return elementwise(c, Scalar.minimum, x, high)
    return elementwise(c, lambda x, low, high: x.maximum(low).minimum(high), x, low, high)


@rule("aten.clamp_min.default", "aten.clamp_min.Tensor")
@numbers_only
def clamp_min(c, x, low):
    require_held(low, dtype_of_result(c))
    return elementwise(c, Scalar.maximum, x, low)


@rule("aten.clamp_max.default", "aten.clamp_max.Tensor")
@numbers_only
def clamp_max(c, x, high):
    require_held(high, dtype_of_result(c))
    return elementwise(c, Scalar.minimum, x, high)


@rule("aten.nan_to_num.default")
def nan_to_num(c, x, nan=None, posinf=None, neginf=None):
    """Infinities become the largest finite numbers of x's own dtype unless told otherwise."""
    dtype = tensor_dtype(x)
    if not is_float(dtype):
        return elementwise(c, lambda x: x, x)
    largest = torch.finfo(dtype).max
    nan = 0.0 if nan is None else nan
    posinf = largest if posinf is None else posinf
    neginf = -largest if neginf is None else neginf

    def emit(x: Scalar) -> Scalar:
        return select(x.isnan(), nan, select(x.eq(math.inf), posinf, select(x.eq(-math.inf), neginf, x)))

    return elementwise(c, emit, x)

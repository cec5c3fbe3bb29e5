"""The scalar operators of `arith` and `math`, one table entry each: operands as torch tensors to the result(s).

A function takes the op and its operands. Signed and unsigned integer operators are wrapped by width in `integers.py`.
"""

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import torch

from ..mlir import ir
from . import integers as ints
from .errors import error
from .numerics.precision import is_double, is_stochastic, rounded
from .values import dtype_of, stored_dtype

Scalar: TypeAlias = torch.Tensor
Rule = Callable[..., Any]  # (op, *operands) -> a tensor, or a tuple of them


def result_dtype(op: ir.Operation, number: int = 0) -> torch.dtype:
    return dtype_of(op.results[number].type)


def _signed(function: Rule) -> Rule:
    return lambda op, *xs: ints.wrap(function(*map(ints.widen, xs)), result_dtype(op))


def _unsigned(function: Rule) -> Rule:
    return lambda op, *xs: ints.wrap(function(*map(ints.widen_unsigned, xs)), result_dtype(op))


def _float(function: Rule) -> Rule:
    """A function torch may lack for narrow floats is computed in f32 and rounded."""

    def rule(op: ir.Operation, *xs: Scalar) -> Scalar:
        if is_stochastic():
            wide = [x.double() if x.is_floating_point() else x for x in xs]
            return rounded(function(*wide), result_dtype(op), xs)
        wide = [x.float() if x.is_floating_point() and x.element_size() < 4 else x for x in xs]
        return function(*wide).to(result_dtype(op))

    return rule


def _remainder(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Of f32 in f64: the remainder of two f32 is one. PyTorch's vectors give NaN where the quotient is beyond f64; the C library's does not."""
    x, y = torch.broadcast_tensors(x.double(), y.double())
    found = torch.fmod(x, y)
    lost = found.isnan() & x.isfinite() & ~y.isnan() & (y != 0)
    if lost.any():
        exact = [math.fmod(*pair) for pair in zip(x[lost].tolist(), y[lost].tolist())]
        found[lost] = torch.tensor(exact, dtype=torch.float64)
    return found


def _shift(function: Rule) -> Rule:
    """The number of bits is unsigned; as many as the width or more is poison in MLIR, here zero or the sign."""
    return lambda op, x, bits: ints.wrap(function(x, ints.widen_unsigned(bits)), result_dtype(op))


def _fma(a: Scalar, b: Scalar, c: Scalar) -> Scalar:
    if a.dtype != torch.float64:
        return a.double() * b.double() + c.double()  # exact product of two f32
    product, rest = _exact_product(a, b)
    total = product + c
    other = total - product
    rest = rest + ((product - (total - other)) + (c - other))  # and what the sum rounds away
    return torch.where(torch.isfinite(rest), total + rest, total)


def _exact_product(a: Scalar, b: Scalar) -> tuple[Scalar, Scalar]:
    """Of f64: the product, and what it rounds away, by Dekker's halves of 26 bits; that is NaN where the halves overflow."""
    product = a * b

    def halves(x: Scalar) -> tuple[Scalar, Scalar]:
        scaled = x * (2.0**27 + 1.0)
        high = scaled - (scaled - x)
        return high, x - high

    (a_high, a_low), (b_high, b_low) = halves(a), halves(b)
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _round_half_away(x: Scalar) -> Scalar:
    return torch.trunc(x) + torch.where(torch.abs(x - torch.trunc(x)) >= 0.5, torch.sign(x), 0.0)


def _cbrt(x: Scalar) -> Scalar:
    return torch.copysign(torch.pow(torch.abs(x.double()), 1 / 3), x)


def _is_normal(op: ir.Operation, x: Scalar) -> Scalar:
    return torch.isfinite(x) & (torch.abs(x) >= torch.finfo(x.dtype).tiny)


def _flush_denormals(x: Scalar) -> Scalar:
    return torch.where(torch.abs(x) < torch.finfo(x.dtype).tiny, torch.copysign(torch.zeros_like(x), x), x)


def _power_float_int(x: Scalar, exponent: Scalar) -> Scalar:
    return torch.pow(x.double(), exponent.double())


# The order of arith::CmpIPredicate.
_COMPARE_INT: tuple[Rule, ...] = (
    torch.eq,
    torch.ne,
    torch.lt,
    torch.le,
    torch.gt,
    torch.ge,
    ints.less_unsigned,
    lambda a, b: ~ints.less_unsigned(b, a),
    lambda a, b: ints.less_unsigned(b, a),
    lambda a, b: ~ints.less_unsigned(a, b),
)
# The order of arith::CmpFPredicate: false, six ordered, ord, six unordered, uno, true.
_ORDERED = (torch.eq, torch.gt, torch.ge, torch.lt, torch.le, torch.ne)


def _compare_int(op: ir.Operation, a: Scalar, b: Scalar) -> Scalar:
    return _COMPARE_INT[op.attributes["predicate"].value](ints.widen(a), ints.widen(b))


def _compare_float(op: ir.Operation, a: Scalar, b: Scalar) -> Scalar:
    predicate = op.attributes["predicate"].value
    unordered = torch.isnan(a) | torch.isnan(b)
    if predicate in (0, 15):
        return torch.full_like(unordered, predicate == 15)
    if predicate in (7, 14):
        return unordered if predicate == 14 else ~unordered
    if predicate < 7:
        return _ORDERED[predicate - 1](a, b) & ~unordered
    return _ORDERED[predicate - 8](a, b) | unordered


def _constant(op: ir.Operation) -> Scalar:
    if isinstance(op.results[0].type, ir.ShapedType):
        raise error(op, "is a constant tensor, which no stage has", hint="yield a constant in a bascule.compute")
    return torch.tensor(op.attributes["value"].value, dtype=result_dtype(op))


def _convert(op: ir.Operation, x: Scalar, *_: Scalar) -> Scalar:
    return rounded(x, result_dtype(op))


def _bitcast(op: ir.Operation, x: Scalar) -> Scalar:
    if is_double():  # bits are those of the IR's types
        x = x.to(stored_dtype(op.operands[0].type))
    return x.contiguous().view(stored_dtype(op.results[0].type)).to(result_dtype(op))


def _add_extended(op: ir.Operation, a: Scalar, b: Scalar) -> tuple[Scalar, Scalar]:
    total = ints.wrap(ints.widen(a) + ints.widen(b), a.dtype)
    return total, ints.less_unsigned(ints.widen(total), ints.widen(a))


def _sub_extended(op: ir.Operation, a: Scalar, b: Scalar) -> tuple[Scalar, Scalar]:
    return ints.wrap(ints.widen(a) - ints.widen(b), a.dtype), ints.less_unsigned(ints.widen(a), ints.widen(b))


def _multiply_extended(widen: Rule, high: Rule) -> Rule:
    def rule(op: ir.Operation, a: Scalar, b: Scalar) -> tuple[Scalar, Scalar]:
        width, (wide_a, wide_b) = ints.WIDTHS[a.dtype], (widen(a), widen(b))
        product = wide_a * wide_b
        top = high(wide_a, wide_b) if width == 64 else product >> width
        return ints.wrap(product, a.dtype), ints.wrap(top, a.dtype)

    return rule


def _count(function: Rule) -> Rule:
    return lambda op, x: ints.wrap(function(ints.widen_unsigned(x), ints.WIDTHS[x.dtype]), x.dtype)


ARITH: dict[str, Rule] = {
    "arith.constant": _constant,
    "arith.addi": _signed(torch.add),
    "arith.subi": _signed(torch.sub),
    "arith.muli": _signed(torch.mul),
    "arith.andi": _signed(torch.bitwise_and),
    "arith.ori": _signed(torch.bitwise_or),
    "arith.xori": _signed(torch.bitwise_xor),
    "arith.maxsi": _signed(torch.maximum),
    "arith.minsi": _signed(torch.minimum),
    "arith.maxui": _unsigned(lambda a, b: torch.where(ints.less_unsigned(a, b), b, a)),
    "arith.minui": _unsigned(lambda a, b: torch.where(ints.less_unsigned(b, a), b, a)),
    "arith.shli": _shift(lambda x, bits: torch.where(bits < 64, ints.widen(x) << torch.clamp(bits, 0, 63), 0)),
    "arith.shrsi": _shift(lambda x, bits: ints.widen(x) >> torch.clamp(bits, 0, 63)),
    "arith.shrui": _shift(lambda x, bits: ints.shift_right_unsigned(ints.widen_unsigned(x), bits)),
    "arith.addui_extended": _add_extended,
    "arith.subui_extended": _sub_extended,
    "arith.mulsi_extended": _multiply_extended(ints.widen, ints.multiply_high),
    "arith.mului_extended": _multiply_extended(ints.widen_unsigned, ints.multiply_high_unsigned),
    "arith.addf": _float(torch.add),
    "arith.subf": _float(torch.sub),
    "arith.mulf": _float(torch.mul),
    "arith.divf": _float(torch.div),
    "arith.remf": _float(_remainder),
    "arith.negf": _float(torch.neg),
    "arith.maximumf": _float(torch.maximum),
    "arith.minimumf": _float(torch.minimum),
    "arith.maxnumf": _float(torch.fmax),
    "arith.minnumf": _float(torch.fmin),
    "arith.flush_denormals": lambda op, x: _flush_denormals(x),
    "arith.cmpi": _compare_int,
    "arith.cmpf": _compare_float,
    "arith.select": lambda op, condition, a, b: torch.where(condition, a, b),
    "arith.extsi": _signed(lambda x: x),
    "arith.extui": _unsigned(lambda x: x),
    "arith.trunci": _signed(lambda x: x),
    "arith.index_cast": _signed(lambda x: x),
    "arith.index_castui": _unsigned(lambda x: x),
    "arith.bitcast": _bitcast,
    "arith.extf": _convert,
    "arith.truncf": _convert,
    "arith.convertf": _convert,
    "arith.scaling_extf": lambda op, x, scale: x.to(result_dtype(op)) * scale.to(result_dtype(op)),
    "arith.scaling_truncf": lambda op, x, scale: (x / scale.to(x.dtype)).to(result_dtype(op)),
    "arith.sitofp": lambda op, x: ints.widen(x).to(result_dtype(op)),
    "arith.uitofp": lambda op, x: ints.to_float_unsigned(ints.widen_unsigned(x), result_dtype(op)),
    "arith.fptosi": lambda op, x: ints.wrap(x.to(torch.int64), result_dtype(op)),
    "arith.fptoui": lambda op, x: ints.wrap(ints.from_float_unsigned(x), result_dtype(op)),
}

# Undefined for zero divisors, and, where marked signed, for the smallest number by -1: `dialect/interpreter/structure.py` checks that.
DIVISIONS: dict[str, tuple[bool, Rule]] = {
    "arith.divsi": (True, _signed(ints.divide)),
    "arith.remsi": (True, _signed(ints.remainder)),
    "arith.floordivsi": (True, _signed(ints.divide_floor)),
    "arith.ceildivsi": (True, _signed(ints.divide_ceil)),
    "arith.divui": (False, _unsigned(ints.divide_unsigned)),
    "arith.remui": (False, _unsigned(ints.remainder_unsigned)),
    "arith.ceildivui": (False, _unsigned(ints.divide_ceil_unsigned)),
}

MATH: dict[str, Rule] = {
    "math.absf": _float(torch.abs),
    "math.absi": _signed(torch.abs),
    "math.acos": _float(torch.acos),
    "math.acosh": _float(torch.acosh),
    "math.asin": _float(torch.asin),
    "math.asinh": _float(torch.asinh),
    "math.atan": _float(torch.atan),
    "math.atan2": _float(torch.atan2),
    "math.atanh": _float(torch.atanh),
    "math.cbrt": _float(_cbrt),
    "math.ceil": _float(torch.ceil),
    "math.clampf": _float(lambda x, low, high: torch.minimum(torch.maximum(x, low), high)),
    "math.copysign": _float(torch.copysign),
    "math.cos": _float(torch.cos),
    "math.cosh": _float(torch.cosh),
    "math.ctlz": _count(ints.count_leading_zeros),
    "math.ctpop": _count(ints.count_ones),
    "math.cttz": _count(ints.count_trailing_zeros),
    "math.erf": _float(torch.erf),
    "math.erfc": _float(torch.erfc),
    "math.exp": _float(torch.exp),
    "math.exp2": _float(torch.exp2),
    "math.expm1": _float(torch.expm1),
    "math.floor": _float(torch.floor),
    "math.fma": _float(_fma),
    "math.fpowi": _float(_power_float_int),
    "math.ipowi": _signed(ints.power),
    "math.isfinite": lambda op, x: torch.isfinite(x),
    "math.isinf": lambda op, x: torch.isinf(x),
    "math.isnan": lambda op, x: torch.isnan(x),
    "math.isnormal": _is_normal,
    "math.log": _float(torch.log),
    "math.log10": _float(torch.log10),
    "math.log1p": _float(torch.log1p),
    "math.log2": _float(torch.log2),
    "math.powf": _float(torch.pow),
    "math.round": _float(_round_half_away),
    "math.roundeven": _float(torch.round),
    "math.rsqrt": _float(torch.rsqrt),
    "math.sin": _float(torch.sin),
    "math.sincos": lambda op, x: (_float(torch.sin)(op, x), _float(torch.cos)(op, x)),
    "math.sinh": _float(torch.sinh),
    "math.sqrt": _float(torch.sqrt),
    "math.tan": _float(torch.tan),
    "math.tanh": _float(torch.tanh),
    "math.trunc": _float(torch.trunc),
}

SCALARS = ARITH | MATH

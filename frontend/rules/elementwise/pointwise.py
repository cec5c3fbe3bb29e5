"""Arithmetic, one element at a time: the operators that compute in the dtype of their result."""

import math
from functools import partial

import torch
from bascule.dialect.ir.types import STORED
from bascule.dialect.mlir import ir

from ...conversion.context import Conversion
from ...conversion.registry import LeftToAten, NoRule, rule
from ..support.operands import Emit, Operand, elementwise, floats_only, numbers_only, tensor_dtype
from ..support.requirements import require
from ..support.scalars import Scalar, is_float, is_signed, select


def of_floats(emit: Emit) -> Emit:
    """`emit` for floats; integers stay as they are."""
    return of_numbers(lambda x: emit(x) if is_float(x.dtype) else x)


def of_numbers(emit: Emit) -> Emit:
    """`emit` for numbers; eager has no kernel for booleans."""

    def asked(*operands: Scalar) -> Scalar:
        if operands[0].dtype == torch.bool:
            raise LeftToAten("ATen refuses booleans")
        return emit(*operands)

    return asked


def math_op(name: str) -> Emit:
    return lambda x: x.call(f"math.{name}")


def sign(x: Scalar) -> Scalar:
    """-1, 0 or 1; NaN gives 0, as in eager."""
    if x.dtype == torch.bool:
        return x
    positive = (x > 0).to(x.dtype)
    return positive - (x < 0).to(x.dtype) if is_float(x.dtype) or is_signed(x.dtype) else positive


def sigmoid(x: Scalar) -> Scalar:
    return 1.0 / ((-x).exp() + 1.0)


def sinc(x: Scalar) -> Scalar:
    product = x * math.pi
    return select(x.eq(0), 1.0, product.call("math.sin") / product)


def inverse_hyperbolic(name: str) -> Emit:
    """asinh or acosh. Vector functions square their argument, which overflows from the square root of the largest number on; there
    the logarithm of twice the argument is the same number."""

    def emit(x: Scalar) -> Scalar:
        magnitude = x if name == "acosh" else x.abs()
        logarithm = magnitude.log() + math.log(2.0)
        return select(magnitude > 1e15, logarithm.copysign(x), x.call(f"math.{name}"))

    return emit


def angle(x: Scalar) -> Scalar:
    turned = select(x < 0, x.like(math.pi), 0.0)
    return select(x.isnan(), x, turned) if is_float(x.dtype) else turned


UNARY: dict[str, Emit] = {
    "abs": of_numbers(Scalar.abs),
    "neg": lambda x: -x,
    "square": lambda x: x * x,
    "reciprocal": lambda x: 1.0 / x,
    "sqrt": Scalar.sqrt,
    "rsqrt": math_op("rsqrt"),
    "exp": Scalar.exp,
    "exp2": math_op("exp2"),
    "expm1": math_op("expm1"),
    "log": Scalar.log,
    "log2": math_op("log2"),
    "log10": math_op("log10"),
    "log1p": Scalar.log1p,
    "sin": math_op("sin"),
    "cos": math_op("cos"),
    "tan": math_op("tan"),
    "asin": math_op("asin"),
    "acos": math_op("acos"),
    "atan": math_op("atan"),
    "sinh": math_op("sinh"),
    "cosh": math_op("cosh"),
    "tanh": math_op("tanh"),
    "asinh": inverse_hyperbolic("asinh"),
    "acosh": inverse_hyperbolic("acosh"),
    "atanh": math_op("atanh"),
    "erf": math_op("erf"),
    "erfc": math_op("erfc"),
    "sigmoid": sigmoid,
    "sinc": sinc,
    "angle": angle,
    "deg2rad": lambda x: x * (math.pi / 180.0),
    "rad2deg": lambda x: x * (180.0 / math.pi),
}

# Those that jump: of a number that was not rounded yet, 2.999 for 3.0, they would give another.
JUMPS: dict[str, Emit] = {
    "sign": sign,
    "sgn": sign,
    "floor": of_floats(Scalar.floor),
    "ceil": of_floats(math_op("ceil")),
    "trunc": of_floats(math_op("trunc")),
    "fix": of_floats(math_op("trunc")),
    "round": of_floats(math_op("roundeven")),
    "frac": lambda x: x - x.call("math.trunc"),
}


def register_unary(table: dict[str, Emit], mark: str | None = None) -> None:
    """A rule for each `aten.<name>.default` of one operand whose value `emit` gives; `mark`: of its conversion."""
    for name, emit in table.items():
        rule(f"aten.{name}.default")(partial(_unary, emit, mark))


def _unary(emit: Emit, mark: str | None, c: Conversion, x, *_):
    return elementwise(c, emit, x, mark=mark)


register_unary(UNARY)
register_unary(JUMPS, STORED)


@rule("aten.round.decimals")
@floats_only
def round_decimals(c, x, decimals):
    """Scaled by a power of ten, rounded half to even, scaled back; the scale is applied as eager applies it."""
    ten = 10.0 ** abs(decimals)

    def emit(x: Scalar) -> Scalar:
        if decimals == 0:
            return x.call("math.roundeven")
        if decimals < 0:
            return (x / ten).call("math.roundeven") * ten
        return (x * ten).call("math.roundeven") / ten

    return elementwise(c, emit, x, mark=STORED)


# -- two operands and more -------------------------------------------------------------------------------------------


def logaddexp(a: Scalar, b: Scalar) -> Scalar:
    """log(exp(a) + exp(b)) without overflow; two equal infinities give themselves."""
    larger = a.maximum(b)
    same = a.isinf() & a.eq(b)
    return select(same, a, larger + (-(a - b).abs()).exp().log1p())


def logaddexp2(a: Scalar, b: Scalar) -> Scalar:
    larger = a.maximum(b)
    same = a.isinf() & a.eq(b)
    difference = (-(a - b).abs()).call("math.exp2")
    return select(same, a, larger + difference.log1p() * (1.0 / math.log(2.0)))


def hypot(a: Scalar, b: Scalar) -> Scalar:
    """sqrt(a² + b²), scaled by the larger; an infinity wins over NaN."""
    a, b = a.abs(), b.abs()
    larger, smaller = a.maximum(b), a.minimum(b)
    ratio = smaller / larger
    length = larger * (ratio * ratio + 1.0).sqrt()
    length = select(larger.eq(0.0), 0.0, length)
    return select(a.eq(math.inf) | b.eq(math.inf), math.inf, length)


def xlogy(x: Scalar, y: Scalar) -> Scalar:
    product = select(x.eq(0), 0.0, x * y.log())
    return select(y.isnan(), y, product)


def xlog1py(x: Scalar, y: Scalar) -> Scalar:
    product = select(x.eq(0), 0.0, x * y.log1p())
    return select(y.isnan(), y, product)


@rule("aten.heaviside.default")
def heaviside(c, x, at_zero):
    require(tensor_dtype(x) == tensor_dtype(at_zero), "operands of one dtype")
    return elementwise(c, lambda x, at_zero: select(x.eq(0), at_zero, (x > 0).to(x.dtype)), x, at_zero, mark=STORED)


def lerp(start: Scalar, end: Scalar, weight: Scalar) -> Scalar:
    """The form that is exact at the nearer end."""
    difference = end - start
    return select(weight.abs() < 0.5, start + weight * difference, end - difference * (1.0 - weight))


# Eager's kernels of these read a number in the dtype that they compute in.
PRODUCTS: dict[str, Emit] = {
    "mul.Tensor": lambda a, b: a * b,
    "mul.Scalar": lambda a, b: a * b,
    "multiply.Tensor": lambda a, b: a * b,
    "div.Tensor": lambda a, b: a / b,
    "div.Scalar": lambda a, b: a / b,
    "true_divide.Tensor": lambda a, b: a / b,
    "true_divide.Scalar": lambda a, b: a / b,
}
BINARY: dict[str, Emit] = {
    "atan2.default": lambda a, b: a.call("math.atan2", b),
    "copysign.Tensor": Scalar.copysign,
    "copysign.Scalar": Scalar.copysign,
    "maximum.default": Scalar.maximum,
    "minimum.default": Scalar.minimum,
    "max.other": Scalar.maximum,
    "min.other": Scalar.minimum,
    "hypot.default": hypot,
    "logaddexp.default": logaddexp,
    "logaddexp2.default": logaddexp2,
    "xlogy.Tensor": xlogy,
    "xlogy.Scalar_Self": xlogy,
    "xlogy.Scalar_Other": xlogy,
    "special_xlog1py.default": xlog1py,
    "special_xlog1py.self_scalar": xlog1py,
    "special_xlog1py.other_scalar": xlog1py,
}


def _binary(emit: Emit, wide_numbers: bool, c: Conversion, a, b, *_):
    return elementwise(c, emit, a, b, wide_numbers=wide_numbers)


def register_binary(table: dict[str, Emit], *, wide_numbers: bool = False) -> None:
    """A rule for each `aten.<name>` of two operands whose value `emit` gives."""
    for name, emit in table.items():
        rule(f"aten.{name}")(partial(_binary, emit, wide_numbers))


register_binary(BINARY)
register_binary(PRODUCTS, wide_numbers=True)


def fmax(a: Scalar, b: Scalar) -> Scalar:
    """The larger; a number wins over NaN."""
    return a.call("arith.maxnumf", b) if is_float(a.dtype) else a.maximum(b)


def fmin(a: Scalar, b: Scalar) -> Scalar:
    return a.call("arith.minnumf", b) if is_float(a.dtype) else a.minimum(b)


register_binary({"fmax.default": fmax, "fmin.default": fmin})


def _summed(c: Conversion, emit: Emit, *operands: Operand) -> ir.Value:
    """Eager's sums on a CPU take a number as it is in the dtype of the result, those on a GPU in the dtype that they compute in."""
    return elementwise(c, emit, *operands, wide_numbers=c.asked.target == "cuda")


@rule("aten.add.Tensor", "aten.add.Scalar")
def add(c, a, b, alpha=1):
    if alpha == 1:
        return _summed(c, lambda a, b: a + b, a, b)
    return _summed(c, lambda a, b, alpha: a + b * alpha, a, b, alpha)


@rule("aten.sub.Tensor", "aten.sub.Scalar", "aten.subtract.Tensor", "aten.subtract.Scalar")
def sub(c, a, b, alpha=1):
    if any(isinstance(x, bool) or (isinstance(x, ir.Value) and tensor_dtype(x) == torch.bool) for x in (a, b)):
        raise NoRule("a boolean in a subtraction, which ATen refuses")
    if alpha == 1:
        return _summed(c, lambda a, b: a - b, a, b)
    return _summed(c, lambda a, b, alpha: a - b * alpha, a, b, alpha)


@rule("aten.rsub.Tensor", "aten.rsub.Scalar")
def rsub(c, a, b, alpha=1):
    return sub(c, b, a, alpha)


@rule("aten.addcmul.default")
@numbers_only
def addcmul(c, x, a, b, value=1):
    if value == 1:
        return elementwise(c, lambda x, a, b: x + a * b, x, a, b)
    return elementwise(c, lambda x, a, b, value: x + value * a * b, x, a, b, value, wide_numbers=True)


@rule("aten.addcdiv.default")
def addcdiv(c, x, a, b, value=1):
    return elementwise(c, lambda x, a, b, value: x + value * (a / b), x, a, b, value, wide_numbers=True)


@rule("aten.lerp.Scalar", "aten.lerp.Tensor")
@floats_only
def lerp_rule(c, start, end, weight):
    return elementwise(c, lerp, start, end, weight, wide_numbers=True)


@rule("prims.fma.default")
def fma(c, a, b, x):
    return elementwise(c, lambda a, b, x: a.call("math.fma", b, x), a, b, x)

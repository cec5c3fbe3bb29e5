"""Activation functions and their derivatives. At the points where two pieces meet, and for NaN, each does what eager does."""

import math
from functools import partial

import torch
from bascule.dialect.ir.types import STORED

from ...conversion.context import Conversion
from ...conversion.registry import rule
from ..support.operands import (
    Emit,
    Mask,
    dtype_of_result,
    elementwise,
    floats_only,
    known_numbers,
    numbers_only,
    tensor_dtype,
)
from ..support.requirements import require, require_held
from ..support.scalars import Scalar, select
from .pointwise import sigmoid

SQRT_HALF, SQRT_2_OVER_PI = math.sqrt(0.5), math.sqrt(2.0 / math.pi)
GELU_CUBIC = 0.044715


def softplus(x: Scalar, beta: float, threshold: float) -> Scalar:
    scaled = x * beta
    return select(scaled > threshold, x, scaled.exp().log1p() / beta)


def mish(x: Scalar) -> Scalar:
    return x * x.exp().log1p().call("math.tanh")


def mish_backward(grad: Scalar, x: Scalar) -> Scalar:
    tanh = x.exp().log1p().call("math.tanh")
    return grad * (tanh + x * sigmoid(x) * (1.0 - tanh * tanh))


def silu(x: Scalar) -> Scalar:
    return x / ((-x).exp() + 1.0)


def silu_backward(grad: Scalar, x: Scalar) -> Scalar:
    s = sigmoid(x)
    return grad * s * (x * (1.0 - s) + 1.0)


def hardsigmoid(x: Scalar) -> Scalar:
    return (x + 3.0).maximum(0.0).minimum(6.0) / 6.0


def hardswish(x: Scalar) -> Scalar:
    return x * (x + 3.0).maximum(0.0).minimum(6.0) / 6.0


def hardswish_backward(grad: Scalar, x: Scalar) -> Scalar:
    middle = select(x < 3.0, grad * (x / 3.0 + 0.5), grad)
    return select(x <= -3.0, 0.0, middle)


UNARY: dict[str, Emit] = {
    "relu6.default": lambda x: x.maximum(0).minimum(6),
    "silu.default": silu,
    "mish.default": mish,
    "hardsigmoid.default": hardsigmoid,
    "hardswish.default": hardswish,
    "log_sigmoid.default": lambda x: x.minimum(0.0) - (-x.abs()).exp().log1p(),
}
# Of the incoming gradient and, for `sigmoid` and `tanh`, the output; for the others, the input.
BACKWARD: dict[str, Emit] = {
    "sigmoid_backward.default": lambda grad, y: grad * (1.0 - y) * y,
    "tanh_backward.default": lambda grad, y: grad * (1.0 - y * y),
    "silu_backward.default": silu_backward,
    "mish_backward.default": mish_backward,
    "hardswish_backward.default": hardswish_backward,
    "hardsigmoid_backward.default": lambda grad, x: select((x > -3.0) & (x < 3.0), grad / 6.0, 0.0),
}


def _operands(emit: Emit, c: Conversion, *operands):
    return elementwise(c, emit, *operands)


for _name, _emit in (UNARY | BACKWARD).items():
    rule(f"aten.{_name}")(partial(_operands, _emit))


@rule("aten.gelu.default")
@floats_only
def gelu(c, x, approximate="none"):
    def exact(x: Scalar) -> Scalar:
        return x * 0.5 * ((x * SQRT_HALF).call("math.erf") + 1.0)

    def tanh(x: Scalar) -> Scalar:
        return x * 0.5 * (_gelu_tanh(x) + 1.0)

    return elementwise(c, tanh if approximate == "tanh" else exact, x)


def _gelu_tanh(x: Scalar) -> Scalar:
    return ((x + x * x * x * GELU_CUBIC) * SQRT_2_OVER_PI).call("math.tanh")


@rule("aten.gelu_backward.default")
def gelu_backward(c, grad, x, approximate="none"):
    def exact(grad: Scalar, x: Scalar) -> Scalar:
        distribution = ((x * SQRT_HALF).call("math.erf") + 1.0) * 0.5
        density = (x * x * -0.5).exp() * (1.0 / math.sqrt(2.0 * math.pi))
        return grad * (distribution + x * density)

    def tanh(grad: Scalar, x: Scalar) -> Scalar:
        t = _gelu_tanh(x)
        slope = (x * x * (3.0 * GELU_CUBIC) + 1.0) * SQRT_2_OVER_PI
        return grad * ((t + 1.0) * 0.5 + x * 0.5 * (1.0 - t * t) * slope)

    return elementwise(c, tanh if approximate == "tanh" else exact, grad, x)


@rule("aten.softplus.default")
def softplus_rule(c, x, beta=1, threshold=20):
    return elementwise(c, lambda x: softplus(x, beta, threshold), x)


@rule("aten.softplus_backward.default")
def softplus_backward(c, grad, x, beta, threshold):
    def emit(grad: Scalar, x: Scalar) -> Scalar:
        scaled = x * beta
        power = scaled.exp()
        return select(scaled > threshold, grad, grad * power / (power + 1.0))

    return elementwise(c, emit, grad, x)


@rule("aten.relu.default")
def relu(c, x):
    require(tensor_dtype(x) != torch.bool, "numbers, no booleans")
    return elementwise(c, lambda x: x.maximum(0), x)


@rule("aten.threshold.default")
@numbers_only
def threshold_rule(c, x, threshold, value):
    require_held(threshold, tensor_dtype(x))
    require_held(value, tensor_dtype(x))
    return elementwise(c, lambda x: select(x <= threshold, value, x), x)


@rule("aten.threshold_backward.default")
def threshold_backward(c, grad, x, threshold):
    return elementwise(c, lambda grad, x: select(x <= threshold, 0, grad), grad, x)


@rule("aten.hardtanh.default")
def hardtanh(c, x, low=-1, high=1):
    require_held(low, tensor_dtype(x))
    require_held(high, tensor_dtype(x))
    return elementwise(c, lambda x: x.maximum(low).minimum(high), x)


@rule("aten.hardtanh_backward.default")
def hardtanh_backward(c, grad, x, low, high):
    return elementwise(c, lambda grad, x: select((x <= low) | (x >= high), 0.0, grad), grad, x)


@rule("aten.hardshrink.default")
@known_numbers("width")
def hardshrink(c, x, width=0.5):
    return elementwise(c, lambda x: select((x >= -width) & (x <= width), 0.0, x), x, mark=STORED)


@rule("aten.hardshrink_backward.default", "aten.softshrink_backward.default")
@known_numbers("width")
def shrink_backward(c, grad, x, width):
    return elementwise(c, lambda grad, x: select((x >= -width) & (x <= width), 0.0, grad), grad, x)


@rule("aten.softshrink.default")
@known_numbers("width")
def softshrink(c, x, width=0.5):
    def emit(x: Scalar) -> Scalar:
        middle = select(x < -width, x + width, x * 0.0)  # NaN stays
        return select(x > width, x - width, middle)

    return elementwise(c, emit, x)


@rule("aten.elu.default")
@known_numbers("alpha", "scale", "input_scale")
def elu(c, x, alpha=1, scale=1, input_scale=1):
    def emit(x: Scalar) -> Scalar:
        negative = (x * float(input_scale)).call("math.expm1") * float(alpha * scale)
        return select(x < 0.0, negative, x * float(scale))

    return elementwise(c, emit, x)


@rule("aten.elu_backward.default")
@known_numbers("alpha", "scale", "input_scale")
def elu_backward(c, grad, alpha, scale, input_scale, is_result, x):
    """`x` is the output if `is_result`, else the input."""

    def emit(grad: Scalar, x: Scalar) -> Scalar:
        if is_result:
            slope = (x + float(alpha * scale)) * float(input_scale)
        else:
            slope = (x * float(input_scale)).exp() * float(alpha * scale * input_scale)
        return grad * select(x <= 0.0, slope, float(scale))

    return elementwise(c, emit, grad, x)


@rule("aten.celu.default")
@known_numbers("alpha")
def celu(c, x, alpha=1.0):
    return elu(c, x, alpha, 1, 1.0 / alpha)


@rule("aten.selu.default")
def selu(c, x):
    return elu(c, x, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1)


@rule("aten.leaky_relu.default")
def leaky_relu(c, x, slope=0.01):
    return elementwise(c, lambda x: select(x > 0.0, x, x * slope), x)


@rule("aten.leaky_relu_backward.default")
def leaky_relu_backward(c, grad, x, slope, is_result):
    return elementwise(c, lambda grad, x: select(x > 0.0, grad, grad * slope), grad, x)


@rule("aten._prelu_kernel.default")
@floats_only
def prelu(c, x, weight):
    return elementwise(c, lambda x, w: select(x > 0.0, x, x * w), x, weight)


@rule("aten._prelu_kernel_backward.default")
def prelu_backward(c, grad, x, weight):
    grad_x = elementwise(c, lambda g, x, w: select(x > 0.0, g, g * w), grad, x, weight)
    grad_weight = elementwise(c, lambda g, x, w: select(x > 0.0, 0.0, g * x), grad, x, weight, number=1)
    return [grad_x, grad_weight]


@rule("aten.log_sigmoid_forward.default")
def log_sigmoid_forward(c, x):
    """The second result is a buffer for the backward that eager on the CPU fills; empty on a GPU."""
    output = elementwise(c, UNARY["log_sigmoid.default"], x)
    if c.results[1].rank != c.results[0].rank:
        return [output, elementwise(c, lambda: Scalar.constant(0.0, dtype_of_result(c, 1)), number=1)]
    return [output, elementwise(c, lambda x: (-x.abs()).exp(), x, number=1)]


@rule("aten.log_sigmoid_backward.default")
def log_sigmoid_backward(c, grad, x, buffer):
    def emit(grad: Scalar, x: Scalar) -> Scalar:
        decay = (-x.abs()).exp()
        rest = decay / (decay + 1.0)
        return grad * select(x < 0.0, 1.0 - rest, rest)

    return elementwise(c, emit, grad, x)


@rule("aten.logit.default")
@known_numbers("eps")
def logit(c, x, eps=None):
    def emit(x: Scalar) -> Scalar:
        if eps is not None:  # an `eps` of NaN bounds nothing
            x = select(x < eps, eps, select(x > 1.0 - eps, 1.0 - eps, x))
        return (x / (1.0 - x)).log()

    return elementwise(c, emit, x)


@rule("aten.logit_backward.default")
@known_numbers("eps")
def logit_backward(c, grad, x, eps=None):
    def emit(grad: Scalar, x: Scalar) -> Scalar:
        slope = grad / (x * (1.0 - x)).abs()  # of -0.0 too an infinity of grad's sign
        if eps is None:
            return select((x < 0.0) | (x > 1.0), math.nan, slope)
        return select((x < eps) | (x > 1.0 - eps), 0.0, slope)

    return elementwise(c, emit, grad, x)


@rule("aten.native_dropout_backward.default")
def native_dropout_backward(c, grad, mask, scale):
    return elementwise(c, lambda keep, grad: grad * (keep.to(grad.dtype) * scale), Mask(mask), grad)

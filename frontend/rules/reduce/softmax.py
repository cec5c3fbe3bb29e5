"""Softmax, its logarithm and their derivatives: a maximum, a sum and a result, three computes that fusion makes one kernel of."""

import math
from collections.abc import Callable

from bascule.dialect.ir.shapes import shape_of
from bascule.dialect.mlir import ir

from ...conversion.context import Conversion
from ...conversion.registry import rule
from ..support.axes import Axes
from ..support.operands import dtype_of_result, finish, read, temporary, tensor_dtype
from ..support.requirements import require, require_dtype
from ..support.scalars import Scalar, opmath, select
from .reductions import same


def _maximum(c: Conversion, x: ir.Value, dim: int) -> tuple[Axes, ir.Value]:
    """The axes along `dim`, and the maximum there, in f32 for narrower floats."""
    require(tensor_dtype(x).is_floating_point, "a softmax of floats")
    inside = opmath(dtype_of_result(c))
    axes = Axes.of(x, dim, keepdim=True)
    return axes, axes.kept(inside, lambda at: axes.reduce("max", at, same, inside, inside)[0])


@rule("aten._softmax.default", "aten.softmax.int")
def softmax(c, x, dim, *_):
    """The exponentials are a compute of their own, so that a kernel can keep a row of them and not compute them twice."""
    axes, maximum = _maximum(c, x, dim)
    dtype = dtype_of_result(c)
    inside = opmath(dtype)

    def power(at) -> Scalar:
        return (read(x, at).to(inside) - read(maximum, axes.kept_index(at))).exp()

    powers = temporary(shape_of(x), inside, power)
    totals = axes.kept(inside, lambda at: axes.fold("sum", at, lambda index: read(powers, index), inside)[0])
    return c.compute(lambda at: finish(c, read(powers, at) / read(totals, axes.kept_index(at)), dtype))


@rule("aten._log_softmax.default", "aten.log_softmax.int")
def log_softmax(c, x, dim, *_):
    axes, maximum = _maximum(c, x, dim)
    dtype = dtype_of_result(c)
    inside = opmath(dtype)

    def total(at) -> Scalar:
        largest = read(maximum, at)
        return axes.reduce("sum", at, lambda x: (x - largest).exp(), inside, inside)[0]

    totals = axes.kept(inside, total)

    def body(at):
        place = axes.kept_index(at)
        return finish(c, read(x, at).to(inside) - read(maximum, place) - read(totals, place).log(), dtype)

    return c.compute(body)


@rule("aten._safe_softmax.default")
def safe_softmax(c, x, dim, *_):
    """Zero, not NaN, for a row whose elements are all -infinity: there x - max is NaN, and only there or for NaN in x."""
    dtype = dtype_of_result(c)
    require(dtype.is_floating_point, "a result of floats")
    inside = opmath(dtype)
    axes = Axes.of(x, dim, keepdim=True)
    maximum = axes.kept(inside, lambda at: axes.reduce("max", at, same, inside, inside)[0])

    def shift(at) -> Scalar:
        largest = read(maximum, at)
        return select(largest.eq(-math.inf), 0.0, largest)

    def total(at) -> Scalar:
        largest = shift(at)
        return axes.reduce("sum", at, lambda x: (x - largest).exp(), inside, inside)[0]

    totals = axes.kept(inside, total)

    def body(at):
        place = axes.kept_index(at)
        sum_ = read(totals, place)
        value = (read(x, at).to(inside) - shift(place)).exp() / select(sum_.eq(0.0), 1.0, sum_)
        return finish(c, value, dtype)

    return c.compute(body)


def _backward(c: Conversion, grad: ir.Value, output: ir.Value, dim: int, term: Callable, element: Callable) -> ir.Value:
    """`element(grad, output, total)` with `total` the sum of `term(grad, output)` along `dim`."""
    dtype = dtype_of_result(c)
    inside = opmath(dtype)
    require_dtype(grad, output)
    axes = Axes.of(output, dim, keepdim=True)

    def pair(at) -> tuple[Scalar, Scalar]:
        return read(grad, at).to(inside), read(output, at).to(inside)

    totals = axes.kept(inside, lambda at: axes.fold("sum", at, lambda index: term(*pair(index)), inside)[0])
    return c.compute(lambda at: finish(c, element(*pair(at), read(totals, axes.kept_index(at))), dtype))


@rule("aten._softmax_backward_data.default")
def softmax_backward(c, grad, output, dim, *_):
    return _backward(c, grad, output, dim, lambda g, y: g * y, lambda g, y, total: y * (g - total))


@rule("aten._log_softmax_backward_data.default")
def log_softmax_backward(c, grad, output, dim, *_):
    return _backward(c, grad, output, dim, lambda g, y: g, lambda g, y, total: g - y.exp() * total)

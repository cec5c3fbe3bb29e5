"""Batch normalization in training, and derivatives of layer and batch normalization: two sums over what was normalized together, and the
gradients from them.

Each is a few computes that fusion joins; tracing the operators that PyTorch decomposes them into takes ten times as long.
"""

from collections.abc import Callable, Sequence

import torch
from bascule.dialect.ir.shapes import shape_of
from bascule.dialect.mlir import ir

from ...conversion.context import Conversion
from ...conversion.registry import NoRule, rule
from ..support.axes import Axes, Indices
from ..support.operands import dtype_of_result, finish, index_constant, number_scalar, read, temporary, tensor_dtype
from ..support.requirements import require_parameters
from ..support.scalars import Scalar, opmath
from .reductions import size_of
from .var_mean import mean_at, variance_at

At = Callable[[Indices], Scalar]


def _operand(x: ir.Value, inside: torch.dtype) -> At:
    tensor_dtype(x)
    return lambda at: read(x, at).to(inside)


def _product(a: At, b: At) -> At:
    return lambda at: a(at) * b(at)


def _sum(axes: Axes, element: At, inside: torch.dtype) -> At:
    """The sum of `element` along `axes`, in a tensor of its own; it is read with an index into what is summed."""
    rest = [i for i in range(axes.x.type.rank) if i not in axes.dims]
    sizes = [shape_of(axes.x)[i] for i in rest]
    total = temporary(sizes, inside, lambda at: axes.fold("sum", at, element, inside)[0])
    return lambda at: read(total, [at[i] for i in rest])


def _result(c: Conversion, number: int, body: At) -> ir.Value:
    dtype = dtype_of_result(c, number)
    return c.compute(lambda at: finish(c, body(at), dtype), number)


@rule("aten.native_layer_norm_backward.default")
def layer_norm_backward(c, grad, x, normalized, mean, rstd, weight, bias, wanted):
    """`mean` and `rstd`: of the sizes of the leading dimensions, sizes of 1 after them or not."""
    rank, inside = x.type.rank, opmath(tensor_dtype(x))
    first = rank - len(normalized)  # of the dimensions that are normalized
    rows, columns = Axes(x, tuple(range(first, rank)), False), Axes(x, tuple(range(first)), False)
    of_grad, of_x = _operand(grad, inside), _operand(x, inside)

    def row(statistic: ir.Value) -> At:
        element = _operand(statistic, inside)
        ends = range(first, statistic.type.rank)
        return lambda at: element([*at[:first], *(index_constant(0) for _ in ends)])

    of_mean, of_rstd = row(mean), row(rstd)

    def normal(at: Indices) -> Scalar:
        return (of_x(at) - of_mean(at)) * of_rstd(at)

    def of_normal(at: Indices) -> Scalar:
        return of_grad(at) if weight is None else of_grad(at) * read(weight, at[first:]).to(inside)

    gradients = [None, None, None]
    if wanted[0]:
        total = _sum(rows, of_normal, inside)
        along = _sum(rows, _product(of_normal, normal), inside)

        def of_input(at: Indices) -> Scalar:
            size, rstd = number_scalar(c, size_of(rows), inside), of_rstd(at)
            normal = (of_x(at) - of_mean(at)) * rstd
            return (rstd / size) * (of_normal(at) * size - total(at) - normal * along(at))

        gradients[0] = _result(c, 0, of_input)
    if wanted[1] and weight is not None:
        of_weight = _product(of_grad, normal)
        gradients[1] = _result(c, 1, lambda at: columns.fold("sum", at, of_weight, inside)[0])
    if wanted[2] and bias is not None:
        gradients[2] = _result(c, 2, lambda at: columns.fold("sum", at, of_grad, inside)[0])
    return gradients


@rule("aten._native_batch_norm_legit_functional.default")
def batch_norm(c, x, weight, bias, running_mean, running_var, training, momentum, eps):
    """Results: what was normalized; the mean and reciprocal deviation of each channel; the running statistics after this batch."""
    if not training:
        raise NoRule("normalizes by running statistics")
    require_parameters(x, weight, bias, running_mean, running_var)
    inside = opmath(tensor_dtype(x))
    axes = Axes(x, tuple(i for i in range(x.type.rank) if i != 1), False)
    channels = [shape_of(x)[1]]
    means = temporary(channels, inside, lambda at: mean_at(axes, inside, at))
    variances = temporary(channels, inside, lambda at: variance_at(c, axes, 0, inside, at))
    rstds = temporary(channels, inside, lambda at: (read(variances, at) + eps).call("math.rsqrt"))
    of_x = _operand(x, inside)

    def normal(at: Indices) -> Scalar:
        value = (of_x(at) - read(means, at[1:2])) * read(rstds, at[1:2])
        value = value if weight is None else value * read(weight, at[1:2]).to(inside)
        return value if bias is None else value + read(bias, at[1:2]).to(inside)

    def running(of_batch: At, before: ir.Value) -> At:
        return lambda at: of_batch(at) * momentum + read(before, at).to(inside) * (1 - momentum)

    def unbiased(at: Indices) -> Scalar:
        size = number_scalar(c, size_of(axes), inside)
        return read(variances, at) * (size / (size - 1.0))

    of_channel = [
        lambda at: read(means, at),
        lambda at: read(rstds, at),
        running(lambda at: read(means, at), running_mean),
        running(unbiased, running_var),
    ]
    return [_result(c, 0, normal), *(_result(c, number, body) for number, body in enumerate(of_channel, 1))]


@rule("aten.native_batch_norm_backward.default")
def batch_norm_backward(
    c, grad, x, weight, running_mean, running_var, save_mean, save_rstd, training, eps, wanted: Sequence[bool]
):
    """Statistics are of the batch while training, else the running ones, which do not depend on `x`."""
    inside = opmath(tensor_dtype(x))
    axes = Axes(x, tuple(i for i in range(x.type.rank) if i != 1), False)
    of_grad, of_x = _operand(grad, inside), _operand(x, inside)

    def channel(statistic: ir.Value) -> At:
        element = _operand(statistic, inside)
        return lambda at: element([at[1]])

    of_mean, of_spread = (channel(x) for x in ((save_mean, save_rstd) if training else (running_mean, running_var)))

    def of_rstd(at: Indices) -> Scalar:
        return of_spread(at) if training else 1.0 / (of_spread(at) + eps).sqrt()

    scale = of_rstd if weight is None else _product(of_rstd, channel(weight))

    def centred(at: Indices) -> Scalar:
        return of_x(at) - of_mean(at)

    total, along = _sum(axes, of_grad, inside), _sum(axes, _product(of_grad, centred), inside)

    def of_input(at: Indices) -> Scalar:
        value = of_grad(at)
        if training:
            share = number_scalar(c, 1, inside) / number_scalar(c, size_of(axes), inside)
            rstd = of_rstd(at)
            value = value - centred(at) * (along(at) * share * (rstd * rstd)) - total(at) * share
        return value * scale(at)

    def at_channel(body: At) -> At:
        """`body`, which takes an index into `x` and looks at its channel, with a channel instead."""
        return lambda at: body([index_constant(0), at[0]])

    gradients = [_result(c, 0, of_input) if wanted[0] else None, None, None]
    if wanted[1]:
        gradients[1] = _result(c, 1, at_channel(_product(along, of_rstd)))
    if wanted[2]:
        gradients[2] = _result(c, 2, at_channel(total))
    return gradients

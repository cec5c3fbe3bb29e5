"""Mean and variance in one pass by Welford's algorithm; log-sum-exp."""

import math

import torch
from bascule.dialect.mlir import ir

from ...conversion.context import Conversion
from ...conversion.registry import NoRule, rule
from ..support.axes import Axes, Indices
from ..support.operands import dtype_of_result, finish, number_scalar, read, temporary, tensor_dtype
from ..support.scalars import Scalar, opmath, select
from .reductions import same, size_of


def variance_at(c: Conversion, axes: Axes, correction: float, inside: torch.dtype, at: Indices) -> Scalar:
    """Squared deviations from the mean over (count - correction), which is not below 0: then NaN or infinity, as in eager."""
    _, squares, _ = axes.reduce("welford", at, same, inside, inside)
    return squares / (number_scalar(c, size_of(axes), inside) - number_scalar(c, correction, inside)).maximum(0.0)


def mean_at(axes: Axes, inside: torch.dtype, at: Indices) -> Scalar:
    """The mean, from the same pass as the variance; of nothing, NaN."""
    value, _, count = axes.reduce("welford", at, same, inside, inside)
    size = size_of(axes)
    return select(count.eq(0.0), math.nan, value) if size == 0 or not isinstance(size, int) else value


def variance(c: Conversion, axes: Axes, correction: float, *, root: bool = False, number: int = 0) -> ir.Value:
    """Result `number`: `variance_at`, or its root."""
    dtype = dtype_of_result(c, number)
    inside = opmath(dtype)

    def body(at: Indices) -> ir.Value:
        value = variance_at(c, axes, correction, inside, at)
        return finish(c, value.sqrt() if root else value, dtype)

    return c.compute(body, number)


def mean(c: Conversion, axes: Axes, number: int) -> ir.Value:
    """Result `number`: `mean_at`."""
    dtype = dtype_of_result(c, number)
    return c.compute(lambda at: finish(c, mean_at(axes, opmath(dtype), at), dtype), number)


def _correction(correction: float | None) -> float:
    return 1 if correction is None else correction


for _name, _root in (("var", False), ("std", True)):

    @rule(f"aten.{_name}.correction")
    def variance_rule(c, x, dims=None, correction=None, keepdim=False, *, root=_root):
        return variance(c, Axes.of(x, dims, keepdim), _correction(correction), root=root)

    @rule(f"aten.{_name}.default")
    def variance_of_all(c, x, unbiased=True, *, root=_root):
        return variance(c, Axes.of(x, None), int(unbiased), root=root)

    @rule(f"aten.{_name}.dim")
    def variance_over(c, x, dims, unbiased=True, keepdim=False, *, root=_root):
        return variance(c, Axes.of(x, dims, keepdim), int(unbiased), root=root)

    @rule(f"aten.{_name}_mean.correction")
    def variance_mean(c, x, dims=None, correction=None, keepdim=False, *, root=_root):
        axes = Axes.of(x, dims, keepdim)
        return [variance(c, axes, _correction(correction), root=root), mean(c, axes, number=1)]

    @rule(f"aten.{_name}_mean.default")
    def variance_mean_of_all(c, x, unbiased=True, *, root=_root):
        axes = Axes.of(x, None)
        return [variance(c, axes, int(unbiased), root=root), mean(c, axes, number=1)]

    @rule(f"aten.{_name}_mean.dim")
    def variance_mean_over(c, x, dims, unbiased=True, keepdim=False, *, root=_root):
        axes = Axes.of(x, dims, keepdim)
        return [variance(c, axes, int(unbiased), root=root), mean(c, axes, number=1)]


@rule("aten.logsumexp.default")
def logsumexp(c, x, dims, keepdim=False):
    """max + log(sum(exp(x - max))); an infinite maximum is not subtracted."""
    if not dims and x.type.rank:
        raise NoRule("a logsumexp over an empty list of dimensions")  # which ATen may refuse
    axes = Axes.of(x, dims, keepdim)
    dtype = dtype_of_result(c)
    inside = opmath(dtype)
    tensor_dtype(x)

    maximum = temporary(c.result_sizes[0], inside, lambda at: axes.reduce("max", at, same, inside, inside)[0])

    def body(at):
        largest = read(maximum, at)
        shift = select(largest.isinf(), 0.0, largest)
        (total,) = axes.reduce("sum", at, lambda x: (x - shift).exp(), inside, inside)
        return finish(c, total.log() + shift, dtype)

    return c.compute(body)

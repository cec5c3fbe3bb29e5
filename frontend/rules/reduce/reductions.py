"""Reductions over dimensions: sums, products, extremes and their positions, any and all, counts, norms.

f16 and bf16 accumulate in f32, integers in the dtype of the result. The body of the compute holds the `bascule.reduce`.
"""

import math
from collections.abc import Callable

import torch
from bascule.dialect.ir.shapes import constant
from bascule.dialect.mlir import ir

from ...conversion.context import Conversion
from ...conversion.registry import NoRule, rule
from ..support.axes import Axes
from ..support.operands import dtype_of_result, finish, known_numbers, number_scalar, promotion, tensor_dtype
from ..support.requirements import require
from ..support.scalars import UNSIGNED, Scalar, is_float, opmath, select

Emit = Callable[[Scalar], Scalar]


def same(x: Scalar) -> Scalar:
    return x


def reduce(
    c: Conversion,
    kind: str,
    axes: Axes,
    emit: Emit = same,
    after: Emit = same,
    *,
    inside: torch.dtype | None = None,
    dtype: torch.dtype | None = None,
    number: int = 0,
) -> ir.Value:
    """Result `number`: at each index, `after` the reduction by `kind` of `emit` of the elements.

    Elements are read in `inside`, by default the dtype of the result (f32 for narrower floats); `emit` gives `dtype`, by default the same.
    """
    result = dtype_of_result(c, number)
    inside = inside or opmath(result)
    tensor_dtype(axes.x)  # complex is refused before anything is built
    mark = promotion(result)  # a sum in f32 of narrower elements
    return c.compute(
        lambda at: finish(c, after(axes.reduce(kind, at, emit, dtype or inside, inside, mark=mark)[0]), result), number
    )


# -- sums and products --------------------------------------------------------------------------------------------------


def total(c: Conversion, kind: str, axes: Axes, emit: Emit = same) -> ir.Value:
    """The sum or the product; as a boolean, that is any or all."""
    if dtype_of_result(c) == torch.bool:
        kind = {"sum": "any", "prod": "all"}[kind]
    return reduce(c, kind, axes, emit)


@rule("aten.sum.default")
def sum_of_all(c, x, *_):
    return total(c, "sum", Axes.of(x, None))


@rule("aten.sum.dim_IntList")
def sum_(c, x, dims, keepdim=False, *_):
    return total(c, "sum", Axes.of(x, dims, keepdim))


@rule("aten.prod.default")
def product_of_all(c, x, *_):
    return total(c, "prod", Axes.of(x, None))


@rule("aten.prod.dim_int")
def product(c, x, dim, keepdim=False, *_):
    return total(c, "prod", Axes.of(x, dim, keepdim))


@rule("aten.nansum.default")
def nansum(c, x, dims=None, keepdim=False, *_):
    return total(c, "sum", Axes.of(x, dims, keepdim), lambda x: select(x.isnan(), 0, x) if is_float(x.dtype) else x)


def mean_of(c: Conversion, axes: Axes) -> ir.Value:
    return reduce(c, "sum", axes, after=lambda total: total / number_scalar(c, size_of(axes), total.dtype))


def size_of(axes: Axes) -> int | ir.AffineExpr:
    """The number of elements in one reduction; a Python number if it is static."""
    count = axes.count
    return count.value if isinstance(count, ir.AffineConstantExpr) else count


@rule("aten.mean.default")
def mean_of_all(c, x, *_):
    return mean_of(c, Axes.of(x, None))


@rule("aten.mean.dim")
def mean(c, x, dims, keepdim=False, *_):
    return mean_of(c, Axes.of(x, dims, keepdim))


# -- any, all, counts ---------------------------------------------------------------------------------------------------


def to_bool(x: Scalar) -> Scalar:
    return x.to(torch.bool)


def logical(c: Conversion, kind: str, axes: Axes) -> ir.Value:
    return reduce(c, kind, axes, to_bool, inside=opmath(tensor_dtype(axes.x)), dtype=torch.bool)


for _kind in ("any", "all"):

    @rule(f"aten.{_kind}.default")
    def logical_of_all(c, x, *, kind=_kind):
        return logical(c, kind, Axes.of(x, None))

    @rule(f"aten.{_kind}.dim", f"aten.{_kind}.dims")
    def logical_over(c, x, dims=None, keepdim=False, *, kind=_kind):
        return logical(c, kind, Axes.of(x, dims, keepdim, empty_is_all=False))


def count(c: Conversion, axes: Axes) -> ir.Value:
    inside = opmath(tensor_dtype(axes.x))
    return reduce(c, "sum", axes, lambda x: x.ne(0).to(torch.int64), inside=inside, dtype=torch.int64)


@rule("aten.count_nonzero.default", "aten.count_nonzero.dim_IntList")
def count_nonzero(c, x, dims=None):
    return count(c, Axes.of(x, dims))


# -- extremes and positions -----------------------------------------------------------------------------------------------


def extreme_kind(kind: str, dtype: torch.dtype) -> str:
    """The reduce kind of "max" or "min" for elements of `dtype`."""
    if dtype == torch.bool:
        return {"max": "any", "min": "all"}[kind]
    return kind + "u" if dtype in UNSIGNED else kind


def extreme(c: Conversion, kind: str, axes: Axes, number: int = 0) -> ir.Value:
    """Of one element at least: ATen refuses to find one among none."""
    if any(constant(size) == 0 for size in axes.sizes):
        raise NoRule("the largest or smallest of no elements")
    return reduce(c, extreme_kind(kind, tensor_dtype(axes.x)), axes, number=number)


def ordered(x: Scalar) -> Scalar:
    """An integer or boolean as a signed integer of the same order, which is what positions are found by."""
    if is_float(x.dtype):
        return x
    if x.dtype == torch.uint64:
        return (x ^ (1 << 63)).to(torch.int64)
    wider = {torch.bool: torch.int8, torch.uint8: torch.int16, torch.uint16: torch.int32, torch.uint32: torch.int64}
    return x.to(wider.get(x.dtype, x.dtype))


def position(c: Conversion, kind: str, axes: Axes, number: int = 0) -> ir.Value:
    """The first position of the extreme ("max", "min") over the reduced dimensions, in row-major order."""
    inside = opmath(tensor_dtype(axes.x))
    signed = {torch.bool: torch.int8, torch.uint8: torch.int16, torch.uint16: torch.int32}
    signed |= {torch.uint32: torch.int64, torch.uint64: torch.int64}
    return reduce(c, "arg" + kind, axes, ordered, inside=inside, dtype=signed.get(inside, inside), number=number)


for _kind in ("max", "min"):

    @rule(f"aten.a{_kind}.default")
    def extreme_over(c, x, dims=(), keepdim=False, *, kind=_kind):
        return extreme(c, kind, Axes.of(x, dims, keepdim))

    @rule(f"aten.{_kind}.default")
    def extreme_of_all(c, x, *, kind=_kind):
        return extreme(c, kind, Axes.of(x, None))

    @rule(f"aten.{_kind}.dim")
    def extreme_with_position(c, x, dim, keepdim=False, *, kind=_kind):
        axes = Axes.of(x, dim, keepdim)
        return [extreme(c, kind, axes), position(c, kind, axes, number=1)]

    @rule(f"aten.arg{_kind}.default")
    def position_rule(c, x, dim=None, keepdim=False, *, kind=_kind):
        require(tensor_dtype(x) != torch.bool, "numbers, no booleans")
        return position(c, kind, Axes.of(x, dim, keepdim))


@rule("aten.aminmax.default")
def aminmax(c, x, dim=None, keepdim=False):
    axes = Axes.of(x, dim, keepdim)
    return [extreme(c, "min", axes), extreme(c, "max", axes, number=1)]


# -- norms --------------------------------------------------------------------------------------------------------------


def norm(c: Conversion, x: ir.Value, order: float, axes: Axes) -> ir.Value:
    if order == math.inf:
        return reduce(c, "max", axes, Scalar.abs)
    if order == -math.inf:
        return reduce(c, "min", axes, Scalar.abs)
    if order == 0:
        return reduce(c, "sum", axes, lambda x: x.ne(0).to(x.dtype))
    if order == 1:
        return reduce(c, "sum", axes, Scalar.abs)
    if order == 2:
        return reduce(c, "sum", axes, lambda x: x * x, Scalar.sqrt)
    power = float(order)
    return reduce(
        c, "sum", axes, lambda x: x.abs().call("math.powf", power), lambda s: s.call("math.powf", 1.0 / power)
    )


@rule("aten.linalg_vector_norm.default")
@known_numbers("order")
def vector_norm(c, x, order=2, dims=None, keepdim=False, *_):
    return norm(c, x, order, Axes.of(x, dims, keepdim))


@rule("aten.norm.Scalar", "aten.norm.ScalarOpt_dtype")
@known_numbers("order")
def norm_of_all(c, x, order=2, *_):
    return norm(c, x, 2 if order is None else order, Axes.of(x, None))


@rule("aten.norm.ScalarOpt_dim", "aten.norm.ScalarOpt_dim_dtype")
@known_numbers("order")
def norm_over(c, x, order, dims, keepdim=False, *_):
    return norm(c, x, 2 if order is None else order, Axes.of(x, dims, keepdim))

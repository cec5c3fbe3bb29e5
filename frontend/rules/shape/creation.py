"""Tensors made of nothing or of their indices: constants, ranges, triangles."""

import math

import torch
from bascule.dialect.ir import builders
from bascule.dialect.mlir import ir

from ...conversion.context import Conversion
from ...conversion.registry import rule
from ..support.index_values import compare
from ..support.operands import dtype_of_result, elementwise, finish, number_scalar, read, tensor_dtype
from ..support.requirements import require_held
from ..support.scalars import Number, Scalar, create, opmath, select


def constant(c: Conversion, number: Number | ir.AffineExpr) -> ir.Value:
    dtype = dtype_of_result(c)
    return c.compute(lambda at: number_scalar(c, number, dtype).value)


@rule("aten.full.default", "aten.fill.Scalar", "aten.full_like.default")
def full(c, _, number, *rest):
    require_held(number, dtype_of_result(c))
    return constant(c, number)


@rule("aten.fill.Tensor")
def fill(c, x, value):
    return elementwise(c, lambda value: value, value)


@rule("aten.scalar_tensor.default")
def scalar_tensor(c, number, *_):
    return constant(c, number)


@rule(
    "aten.zeros.default",
    "aten.zeros_like.default",
    "aten.zero.default",
    "aten._efficientzerotensor.default",
)
def zeros(c, *_):
    return constant(c, 0)


@rule(
    "aten.empty.memory_format",
    "aten.empty_like.default",
    "aten.empty_strided.default",
    "aten.empty_permuted.default",
    "aten.new_empty.default",
    "aten.new_empty_strided.default",
)
def uninitialized(c, *_):
    """Zeros, so that a run can be repeated, unless eager says what memory holds that is never written."""
    dtype = dtype_of_result(c)
    if not c.asked.fill_uninitialized:
        return constant(c, 0)
    return constant(c, math.nan if dtype.is_floating_point else 1 if dtype == torch.bool else torch.iinfo(dtype).max)


@rule("aten.ones.default", "aten.ones_like.default")
def ones(c, *_):
    return constant(c, 1)


# -- of the index -------------------------------------------------------------------------------------------------------


def position(index: ir.Value) -> Scalar:
    """An index as an int64 scalar."""
    i64 = ir.IntegerType.get_signless(64)
    return Scalar(create("arith.index_cast", i64, index), torch.int64)


@rule("aten.arange.default")
def arange(c, end, *_):
    return arange_with_step(c, 0, end, 1)


@rule("aten.arange.start")
def arange_from(c, start, end, *_):
    return arange_with_step(c, start, end, 1)


@rule("aten.arange.start_step")
def arange_with_step(c, start, end, step=1, *_):
    """start + i * step, exact for whole numbers; else in f64, as eager accumulates on the CPU. Integers count from and by what is before
    the point."""
    dtype = dtype_of_result(c)
    if not dtype.is_floating_point:
        start, step = _truncated(start), _truncated(step)
    whole = not dtype.is_floating_point or all(
        isinstance(x, ir.AffineExpr) or (not isinstance(x, ir.Value) and float(x).is_integer()) for x in (start, step)
    )
    inside = torch.int64 if whole else torch.float64

    def body(at):
        i = position(at[0]).to(inside)
        if step != 1:
            i = i * number_scalar(c, step, inside)
        if start != 0:
            i = i + number_scalar(c, start, inside)
        return finish(c, i, dtype)

    return c.compute(body)


def _truncated(x: Number | ir.AffineExpr) -> Number | ir.AffineExpr:
    """A number without what is behind the point."""
    return int(x) if isinstance(x, float) else x


@rule("prims.iota.default")
def iota(c, length, start, step, *_):
    return arange_with_step(c, start, None, step)


def _spaced(c: Conversion, start, end, steps, base: float | None):
    """`steps` numbers from `start` to `end`, each computed from the nearer end; as powers of `base` if there is one. Integers lie between
    ends that are integers."""
    dtype = dtype_of_result(c)
    inside = opmath(dtype) if dtype.is_floating_point else torch.float64

    def end_point(x) -> Scalar:
        if isinstance(x, ir.Value):
            given = read(x, [])
            return (given if dtype.is_floating_point else given.to(dtype)).to(inside)
        if not dtype.is_floating_point:
            require_held(x, dtype)  # what eager makes of another depends on the processor
        return number_scalar(c, x if dtype.is_floating_point else _truncated(x), inside)

    def body(at):
        first, last = end_point(start), end_point(end)
        count = number_scalar(c, steps, torch.int64)
        i = position(at[0])
        step = (last - first) / (count - 1).maximum(1).to(inside)
        up, down = first + step * i.to(inside), last - step * (count - 1 - i).to(inside)
        value = select(count > 1, select(i + i < count - 1, up, down), first)  # the middle one from the end, as eager
        if base is not None:
            value = Scalar.constant(base, inside).call("math.powf", value)
        return finish(c, value, dtype)

    return c.compute(body)


_OVERLOADS = ("default", "Tensor_Tensor", "Tensor_Scalar", "Scalar_Tensor")


@rule(*(f"aten.linspace.{overload}" for overload in _OVERLOADS))
def linspace(c, start, end, steps, *_):
    return _spaced(c, start, end, steps, None)


@rule(*(f"aten.logspace.{overload}" for overload in _OVERLOADS))
def logspace(c, start, end, steps, base=10.0, *_):
    return _spaced(c, start, end, steps, base)


@rule("aten.eye.default", "aten.eye.m")
def eye(c, *_):
    dtype = dtype_of_result(c)
    return c.compute(lambda at: finish(c, Scalar(compare("eq", at[0], at[1]), torch.bool), dtype))


def _triangle(c: Conversion, x: ir.Value, predicate: str, diagonal: int | ir.AffineExpr) -> ir.Value:
    """`x` where column - row, compared with `diagonal`, says so; 0 elsewhere."""
    dtype = tensor_dtype(x)
    rank = len(c.result_sizes[0])
    row, column = ir.AffineExpr.get_dim(rank - 2), ir.AffineExpr.get_dim(rank - 1)

    def body(at):
        (distance,) = c.apply([column - row - diagonal], at)
        inside = Scalar(compare(predicate, distance, 0), torch.bool)
        return select(inside, Scalar(builders.read(x, at), dtype), 0).value

    return c.compute(body)


@rule("aten.tril.default")
def tril(c, x, diagonal=0):
    return _triangle(c, x, "le", diagonal)


@rule("aten.triu.default")
def triu(c, x, diagonal=0):
    return _triangle(c, x, "ge", diagonal)

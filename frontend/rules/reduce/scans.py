"""Running reductions along a dimension: cumsum, cumprod, logcumsumexp, and cummax and cummin with positions."""

from collections.abc import Callable

import torch
from bascule.dialect.ir import builders, shapes
from bascule.dialect.ir.types import STORED
from bascule.dialect.mlir import ir

from ...conversion.context import Conversion
from ...conversion.registry import NoRule, rule
from ..shape.creation import position
from ..support.axes import wrap_dim
from ..support.operands import dtype_of_result, finish, floats_only, read, tensor_dtype
from ..support.scalars import Scalar, element_type, opmath
from .reductions import extreme_kind


def scan(
    c: Conversion, kind: str, dim: int, dtype: torch.dtype, element: Callable[[list[ir.Value]], Scalar], number: int = 0
) -> ir.Value:
    """Result `number` as a scan of `element`, which gives `dtype`; where the result is narrower, by way of an intermediate."""
    sizes, result = c.result_sizes[number], dtype_of_result(c, number)
    dim = wrap_dim(dim, len(sizes))
    # A scalar is its own running reduction, and nothing has no elements.
    if not sizes or 0 in map(shapes.constant, sizes):
        return c.compute(lambda at: finish(c, element(at), result), number)
    type_ = c.results[number] if dtype == result else shapes.tensor_type(sizes, element_type(dtype))
    running = builders.scan(kind, dim, type_, sizes, lambda at: element(at).value)
    if dtype == result:
        return running
    return c.compute(lambda at: finish(c, read(running, at), result), number)


def of_elements(x: ir.Value, dtype: torch.dtype) -> Callable[[list[ir.Value]], Scalar]:
    return lambda at: read(x, at).to(dtype)


def running_total(c: Conversion, kind: str, x: ir.Value, dim: int) -> ir.Value:
    """Accumulates in the result's dtype, f32 for narrower floats."""
    tensor_dtype(x)
    dtype = dtype_of_result(c)
    if dtype == torch.bool:
        raise NoRule("a running total of booleans")
    inside = opmath(dtype)
    return scan(c, kind, dim, inside, of_elements(x, inside))


@rule("aten.cumsum.default")
def cumsum(c, x, dim, *_):
    return running_total(c, "sum", x, dim)


@rule("aten.cumprod.default")
def cumprod(c, x, dim, *_):
    return running_total(c, "prod", x, dim)


@rule("aten.logcumsumexp.default")
@floats_only
def logcumsumexp(c, x, dim):
    return running_total(c, "logaddexp", x, dim)


def extremes(c: Conversion, kind: str, x: ir.Value, dim: int) -> list[ir.Value]:
    """Running extremes and, of equal ones, the last position: an element that, as it is stored, equals the extreme there sets
    it; a later NaN does."""
    dtype = tensor_dtype(x)
    dim = wrap_dim(dim, len(c.result_sizes[0]))
    if dtype == torch.bool:  # booleans have no scan kinds of their own
        as_bytes = torch.uint8
        sizes = c.result_sizes[0]
        byte_type = shapes.tensor_type(sizes, element_type(as_bytes))
        if not sizes or 0 in map(shapes.constant, sizes):
            values = c.compute(lambda at: read(x, at).value)
        else:
            running = builders.scan(kind + "u", dim, byte_type, sizes, lambda at: read(x, at).to(as_bytes).value)
            values = c.compute(lambda at: read(running, at).to(torch.bool).value)
    else:
        inside = opmath(dtype)
        values = scan(c, extreme_kind(kind, dtype), dim, inside, of_elements(x, inside))

    def place(at) -> Scalar:
        if not at:
            return Scalar.constant(0, torch.int64)
        inside = opmath(dtype)
        element, extreme = (read(value, at).to(inside, mark=STORED) for value in (x, values))
        sets = element.eq(extreme) | element.isnan()
        return sets.to(torch.int64) * position(at[dim])

    return [values, scan(c, "max", dim, torch.int64, place, number=1)]


@rule("aten.cummax.default")
def cummax(c, x, dim):
    return extremes(c, "max", x, dim)


@rule("aten.cummin.default")
def cummin(c, x, dim):
    return extremes(c, "min", x, dim)

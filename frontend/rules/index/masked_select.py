"""Writes under a boolean mask: one value for all of it, or a row of values taken in order."""

from collections.abc import Sequence

import torch
from bascule.dialect.ir import builders
from bascule.dialect.ir.shapes import constant as known
from bascule.dialect.ir.shapes import expr, shape_of, tensor_type
from bascule.dialect.mlir import ir

from ...conversion.context import Conversion
from ...conversion.index_maps import delinearize, dim, dims, element_count, linearize
from ...conversion.registry import NoRule, rule
from ..support.index_values import as_index, clamped, extent, refused_outside, when
from ..support.operands import broadcast, dtype_of_result, index_constant, read, tensor_dtype
from ..support.requirements import require
from ..support.scalars import Scalar, scalar_type, select
from .indexing import is_empty


def mask_of(indices: Sequence[ir.Value | None]) -> tuple[int, ir.Value] | None:
    """The first dimension and the mask of an index that is one boolean tensor, else None."""
    given = [(i, index) for i, index in enumerate(indices) if index is not None]
    if len(given) == 1 and tensor_dtype(given[0][1]) in (torch.bool, torch.uint8):
        return given[0]
    return None


def put_where(c: Conversion, x: ir.Value, first: int, mask: ir.Value, values: ir.Value) -> ir.Value:
    """`x[:, mask] = values` for values that do not depend on which element of the mask is written."""
    sizes, rank = shape_of(x), len(shape_of(mask))
    after = len(sizes) - first - rank
    own = shape_of(values)
    if len(own) > after and known(own[len(own) - after - 1]) != 1:
        raise NoRule("a value for each element of a mask: how many they are depends on data")
    # The mask's dimensions are one in `x[mask]`, which `values` broadcasts to.
    value = broadcast(values, [*sizes[:first], expr(1), *sizes[first + rank :]])
    dtype = tensor_dtype(x)

    def body(at):
        chosen = read(mask, at[first : first + rank]).to(torch.bool)
        place = value([*at[:first], index_constant(0), *at[first + rank :]])
        return when(chosen.value, scalar_type(dtype), lambda: read(values, place).value, lambda: read(x, at).value)

    return c.compute(body)


def set_so_far(c: Conversion, mask: ir.Value, sizes: Sequence[ir.AffineExpr]) -> ir.Value:
    """For each element of `mask`, broadcast to `sizes` and in row-major order, how many up to it are set: one row of i64."""
    count, i64 = element_count(sizes), ir.IntegerType.get_signless(64)
    own = broadcast(mask, sizes)

    def body(at):
        index = c.apply(delinearize(dim(0), sizes, 1), at)
        return read(mask, own(index)).to(torch.bool).to(torch.int64).value

    return builders.scan("sum", 0, tensor_type([count], i64), [count], body)


def rank_in_mask(
    c: Conversion, counts: ir.Value, sizes: Sequence[ir.AffineExpr], at: Sequence[ir.Value], last: ir.Value
) -> ir.Value:
    """Which of the set elements the one at `at` is, as an index in [0, last]."""
    (place,) = c.apply([linearize(dims(len(sizes)), sizes)], at)
    (number,) = c.apply([dim(0) - 1], [as_index(builders.read(counts, [place]))])
    return clamped(number, last)


@rule("aten.masked_scatter.default")
def masked_scatter(c, x, mask, source):
    """Set element number k of the mask takes element k of `source`. Eager raises where `source` is too short; without assertions its last is
    taken."""
    dtype, sizes, given = dtype_of_result(c), c.result_sizes[0], shape_of(source)
    require(tensor_dtype(mask) == torch.bool, "a mask of booleans")
    whole, own = broadcast(x, sizes), broadcast(mask, sizes)
    if is_empty(sizes) or is_empty(given):
        return c.compute(lambda at: read(x, whole(at)).value)
    counts = set_so_far(c, mask, sizes)

    def body(at):
        def taken():
            number = rank_in_mask(c, counts, sizes, at, extent(c, element_count(given) - 1))
            return read(source, c.apply(delinearize(dim(0), given, 1), [refused_outside(c, number)])).value

        chosen = read(mask, own(at)).to(torch.bool)
        return when(chosen.value, scalar_type(dtype), taken, lambda: read(x, whole(at)).value)

    return c.compute(body)


@rule("aten.masked_scatter_backward.default")
def masked_scatter_backward(c, grad, mask, _):
    """The gradient of `source`: set element k of the mask gives element k, zeros follow."""
    dtype, sizes, target = dtype_of_result(c), shape_of(grad), c.result_sizes[0]
    zeros = c.compute(lambda at: Scalar.constant(0, dtype).value)
    if is_empty(sizes) or is_empty(target):
        return zeros
    counts, own = set_so_far(c, mask, sizes), broadcast(mask, sizes)

    def body(at, dest):
        number = rank_in_mask(c, counts, sizes, at, extent(c, element_count(target) - 1))
        # Elements that are not set add nothing, somewhere: at most one set element meets a place.
        value = select(read(mask, own(at)).to(torch.bool), read(grad, at), 0)
        builders.store(value.value, dest, c.apply(delinearize(dim(0), target, 1), [number]), "add")

    return c.scatter(zeros, sizes, body, any_order=True)

"""A region of a tensor replaced: slice, select and diagonal scatters, and the backwards of those views."""

from collections.abc import Callable

from bascule.dialect.ir.shapes import constant as known
from bascule.dialect.ir.shapes import expr, shape_of
from bascule.dialect.mlir import ir

from ...conversion.context import Conversion
from ...conversion.index_maps import Expr, dim, dims, same_size
from ...conversion.registry import rule
from ..support.index_values import both, compare, extent, when
from ..support.operands import dtype_of_result, finish, read
from ..support.requirements import diagonal_count, require_place, require_sizes, slice_count
from ..support.scalars import Scalar, scalar_type
from .views import selected, slice_start, wrap_dim


def element_scalar(c: Conversion) -> ir.Type:
    return scalar_type(dtype_of_result(c))


def inside_slice(c: Conversion, size: Expr, number: int, first: Expr, step: int, taken: Expr, at) -> ir.Value | None:
    """i1: whether index `number` of the point is one of `first, first + step, ...`, of which there are `taken`; None: always."""
    if same_size(size, taken):
        return None
    conditions, place = [], at[number]
    if first != expr(0):
        conditions.append(compare("ge", place, extent(c, first)))
    last = first + (taken - 1) * step + 1
    if not same_size(last, size):
        conditions.append(compare("lt", place, extent(c, last)))
    if step != 1:
        phase = c.apply([Expr.get_mod(dim(0) - first, step)], [place])[0]
        conditions.append(compare("eq", phase, 0))
    return both(conditions)


def zero(c: Conversion) -> Callable[[list[ir.Value]], ir.Value]:
    return lambda at: Scalar.constant(0, dtype_of_result(c)).value


def element_of(x: ir.Value) -> Callable[[list[ir.Value]], ir.Value]:
    return lambda at: read(x, at).value


def replacing(c: Conversion, source: ir.Value, at: list[ir.Value]) -> ir.Value:
    """An element of `source`, which may be of another dtype, as one of the result."""
    return finish(c, read(source, at), dtype_of_result(c))


def replace_slice(c, outside, source: ir.Value, number: int, start, end, step: int) -> ir.Value:
    sizes = c.result_sizes[0]
    number = wrap_dim(number, len(sizes))
    taken = shape_of(source)[number]
    if known(taken) == 0:
        return c.compute(outside)
    first = slice_start(sizes[number], start, end, step, taken)
    index = dims(len(sizes))
    index[number] = Expr.get_floor_div(dim(number) - first, expr(step))

    def body(at):
        condition = inside_slice(c, sizes[number], number, first, step, taken, at)
        return when(condition, element_scalar(c), lambda: replacing(c, source, c.apply(index, at)), lambda: outside(at))

    return c.compute(body)


@rule("aten.slice_scatter.default")
def slice_scatter(c, x, source, number=0, start=None, end=None, step=1):
    sizes = shape_of(x)
    along = wrap_dim(number, len(sizes))
    count = slice_count(sizes[along], start, end, step)
    taken = (shape_of(source)[along : along + 1] or [expr(0)])[0] if count is None else count
    require_sizes(source, [*sizes[:along], taken, *sizes[along + 1 :]])
    return replace_slice(c, element_of(x), source, number, start, end, step)


@rule("aten.slice_backward.default")
def slice_backward(c, grad, sizes, number, start, end, step):
    return replace_slice(c, zero(c), grad, number, start, end, step)


def replace_selected(c, outside, source: ir.Value, number: int, position: Expr) -> ir.Value:
    def body(at):
        return when(
            compare("eq", at[number], extent(c, position)),
            element_scalar(c),
            lambda: replacing(c, source, [*at[:number], *at[number + 1 :]]),
            lambda: outside(at),
        )

    return c.compute(body)


@rule("aten.select_scatter.default")
def select_scatter(c, x, source, number, place):
    sizes = shape_of(x)
    along, position = selected(sizes, number, place)
    require_place(place, sizes[along])
    require_sizes(source, [*sizes[:along], *sizes[along + 1 :]])
    return replace_selected(c, element_of(x), source, along, position)


@rule("aten.select_backward.default")
def select_backward(c, grad, sizes, number, place):
    return replace_selected(c, zero(c), grad, *selected(c.result_sizes[0], number, place))


def replace_diagonal(c, outside, source: ir.Value, offset: int, dim1: int, dim2: int) -> ir.Value:
    rank = len(c.result_sizes[0])
    dim1, dim2 = wrap_dim(dim1, rank), wrap_dim(dim2, rank)
    if any(known(size) == 0 for size in shape_of(source)):
        return c.compute(outside)

    def body(at):
        rest = [at[i] for i in range(rank) if i not in (dim1, dim2)]
        across, along = c.apply([dim(1) - dim(0) - offset, dim(0) - max(-offset, 0)], [at[dim1], at[dim2]])
        # The diagonal starts at row or column 0, so to be on it is to be in range of it.
        return when(
            compare("eq", across, 0),
            element_scalar(c),
            lambda: replacing(c, source, [*rest, along]),
            lambda: outside(at),
        )

    return c.compute(body)


@rule("aten.diagonal_scatter.default")
def diagonal_scatter(c, x, source, offset=0, dim1=0, dim2=1):
    sizes = shape_of(x)
    ends = [wrap_dim(number, len(sizes)) for number in (dim1, dim2)]
    count = diagonal_count(sizes[ends[0]], sizes[ends[1]], offset)
    along = (shape_of(source)[-1:] or [expr(0)])[0] if count is None else count
    require_sizes(source, [*(size for number, size in enumerate(sizes) if number not in ends), along])
    return replace_diagonal(c, element_of(x), source, offset, dim1, dim2)


@rule("aten.diagonal_backward.default")
def diagonal_backward(c, grad, sizes, offset, dim1, dim2):
    return replace_diagonal(c, zero(c), grad, offset, dim1, dim2)


@rule("aten.diag_embed.default")
def diag_embed(c, x, offset=0, dim1=-2, dim2=-1):
    return replace_diagonal(c, zero(c), x, offset, dim1, dim2)

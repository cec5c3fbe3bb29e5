"""Copies whose elements stand at other indices: flip, roll, rot90, repeat, shuffles. Views cannot say these."""

from collections.abc import Sequence

from bascule.dialect.ir import builders
from bascule.dialect.ir.shapes import constant as known
from bascule.dialect.ir.shapes import expr, shape_of
from bascule.dialect.mlir import ir

from ...conversion.context import Conversion
from ...conversion.index_maps import Expr, delinearize, dim, dims, element_count, linearize, same_size
from ...conversion.registry import rule
from ..support.index_values import compare, when
from ..support.operands import read, tensor_dtype
from ..support.requirements import require_factor
from ..support.scalars import scalar_type
from .views import wrap_dim


def reading_at(c: Conversion, x: ir.Value, index: Sequence[Expr]) -> ir.Value:
    """A new tensor: the element of `x` at `index`, expressions of the result's dimensions."""
    tensor_dtype(x)
    return c.compute(lambda at: read(x, c.apply(index, at)).value)


@rule("aten.flip.default", "aten.fliplr.default", "aten.flipud.default")
def flip(c, x, numbers):
    sizes = shape_of(x)
    index = dims(len(sizes))
    for number in numbers:
        number = wrap_dim(number, len(sizes))
        if sizes:
            index[number] = sizes[number] - 1 - index[number]
    return reading_at(c, x, index)


@rule("aten.roll.default")
def roll(c, x, shifts, numbers=()):
    """Each element from `shift` places before it, around the end; without `numbers`, in the flattened tensor."""
    sizes = shape_of(x)
    index, rank = dims(len(sizes)), len(sizes)
    if any(known(size) == 0 for size in sizes):
        return reading_at(c, x, index)
    # An affine remainder is never negative.
    if not numbers:
        place = Expr.get_mod(linearize(index, sizes) - shifts[0], element_count(sizes))
        return reading_at(c, x, delinearize(place, sizes, rank))
    along = expr(0)  # the shift along the last dimension, where both parts are read as they lie in memory
    for shift, number in zip(shifts, numbers):
        number = wrap_dim(number, rank)
        if c.asked.target == "cpu" and number == rank - 1:
            along = along + shift
        else:
            index[number] = Expr.get_mod(index[number] - shift, sizes[number])
    if known(along) == 0 or known(shift := expr(Expr.get_mod(along, sizes[-1]))) == 0:  # 0 mod s0 does not fold
        return reading_at(c, x, index)
    return rolled_rows(c, x, index[:-1], shift)


def rolled_rows(c: Conversion, x: ir.Value, rows: Sequence[Expr], shift: Expr) -> ir.Value:
    """The rows of `x` at `rows`, rolled along the last dimension by less than its size."""
    size, dtype = shape_of(x)[-1], tensor_dtype(x)

    def body(at: Sequence[ir.Value]) -> ir.Value:
        last = dim(len(rows))
        *row, place, wrapped = c.apply([*rows, last - shift, last - shift + size], at)
        return when(
            compare("ge", place, 0),
            scalar_type(dtype),
            lambda: builders.read(x, [*row, place]),
            lambda: builders.read(x, [*row, wrapped]),
        )

    return c.compute(body)


@rule("aten.rot90.default")
def rot90(c, x, k=1, numbers=(0, 1)):
    sizes = shape_of(x)
    a, b = (wrap_dim(number, len(sizes)) for number in numbers)
    index = dims(len(sizes))
    if k % 4 == 1:
        index[a], index[b] = dim(b), sizes[b] - 1 - dim(a)
    elif k % 4 == 2:
        index[a], index[b] = sizes[a] - 1 - dim(a), sizes[b] - 1 - dim(b)
    elif k % 4 == 3:
        index[a], index[b] = sizes[a] - 1 - dim(b), dim(a)
    return reading_at(c, x, index)


@rule("aten.repeat.default", "aten.tile.default")
def repeat(c, x, repeats):
    sizes, result = shape_of(x), c.result_sizes[0]
    lead, index = len(result) - len(sizes), []
    for i, size in enumerate(sizes):
        if known(size) == 1:
            index.append(expr(0))
        elif same_size(size, result[lead + i]):
            index.append(dim(lead + i))
        else:
            index.append(Expr.get_mod(dim(lead + i), size) if known(size) != 0 else expr(0))
    return reading_at(c, x, index)


@rule("aten.repeat_interleave.self_int")
def repeat_interleave(c, x, repeats, number=None, output_size=None):
    sizes = shape_of(x)
    if number is None:
        return reading_at(c, x, delinearize(Expr.get_floor_div(dim(0), expr(repeats)), sizes, 1))
    number = wrap_dim(number, len(sizes))
    index = dims(len(sizes))
    index[number] = Expr.get_floor_div(index[number], expr(repeats))
    return reading_at(c, x, index)


@rule("aten.pixel_shuffle.default")
def pixel_shuffle(c, x, factor):
    require_factor(factor * factor, shape_of(x)[-3])
    lead = len(c.result_sizes[0]) - 3
    channel, row, column = dim(lead), dim(lead + 1), dim(lead + 2)
    div, mod = Expr.get_floor_div, Expr.get_mod
    source = (channel * factor + mod(row, factor)) * factor + mod(column, factor)
    return reading_at(c, x, [*dims(lead), source, div(row, factor), div(column, factor)])


@rule("aten.pixel_unshuffle.default")
def pixel_unshuffle(c, x, factor):
    for size in shape_of(x)[-2:]:
        require_factor(factor, size)
    lead = len(c.result_sizes[0]) - 3
    channel, row, column = dim(lead), dim(lead + 1), dim(lead + 2)
    div, mod = Expr.get_floor_div, Expr.get_mod
    places = [row * factor + mod(div(channel, factor), factor), column * factor + mod(channel, factor)]
    return reading_at(c, x, [*dims(lead), div(channel, factor * factor), *places])


@rule("aten.channel_shuffle.default", "aten.native_channel_shuffle.default")
def channel_shuffle(c, x, groups):
    sizes = shape_of(x)
    per_group = Expr.get_floor_div(sizes[1], expr(groups))
    index = dims(len(sizes))
    index[1] = Expr.get_mod(dim(1), expr(groups)) * per_group + Expr.get_floor_div(dim(1), expr(groups))
    return reading_at(c, x, index)

"""Tensors put together from others by their index: cat, stack, pad, flip, roll, repeat, writes into a region of a view, new_*.

Each is one `bascule.compute` whose body finds the index in the operand; a read that may be outside it stands in an `scf.if`.
"""

from collections.abc import Callable, Sequence

from bascule.dialect.ir.shapes import constant as known
from bascule.dialect.ir.shapes import expr, shape_of
from bascule.dialect.mlir import ir

from ..conversion import Conversion, NoRule, rule
from ..index_maps import Expr, dim, dims, same_size
from .index_values import both, compare, extent, when
from .operands import dtype_of_result, index_constant, number_scalar, read, tensor_dtype
from .scalars import Scalar, scalar_type
from .views import counts_from_end, selected, slice_start, wrap_dim

Value = ir.Value


def element_scalar(c: Conversion) -> ir.Type:
    return scalar_type(dtype_of_result(c))


# -- cat and stack ------------------------------------------------------------------------------------------------------


def pick(k: Value, bounds: Sequence[Value], type_: ir.Type, branches: Sequence[Callable[[], Value]]) -> Value:
    """`branches[i]()` for the i with bounds[i-1] <= k < bounds[i], by bisection; `bounds` are between the branches."""
    if len(branches) == 1:
        return branches[0]()
    half = len(branches) // 2
    return when(
        compare("lt", k, bounds[half - 1]),
        type_,
        lambda: pick(k, bounds[: half - 1], type_, branches[:half]),
        lambda: pick(k, bounds[half:], type_, branches[half:]),
    )


@rule("aten.cat.default", "aten.concat.default", "aten.concatenate.default")
def cat(c, tensors, number=0):
    rank = len(c.result_sizes[0])
    number = wrap_dim(number, rank)
    # A tensor of shape (0,) is skipped by `cat` whatever the rank of the others.
    parts = [x for x in tensors if not any(known(size) == 0 for size in shape_of(x))]
    if any(len(shape_of(x)) != rank for x in parts):
        raise NoRule("cat of a tensor of another rank, which may be empty")
    dtype = dtype_of_result(c)
    ends, end = [], expr(0)
    for x in parts:
        end = end + shape_of(x)[number]
        ends.append(end)
    if not parts:
        return c.compute(lambda at: Scalar.constant(0, dtype).value)

    def branch(x: Value, start: Expr, at: Sequence[Value]) -> Callable[[], Value]:
        def piece():
            place = c.apply([dim(0) - start], [at[number]])
            return read(x, [*at[:number], *place, *at[number + 1 :]]).to(dtype).value

        return piece

    def body(at):
        bounds = [extent(c, e) for e in ends[:-1]]
        branches = [branch(x, start, at) for x, start in zip(parts, [expr(0), *ends])]
        return pick(at[number], bounds, scalar_type(dtype), branches)

    return c.compute(body)


@rule("aten.stack.default")
def stack(c, tensors, number=0):
    number, dtype = wrap_dim(number, len(c.result_sizes[0])), dtype_of_result(c)

    def body(at):
        rest = [*at[:number], *at[number + 1 :]]
        bounds = [index_constant(i) for i in range(1, len(tensors))]
        branches = [lambda x=x: read(x, rest).to(dtype).value for x in tensors]
        return pick(at[number], bounds, scalar_type(dtype), branches)

    return c.compute(body)


# -- padding ------------------------------------------------------------------------------------------------------------


def pad_widths(pad: Sequence[int | Expr], rank: int) -> list[tuple[Expr, Expr]]:
    """(before, after) for every dimension, from a list that starts with the last one."""
    pairs = [(expr(pad[i]), expr(pad[i + 1])) for i in range(0, len(pad), 2)]
    return [(expr(0), expr(0))] * (rank - len(pairs)) + pairs[::-1]


@rule("aten.constant_pad_nd.default")
def constant_pad_nd(c, x, pad, value=0):
    """`x` inside a border of `value`; a negative width cuts off."""
    sizes, dtype = shape_of(x), dtype_of_result(c)
    widths = pad_widths(pad, len(sizes))

    def body(at):
        place = c.apply([dim(i) - before for i, (before, _) in enumerate(widths)], at)
        inside = []
        for i, (before, after) in enumerate(widths):
            if before != expr(0) and not counts_from_end(before):
                inside.append(compare("ge", place[i], 0))
            if after != expr(0) and not counts_from_end(after):
                inside.append(compare("lt", place[i], extent(c, sizes[i])))
        return when(
            both(inside), scalar_type(dtype), lambda: read(x, place).value, lambda: number_scalar(c, value, dtype).value
        )

    return c.compute(body)


# -- permutations of the index --------------------------------------------------------------------------------------------


def reading_at(c: Conversion, x: Value, index: Sequence[Expr]) -> Value:
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
    sizes = shape_of(x)
    if not numbers and len(sizes) != 1:
        raise NoRule("roll of the flattened tensor")
    if any(known(size) == 0 for size in sizes):
        return reading_at(c, x, dims(len(sizes)))
    index = dims(len(sizes))
    for shift, number in zip(shifts, numbers or [0]):
        number = wrap_dim(number, len(sizes))
        # From the element `shift` before, around the end; affine remainders are never negative.
        index[number] = Expr.get_mod(index[number] - shift, sizes[number])
    return reading_at(c, x, index)


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
    if number is None and len(sizes) != 1:
        raise NoRule("repeat_interleave of the flattened tensor")
    number = wrap_dim(number or 0, len(sizes))
    index = dims(len(sizes))
    index[number] = Expr.get_floor_div(index[number], expr(repeats))
    return reading_at(c, x, index)


@rule("aten.pixel_shuffle.default")
def pixel_shuffle(c, x, factor):
    lead = len(c.result_sizes[0]) - 3
    channel, row, column = dim(lead), dim(lead + 1), dim(lead + 2)
    div, mod = Expr.get_floor_div, Expr.get_mod
    source = (channel * factor + mod(row, factor)) * factor + mod(column, factor)
    return reading_at(c, x, [*dims(lead), source, div(row, factor), div(column, factor)])


@rule("aten.pixel_unshuffle.default")
def pixel_unshuffle(c, x, factor):
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


# -- a region of a tensor replaced ----------------------------------------------------------------------------------------


Region = tuple[list[Callable[[list[Value]], Value]], list[Expr]]


def inside_slice(c: Conversion, size: Expr, number: int, first: Expr, step: int, taken: Expr, at) -> Value | None:
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


def zero(c: Conversion) -> Callable[[list[Value]], Value]:
    return lambda at: Scalar.constant(0, dtype_of_result(c)).value


def element_of(x: Value) -> Callable[[list[Value]], Value]:
    return lambda at: read(x, at).value


def replace_slice(c, outside, source: Value, number: int, start, end, step: int) -> Value:
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
        return when(
            condition, element_scalar(c), lambda: read(source, c.apply(index, at)).value, lambda: outside(at)
        )

    return c.compute(body)


@rule("aten.slice_scatter.default")
def slice_scatter(c, x, source, number=0, start=None, end=None, step=1):
    return replace_slice(c, element_of(x), source, number, start, end, step)


@rule("aten.slice_backward.default")
def slice_backward(c, grad, sizes, number, start, end, step):
    return replace_slice(c, zero(c), grad, number, start, end, step)


def replace_selected(c, outside, source: Value, number: int, position: Expr) -> Value:
    def body(at):
        return when(
            compare("eq", at[number], extent(c, position)),
            element_scalar(c),
            lambda: read(source, [*at[:number], *at[number + 1 :]]).value,
            lambda: outside(at),
        )

    return c.compute(body)


@rule("aten.select_scatter.default")
def select_scatter(c, x, source, number, place):
    return replace_selected(c, element_of(x), source, *selected(shape_of(x), number, place))


@rule("aten.select_backward.default")
def select_backward(c, grad, sizes, number, place):
    return replace_selected(c, zero(c), grad, *selected(c.result_sizes[0], number, place))


def replace_diagonal(c, outside, source: Value, offset: int, dim1: int, dim2: int) -> Value:
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
            lambda: read(source, [*rest, along]).value,
            lambda: outside(at),
        )

    return c.compute(body)


@rule("aten.diagonal_scatter.default")
def diagonal_scatter(c, x, source, offset=0, dim1=0, dim2=1):
    return replace_diagonal(c, element_of(x), source, offset, dim1, dim2)


@rule("aten.diagonal_backward.default")
def diagonal_backward(c, grad, sizes, offset, dim1, dim2):
    return replace_diagonal(c, zero(c), grad, offset, dim1, dim2)


@rule("aten.diag_embed.default")
def diag_embed(c, x, offset=0, dim1=-2, dim2=-1):
    return replace_diagonal(c, zero(c), x, offset, dim1, dim2)


@rule("aten.unfold_backward.default")
def unfold_backward(c, grad, sizes, number, size, step):
    """The sum, for every place, over the windows that contain it."""
    raise NoRule("written below")


# -- new tensors like another ---------------------------------------------------------------------------------------------


def filled(c: Conversion, number: bool | int | float) -> Value:
    dtype = dtype_of_result(c)
    return c.compute(lambda at: number_scalar(c, number, dtype).value)


@rule("aten.new_zeros.default", "aten.new_empty.default", "aten.new_empty_strided.default")
def new_zeros(c, x, *_):
    """Uninitialised memory is zeros here: a compiled graph computes the same every time."""
    return filled(c, 0)


@rule("aten.new_ones.default")
def new_ones(c, x, *_):
    return filled(c, 1)


@rule("aten.new_full.default")
def new_full(c, x, size, number, *_):
    return filled(c, number)

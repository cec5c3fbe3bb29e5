"""Writes at indices that come from data, as `bascule.scatter`: index_put, scatter and its reductions, index_add, index_copy, index_fill.

An index out of range is clamped into the dimension, as `rules/index/indexing.py` says. Sums of f16 and bf16 are accumulated in f32 and
rounded once; what else is narrower than 32 bits is combined in 32 too, for which a GPU has atomic operations.
"""

from collections.abc import Callable, Sequence

import torch
from bascule.dialect.ir import builders
from bascule.dialect.ir.shapes import Size, expr, shape_of, tensor_type
from bascule.dialect.ir.shapes import constant as known
from bascule.dialect.mlir import ir

from ...conversion.context import Conversion
from ...conversion.index_maps import delinearize, dim, element_count
from ...conversion.registry import LeftToAten, NoRule, rule
from ..shape.views import wrap_dim
from ..support.index_values import choose, compare
from ..support.operands import broadcast, dtype_of_result, finish, index_constant, number_scalar, read, tensor_dtype
from ..support.requirements import require_as_many, require_dtype, require_held, require_rows_index, require_sizes
from ..support.scalars import UNSIGNED, Scalar, element_type, opmath, select
from .indexing import AdvancedIndex, is_empty, position, readable, with_place
from .masked_select import mask_of, put_where

Write = Callable[[list[ir.Value]], tuple[list[ir.Value], Scalar]]  # a point of the domain -> where to write, what

# What `reduce=` is called -> how a store combines. A mean is a sum, divided afterwards.
MODES = {
    "sum": "add",
    "add": "add",
    "mean": "add",
    "prod": "mul",
    "multiply": "mul",
    "amax": "max",
    "amin": "min",
}


def with_element(type_: ir.RankedTensorType, dtype: torch.dtype) -> ir.RankedTensorType:
    """The same sizes and layout with elements of `dtype`."""
    return ir.RankedTensorType.get(type_.shape, element_type(dtype), type_.encoding)


# Of booleans a sum is "or", a product "and".
MODES_OF_BOOLEANS = {"add": "max", "mul": "min", "max": "max", "min": "min"}


def store_mode(mode: str, dtype: torch.dtype) -> str:
    """The mode of `bascule.store` for `mode` on elements of `dtype`."""
    if mode in ("max", "min") and dtype in UNSIGNED:
        return mode + "u"
    return mode


def combined_in(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which writes to elements of `dtype` are combined. An integer's low bits are those of the sum or product of wider ones."""
    if dtype == torch.bool or (not dtype.is_floating_point and dtype.itemsize < 4):
        return torch.int32
    return opmath(dtype)


def converted(c: Conversion, x: ir.Value, dtype: torch.dtype, type_: ir.RankedTensorType) -> ir.Value:
    """`x` in `dtype`, as a tensor of `type_`."""
    return builders.compute(type_, shape_of(x), lambda at: finish(c, read(x, at), dtype))


def scattered(
    c: Conversion,
    init: ir.Value,
    sizes: Sequence[ir.AffineExpr],
    write: Write,
    mode: str = "set",
    *,
    any_order: bool = False,
) -> ir.Value:
    """The result of the op: `init` with what `write` says at every point of `sizes` combined by `mode`; `any_order` as in `c.scatter`."""
    type_, dtype = c.results[0], tensor_dtype(init)
    if is_empty([*sizes, *shape_of(init)]):
        raise LeftToAten("nothing is written, and eager looks at the indices all the same")
    inner = dtype if mode == "set" else combined_in(dtype)
    combine = MODES_OF_BOOLEANS[mode] if dtype == torch.bool and mode != "set" else store_mode(mode, inner)

    def body(at, dest):
        indices, value = write(at)
        builders.store(value.to(inner).value, dest, indices, combine)

    if inner == dtype:
        return c.scatter(init, sizes, body, type_, any_order=any_order)
    wide = with_element(type_, inner)
    sums = c.scatter(converted(c, init, inner, wide), sizes, body, wide)
    return converted(c, sums, dtype, type_)


def filled(c: Conversion, number: bool | int | float, dtype: torch.dtype | None = None) -> ir.Value:
    """A tensor of the result's sizes and layout, every element `number`."""
    dtype = dtype or dtype_of_result(c)
    type_ = with_element(c.results[0], dtype)
    return builders.compute(type_, c.result_sizes[0], lambda at: Scalar.constant(number, dtype).value)


def _check_fit(values: ir.Value, sizes: Sequence[ir.AffineExpr]) -> None:
    """Leaves values to ATen, which refuses them, that do not broadcast to `sizes`: PyTorch's shape function takes them."""
    pairs = [(known(have), known(want)) for have, want in zip(reversed(shape_of(values)), reversed(sizes))]
    if values.type.rank > len(sizes) or any(None not in pair and pair[0] not in (1, pair[1]) for pair in pairs):
        raise LeftToAten("values that do not broadcast to the result of indexing")


@rule("aten.index_put.default", "aten._unsafe_index_put.default", "aten._index_put_impl.default")
def index_put(c, x, indices, values, accumulate=False, unsafe=False):
    masked = mask_of(indices)
    if masked is not None and not accumulate:
        return put_where(c, x, *masked, values)
    how = AdvancedIndex.of(x, indices)
    readable(x, list(how.indices))
    _check_fit(values, how.sizes)
    require_dtype(values, x)
    value = broadcast(values, how.sizes)

    def write(at):
        return how.source(c, x, at, checked=c.operator != "aten._unsafe_index_put.default"), read(values, value(at))

    return scattered(c, x, how.sizes, write, "add" if accumulate else "set")


@rule("aten._unsafe_masked_index_put_accumulate.default")
def masked_index_put(c, x, mask, indices, values):
    how = AdvancedIndex.of(x, indices)
    _check_fit(values, how.sizes)
    require_dtype(values, x)
    value, chosen = broadcast(values, how.sizes), broadcast(mask, how.sizes)

    def write(at):
        return how.source(c, x, at, checked=False), select(read(mask, chosen(at)), read(values, value(at)), 0)

    return scattered(c, x, how.sizes, write, "add")


def scatter_domain(x: ir.Value, index: ir.Value) -> list[ir.AffineExpr]:
    """The points of a scatter: one an element of `index`. A scalar counts as one element of one dimension, where `x` has one."""
    sizes = shape_of(index)
    return [expr(1)] if not sizes and shape_of(x) else sizes if shape_of(x) else []


def scatter_place(
    c: Conversion, x: ir.Value, number: int, index: ir.Value
) -> Callable[[list[ir.Value]], list[ir.Value]]:
    """Point -> where `scatter` along dimension `number` of `x` writes."""
    sizes = shape_of(x)
    number = wrap_dim(number, len(sizes))
    if not sizes:
        return lambda at: []
    readable(x, [number])
    rank = len(shape_of(index))

    def place(at):
        return with_place(at, number, position(c, builders.read(index, at[:rank]), sizes[number], wrap=False))

    return place


def element_of(
    c: Conversion, source: ir.Value | bool | int | float, dtype: torch.dtype
) -> Callable[[list[ir.Value]], Scalar]:
    """Point -> the element of a tensor there, or a number."""
    if not isinstance(source, ir.Value):
        return lambda at: number_scalar(c, source, dtype)
    rank = len(shape_of(source))
    return lambda at: read(source, at[:rank] if len(at) >= rank else [index_constant(0)] * rank)


def one_a_line(x: ir.Value, number: int, index: ir.Value) -> bool:
    """Whether `index` has one place for each line of `x` along dimension `number`."""
    sizes, places = shape_of(x), shape_of(index)
    if not sizes or len(places) != len(sizes):
        return False
    number = wrap_dim(number, len(sizes))
    return known(places[number]) == 1 and all(a == b for i, (a, b) in enumerate(zip(sizes, places)) if i != number)


def put_one(c: Conversion, x: ir.Value, number: int, place: Callable, value: Callable) -> ir.Value:
    """`x` with one element of each line along dimension `number` replaced: each element asks whether it is the one, and none is scattered."""

    def body(at):
        start = with_place(at, number, index_constant(0))
        here = compare("eq", at[number], place(start)[number])
        return choose(here, value(start).value, read(x, at).value)

    return c.compute(body)


@rule("aten.scatter.src", "aten.scatter.value", "aten.scatter.reduce", "aten.scatter.value_reduce")
def scatter(c, x, number, index, source, reduce=None):
    require_held(source, tensor_dtype(x))
    place = scatter_place(c, x, number, index)
    value = element_of(c, source, tensor_dtype(x))
    if reduce is None and one_a_line(x, number, index):
        return put_one(c, x, wrap_dim(number, len(shape_of(x))), place, value)
    mode = "set" if reduce is None else MODES[reduce]
    one_value = mode == "set" and not isinstance(source, ir.Value)
    return scattered(c, x, scatter_domain(x, index), lambda at: (place(at), value(at)), mode, any_order=one_value)


@rule("aten.scatter_add.default")
def scatter_add(c, x, number, index, source):
    return scatter(c, x, number, index, source, "add")


@rule("aten.scatter_reduce.two")
def scatter_reduce(c, x, number, index, source, reduce, include_self=True):
    value = element_of(c, source, tensor_dtype(x))
    return reduced(c, x, scatter_domain(x, index), scatter_place(c, x, number, index), value, reduce, include_self)


def reduced(c, x, sizes, place, value, reduce: str, include_self: bool) -> ir.Value:
    """`x` combined by `reduce` with `value(point)` at `place(point)`; without `include_self`, elements written to start afresh."""
    dtype = tensor_dtype(x)
    mean, init = reduce == "mean", x
    counts = None
    if mean or not include_self:
        start = 1 if include_self else 0
        count_type = with_element(c.results[0], torch.int64)
        one = lambda at, dest: builders.store(Scalar.constant(1, torch.int64).value, dest, place(at), "add")  # noqa: E731
        counts = c.scatter(filled(c, start, torch.int64), sizes, one, count_type)
    if not include_self:
        fresh = identity(reduce, dtype)
        init = c.compute(lambda at: select(read(counts, at).ne(0), fresh, read(x, at)).value)
    if not mean:
        return scattered(c, init, sizes, lambda at: (place(at), value(at)), MODES[reduce])
    inner = combined_in(dtype)
    wide = with_element(c.results[0], inner)
    start = init if inner == dtype else converted(c, init, inner, wide)

    def add(at, dest):
        builders.store(value(at).to(inner).value, dest, place(at), "add")

    sums = c.scatter(start, sizes, add, wide)

    def average(at):
        total, count = (x.to(opmath(dtype)) for x in (read(sums, at), read(counts, at).maximum(1)))
        return (total / count if inner.is_floating_point else floor_quotient(total, count)).to(dtype).value

    return c.compute(average)


def floor_quotient(a: Scalar, b: Scalar) -> Scalar:
    """Integer division rounded down; `b` is positive."""
    quotient, rest = a.quotient(b), a.remainder(b)
    return select(rest < 0, quotient - 1, quotient)


def identity(reduce: str, dtype: torch.dtype) -> bool | int | float:
    """The identity of `reduce`: the number that leaves the other operand as it is."""
    if reduce == "prod":
        return 1
    if reduce in ("sum", "mean"):
        return 0
    if dtype == torch.bool:
        return reduce == "amin"
    if dtype.is_floating_point:
        return float("-inf") if reduce == "amax" else float("inf")
    return torch.iinfo(dtype).min if reduce == "amax" else torch.iinfo(dtype).max


def row_domain(x: ir.Value, number: int, index: ir.Value) -> list[ir.AffineExpr]:
    """`x`'s sizes with dimension `number` as long as `index`: what `x.index_select(number, index)` has."""
    sizes = shape_of(x)
    count = (shape_of(index) or [expr(1)])[0]
    return [*sizes[:number], count, *sizes[number + 1 :]] if sizes else [count]


def row_place(
    c: Conversion, x: ir.Value, number: int, index: ir.Value, *, wrap: bool
) -> Callable[[list[ir.Value]], list[ir.Value]]:
    """Point of `row_domain` -> where in `x` it writes."""
    sizes, rank = shape_of(x), len(shape_of(index))
    if not sizes:
        return lambda at: []
    readable(x, [number])

    def place(at):
        row = builders.read(index, [at[number]] if rank else [])
        return with_place(at, number, position(c, row, sizes[number], wrap=wrap))

    return place


def write_rows(
    c,
    x,
    number: int,
    index: ir.Value,
    value: Callable,
    mode: str = "set",
    *,
    wrap: bool = False,
    any_order: bool = False,
) -> ir.Value:
    number = wrap_dim(number, len(shape_of(x)))
    place = row_place(c, x, number, index, wrap=wrap)
    domain = row_domain(x, number, index)
    return scattered(c, x, domain, lambda at: (place(at), value(at)), mode, any_order=any_order)


def require_rows(x: ir.Value, number: int, index: ir.Value, source: ir.Value) -> None:
    """That `index` is a vector, and `source` has a row for each index, of the dtype of `x`."""
    require_rows_index(index)
    sizes = row_domain(x, wrap_dim(number, len(shape_of(x))), index)
    require_sizes(source, sizes if shape_of(x) else [])
    require_dtype(source, x)


@rule("aten.index_add.default")
def index_add(c, x, number, index, source, alpha=1):
    require_rows(x, number, index, source)
    element = element_of(c, source, tensor_dtype(x))
    scale = (
        (lambda v: v) if alpha == 1 else (lambda v: v.to(opmath(v.dtype)) * number_scalar(c, alpha, opmath(v.dtype)))
    )
    return write_rows(c, x, number, index, lambda at: scale(element(at)), "add")


@rule("aten.index_copy.default")
def index_copy(c, x, number, index, source):
    require_rows_index(index, wide=True)
    require_rows(x, number, index, source)
    return write_rows(c, x, number, index, element_of(c, source, tensor_dtype(x)))


@rule("aten.index_fill.int_Scalar", "aten.index_fill.int_Tensor")
def index_fill(c, x, number, index, value):
    dtype = tensor_dtype(x)
    require_rows_index(index, wide=True)
    require_held(value, dtype)
    if isinstance(value, ir.Value):
        return write_rows(c, x, number, index, lambda at: read(value, []).to(dtype), wrap=True, any_order=True)
    return write_rows(c, x, number, index, element_of(c, value, dtype), wrap=True, any_order=True)


@rule("aten.index_reduce.default")
def index_reduce(c, x, number, index, source, reduce, include_self=True):
    require_rows(x, number, index, source)
    number = wrap_dim(number, len(shape_of(x)))
    place = row_place(c, x, number, index, wrap=False)
    value = element_of(c, source, tensor_dtype(x))
    return reduced(c, x, row_domain(x, number, index), place, value, reduce, include_self)


@rule("aten.put.default")
def put(c, x, index, source, accumulate=False):
    sizes, shape = shape_of(x), shape_of(source)
    require_as_many(source, index)
    require_dtype(source, x)
    readable(x, range(len(sizes)))

    def write(at):
        place = position(c, builders.read(index, at), element_count(sizes), wrap=True)
        value = read(source, at) if len(at) == len(shape) else read(source, [index_constant(0)] * len(shape))
        return c.apply(delinearize(dim(0), sizes, 1), [place]), value

    if len(shape_of(index)) != len(shape) and known(element_count(shape)) != 1:
        raise NoRule("put of a source shaped unlike the index")
    return scattered(c, x, shape_of(index), write, "add" if accumulate else "set")


def without_padding(c: Conversion, value: Scalar, index: Scalar, padding: Size) -> Scalar:
    """`value`, and 0 where `index` is that of the padding; a negative one: there is none."""
    if isinstance(padding, int) and padding < 0:
        return value
    return select(index.eq(number_scalar(c, padding, torch.int64).to(index.dtype)), 0, value)


@rule("aten.embedding_dense_backward.default")
def embedding_dense_backward(c, grad, indices, num_weights, padding_idx, scale_grad_by_freq):
    rows, dtype = c.result_sizes[0][0], tensor_dtype(grad)
    domain = shape_of(grad)
    inner = opmath(dtype)
    counts = None
    if scale_grad_by_freq:
        counts_type = tensor_type([rows], element_type(torch.int64))
        zero = builders.compute(counts_type, [rows], lambda at: Scalar.constant(0, torch.int64).value)

        def count(at, dest):
            row = position(c, builders.read(indices, at), rows, wrap=False, checked=False)
            builders.store(Scalar.constant(1, torch.int64).value, dest, [row], "add")

        counts = c.scatter(zero, shape_of(indices), count)

    def write(at):
        index = read(indices, at[:-1])
        row, value = position(c, index.value, rows, wrap=False, checked=False), read(grad, at).to(inner)
        if counts is not None:
            value = value / read(counts, [row]).to(inner)
        return [row, at[-1]], without_padding(c, value, index, padding_idx)

    return scattered(c, filled(c, 0), domain, write, "add")

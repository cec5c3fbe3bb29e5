"""Interpolation one dimension after the other, between static sizes; and its backward, in which nothing is scattered.

What an element of the result reads along one dimension, and by which weights, does not depend on data: both are small tables. An element of
the input is read by a run of elements of the result; so its gradient is the sum over that run, zero weights for those that do not read it.
The sums between passes are of `opmath`.
"""

from collections.abc import Callable, Sequence
from ctypes import c_float
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, reduce
from math import floor

import torch
from bascule.dialect.analysis.affine.fastest_dim import fastest_dim
from bascule.dialect.ir import builders
from bascule.dialect.ir.shapes import Size, expr, row_major, shape_of, tensor_type
from bascule.dialect.ir.shapes import constant as known
from bascule.dialect.mlir import ir

from ...conversion.context import Conversion
from ...conversion.index_maps import Expr, dim
from ..support.index_values import as_index, as_integer, both, clamped, compare
from ..support.operands import finish, index_constant, read, tensor_dtype
from ..support.scalars import Scalar, element_type, scalar_type, select

Tap = tuple[ir.Value, Scalar]  # an index of the input along one dimension, and its weight
LINEAR, CUBIC = 1, 2  # how far an element reads: half of its taps
UNROLLED = 8  # taps that stand one by one
LONGEST = 8192  # elements of a dimension of which it is found out who reads them


@dataclass(frozen=True)
class Pass:
    """One resampled dimension, forward or backward: element `o` of the result is the sum over `taps` elements of what is read, number `k` of
    them at `tap(k, o)`."""

    number: int  # of the dimension
    count: int  # the result's size
    taps: int
    tap: Callable[[ir.Value, ir.Value], Tap]


def table(sizes: Sequence[int], dtype: torch.dtype, body: Callable[[Sequence[ir.Value]], ir.Value]) -> ir.Value:
    return builders.compute(tensor_type([expr(size) for size in sizes], element_type(dtype)), [*map(expr, sizes)], body)


def forward_pass(number: int, size: Size, taps: Callable[[ir.Value], list[Tap]], reach: int) -> Pass:
    """To a dimension of `size`; `taps`: of an element of the result."""

    def tap(k: ir.Value, o: ir.Value) -> Tap:
        found = taps(o)
        place, weight = found[-1]
        for j, (other, its) in reversed(list(enumerate(found[:-1]))):
            here = compare("eq", k, j)
            place, weight = _chosen(here, other, place), select(Scalar(here, torch.bool), its, weight)
        return place, weight

    return Pass(number, known(expr(size)), 2 * reach, tap)


def _chosen(condition: ir.Value, yes: ir.Value, no: ir.Value) -> ir.Value:
    return ir.Operation.create("arith.select", results=[yes.type], operands=[condition, yes, no]).result


# -- backward -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Readers:
    """Element `i` of the input is read by none but the `taps` elements of the result from `start(i)` on; some may lie outside."""

    numerator: int
    denominator: int
    offset: int
    taps: int

    def start(self, i: Expr) -> Expr:
        return Expr.get_floor_div(i * self.numerator, self.denominator) + self.offset


@cache
def readers(size: int, count: int, factor: float | None, align_corners: bool, reach: int) -> Readers | None:
    """Of `size` elements, resampled to `count`. None where most would be outside, or it takes too long to find out.

    Places are computed as in f32; where rounding there moves one over an element, the weight that is lost is as small as the rounding.
    """
    if not 0 < size <= LONGEST or not 0 < count <= LONGEST:
        return None
    if align_corners:
        step, rate = (size - 1) / (count - 1) if count > 1 else 0.0, Fraction(max(count - 1, 1), max(size - 1, 1))
    elif factor is not None:
        step, rate = 1.0 / factor, Fraction(factor).limit_denominator(1 << 12)
    else:
        step, rate = size / count, Fraction(count, size)
    # Numbers of C, not tensors: a tracer may be at work, whose tensors hold no numbers.
    step, first, last = c_float(step).value, [count] * size, [-1] * size
    for o in range(count):
        place = c_float(o * step).value if align_corners else c_float(c_float((o + 0.5) * step).value - 0.5).value
        base = floor(place if reach == CUBIC else max(place, 0.0))
        end = reach if reach == LINEAR and base == max(place, 0.0) else reach + 1  # of weight 0: not read
        for i in {min(max(base + j, 0), size - 1) for j in range(1 - reach, end)}:
            first[i], last[i] = min(first[i], o), max(last[i], o)
    starts = [i * rate.numerator // rate.denominator for i in range(size)]
    read_ones = [i for i in range(size) if last[i] >= 0]
    offset = min(first[i] - starts[i] for i in read_ones)
    taps = max(last[i] - starts[i] - offset for i in read_ones) + 1
    if taps * size > 4 * (reach * count + size) + 64:
        return None
    return Readers(rate.numerator, rate.denominator, offset, taps)


def backward_pass(
    c: Conversion, number: int, size: int, count: int, who: Readers, taps: Callable[[ir.Value], list[Tap]]
) -> Pass:
    """From `count` gradients to those of the `size` elements that `who` says they read by `taps`."""

    def tap(k: ir.Value, i: ir.Value) -> Tap:
        (o,) = c.apply([who.start(dim(0)) + dim(1)], [i, k])
        inside = both([compare("ge", o, 0), compare("lt", o, count)])
        o = clamped(o, index_constant(count - 1))
        weights = [select(Scalar(compare("eq", place, i), torch.bool), weight, 0.0) for place, weight in taps(o)]
        return o, select(Scalar(inside, torch.bool), reduce(Scalar.__add__, weights), 0.0)

    return Pass(number, size, who.taps, tap)


# -- passes ---------------------------------------------------------------------------------------------------------------


def runs_along_rows(type_: ir.RankedTensorType) -> bool:
    """Whether a tensor's last dimension is the one along which memory runs."""
    return fastest_dim(type_) in (None, type_.rank - 1)


def like(type_: ir.RankedTensorType, sizes: Sequence[Size], dtype: torch.dtype) -> ir.RankedTensorType:
    """A dense tensor of `sizes`; channels last where `type_` is."""
    strides = None
    if fastest_dim(type_) == 1 and not runs_along_rows(type_):
        order = [0, *range(2, len(sizes)), 1]
        dense = dict(zip(order, row_major([expr(sizes[d]) for d in order])))
        strides = [dense[d] for d in range(len(sizes))]
    return tensor_type(sizes, element_type(dtype), strides)


def along(c: Conversion, x: ir.Value, it: Pass, inner: torch.dtype) -> Callable[[Sequence[ir.Value]], Scalar]:
    """Applies the pass `it` to `x`; returns index -> element."""
    places = table([it.taps, it.count], torch.int64, lambda at: as_integer(it.tap(*at)[0]))
    weights = table([it.taps, it.count], inner, lambda at: it.tap(*at)[1].value)

    def body(at: Sequence[ir.Value]) -> Scalar:
        o = at[it.number]

        def term(k: ir.Value) -> Scalar:
            place = as_index(builders.read(places, [k, o]))
            return read(x, [*at[: it.number], place, *at[it.number + 1 :]]).to(inner) * read(weights, [k, o])

        if it.taps <= UNROLLED:
            return reduce(Scalar.__add__, [term(index_constant(k)) for k in range(it.taps)])
        (total,) = builders.reduce("sum", [expr(it.taps)], scalar_type(inner), lambda k: term(k[0]).value)
        return Scalar(total, inner)

    return body


def resampled(c: Conversion, x: ir.Value, passes: Sequence[Pass], inner: torch.dtype) -> ir.Value:
    """The result. Of the dimensions that shrink the outer ones come first, of those that grow the inner ones: what runs along memory reads by
    gathers, of which there are the fewest so."""
    dtype, sizes = tensor_dtype(x), list(shape_of(x))
    grows = {it: it.count > known(sizes[it.number]) for it in passes}
    order = [it for it in passes if not grows[it]] + [it for it in reversed(passes) if grows[it]]
    for it in order[:-1]:
        sizes[it.number] = expr(it.count)
        between = along(c, x, it, inner)
        type_ = like(c.results[0], sizes, inner)
        x = builders.compute(type_, list(sizes), lambda at, between=between: between(at).value)
    body = along(c, x, order[-1], inner)
    return c.compute(lambda at: finish(c, body(at), dtype))

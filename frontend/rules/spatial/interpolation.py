"""Upsampling (interpolation) in one to three dimensions: nearest, linear and cubic, and their backwards.

A result's element is a weighted sum of a few elements of the input in each dimension, its taps. The backward adds the gradient, by the
same weights, to the taps. Places and weights are computed as eager computes them: in f32, in f64 for f64.
"""

import math
from collections.abc import Callable, Sequence
from ctypes import c_float
from dataclasses import dataclass
from functools import partial, reduce
from itertools import product

import torch
from bascule.dialect.ir import builders
from bascule.dialect.ir.shapes import Size, shape_of
from bascule.dialect.ir.shapes import constant as known
from bascule.dialect.mlir import ir

from ...conversion.context import Conversion
from ...conversion.index_maps import Expr, dim, dims
from ...conversion.registry import LeftToAten, NoRule, rule
from ..index.scatter import converted, filled, with_element
from ..support.index_values import as_index, as_integer, clamped, extent
from ..support.operands import dtype_of_result, finish, read, tensor_dtype
from ..support.requirements import require
from ..support.scalars import Scalar, opmath, scalar_type
from .separable_interpolation import CUBIC, LINEAR, backward_pass, forward_pass, readers, resampled, runs_along_rows

MOST_SHRUNK = 3  # times that a dimension may shrink where dimensions are resampled one after the other
Tap = tuple[ir.Value, Scalar | None]  # an index of the input along one dimension, and its weight (None: 1)


@dataclass(frozen=True)
class Axis:
    """One resampled dimension: sizes of input and output, and the factor the user gave (output over input), if any."""

    size: Expr
    count: Expr
    factor: float | None


def axes_of(sizes: Sequence[Expr], counts: Sequence[Expr], factors: Sequence[float | None], rank: int) -> list[Axis]:
    require(all(known(n) != 0 for n in (*sizes[-rank:], *counts[-rank:])), "sizes above 0")
    factors = [None if f is None or f <= 0 else f for f in factors or [None] * rank]
    return [Axis(size, count, f) for size, count, f in zip(sizes[-rank:], counts[-rank:], factors)]


def number(c: Conversion, size: Size, dtype: torch.dtype) -> Scalar:
    """A size as a float."""
    fixed = known(size)
    if fixed is not None:
        return Scalar.constant(fixed, dtype)
    return Scalar(as_integer(extent(c, size)), torch.int64).to(dtype)


def as_float(index: ir.Value, dtype: torch.dtype) -> Scalar:
    return Scalar(as_integer(index), torch.int64).to(dtype)


def step(c: Conversion, axis: Axis, dtype: torch.dtype, align_corners: bool = False) -> Scalar:
    """How far the place in the input moves from one element of the output to the next."""
    if align_corners:
        if known(axis.count) == 1:
            return Scalar.constant(0, dtype)
        return number(c, axis.size - 1, dtype) / number(c, axis.count - 1, dtype)
    if axis.factor is not None:
        return Scalar.constant(1.0 / axis.factor, dtype)
    return number(c, axis.size, dtype) / number(c, axis.count, dtype)


# -- nearest ----------------------------------------------------------------------------------------------------------------


def whole_step(axis: Axis, exact: bool) -> tuple[int, int] | None:
    """(up, down) where output `o` reads the input's element o * down // up for all `o`, as eager's f32 computes it; else None."""
    size, count = known(axis.size), known(axis.count)
    if size is None or count is None:
        if axis.factor is None or not axis.factor.is_integer() or exact:
            return None
        up, down = int(axis.factor), 1
        # A power of two is exact in f32 for any size.
        return (up, down) if up & (up - 1) == 0 else None
    if (axis.factor is not None and count != size * axis.factor) or exact or not size or not count:
        return None
    if count % size and size % count:
        return None
    up, down = (count // size, 1) if count >= size else (1, size // count)
    # Numbers of C, not tensors: a tracer may be at work, whose tensors hold no numbers. The f64 product of two f32 is exact.
    scale = c_float(1.0 / axis.factor if axis.factor else size / count).value
    places = (min(math.floor(c_float(c_float(o).value * scale).value), size - 1) for o in range(count))
    return (up, down) if all(place == o * down // up for o, place in enumerate(places)) else None


def nearest_place(c: Conversion, axis: Axis, o: ir.Value, exact: bool) -> ir.Value:
    """The input's index that output `o` takes."""
    whole = whole_step(axis, exact)
    if whole is not None:
        return c.apply([Expr.get_floor_div(dim(0) * whole[1], whole[0])], [o])[0]
    wide = torch.float32
    place = as_float(o, wide)
    scaled = (place + 0.5 if exact else place) * step(c, axis, wide)
    return clamped(as_index(scaled.floor().to(torch.int64).value), extent(c, axis.size - 1))


def nearest(c: Conversion, x: ir.Value, factors, rank: int, exact: bool) -> ir.Value:
    axes = axes_of(shape_of(x), c.result_sizes[0], factors, rank)
    dtype = tensor_dtype(x)
    if not dtype.is_floating_point and dtype != torch.uint8:
        raise LeftToAten("ATen refuses whole numbers, but bytes")

    def body(at):
        return builders.read(x, [*at[:-rank], *(nearest_place(c, a, o, exact) for a, o in zip(axes, at[-rank:]))])

    return c.compute(body)


def nearest_backward(c: Conversion, grad: ir.Value, factors, rank: int, exact: bool) -> ir.Value:
    axes = axes_of(c.result_sizes[0], shape_of(grad), factors, rank)
    repeats = [whole_step(a, exact) for a in axes]
    blocks = [r[0] for r, a in zip(repeats, axes) if r is not None and r[1] == 1 and known(a.size) is not None]
    if len(blocks) == rank:
        return block_sum(c, grad, blocks)
    return spread(c, grad, lambda at: [[(nearest_place(c, a, o, exact), None)] for a, o in zip(axes, at)], rank)


def block_sum(c: Conversion, grad: ir.Value, blocks: list[int]) -> ir.Value:
    """Each element of the input: the sum over the block of outputs that took it."""
    rank, dtype = len(blocks), dtype_of_result(c)
    inner, lead = opmath(dtype), len(c.result_sizes[0]) - rank

    def body(at):
        index = dims(lead) + [dim(lead + i) * block + dim(lead + rank + i) for i, block in enumerate(blocks)]

        def term(k):
            return read(grad, c.apply(index, [*at, *k])).to(inner).value

        (total,) = builders.reduce("sum", blocks, scalar_type(inner), term)
        return finish(c, Scalar(total, inner), dtype)

    return c.compute(body)


# -- linear and cubic ---------------------------------------------------------------------------------------------------------


def source_place(
    c: Conversion, axis: Axis, o: ir.Value, dtype: torch.dtype, align_corners: bool, cubic: bool
) -> Scalar:
    """The place in the input, between elements, of output `o`."""
    scale = step(c, axis, dtype, align_corners)
    if align_corners:
        return as_float(o, dtype) * scale
    place = (as_float(o, dtype) + 0.5) * scale - 0.5
    return place if cubic else place.maximum(0.0)


def linear_taps(c: Conversion, axis: Axis, o: ir.Value, dtype: torch.dtype, align_corners: bool) -> list[Tap]:
    last = extent(c, axis.size - 1)
    place = source_place(c, axis, o, dtype, align_corners, cubic=False)
    first = clamped(as_index(place.to(torch.int64).value), last)
    second = clamped(c.apply([dim(0) + 1], [first])[0], last)
    weight = (place - as_float(first, dtype)).maximum(0.0).minimum(1.0)
    return [(first, 1.0 - weight), (second, weight)]


def cubic_weights(t: Scalar) -> list[Scalar]:
    """Keys' convolution weights with a = -0.75 of the four elements around a place at `t` between the middle two."""
    a = -0.75

    def near(x: Scalar) -> Scalar:  # |x| <= 1
        return ((a + 2) * x - (a + 3)) * x * x + 1.0

    def far(x: Scalar) -> Scalar:  # 1 < |x| < 2
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)]


def cubic_taps(c: Conversion, axis: Axis, o: ir.Value, dtype: torch.dtype, align_corners: bool) -> list[Tap]:
    last = extent(c, axis.size - 1)
    place = source_place(c, axis, o, dtype, align_corners, cubic=True)
    below = place.floor()
    base = as_index(below.to(torch.int64).value)
    weights = cubic_weights(place - below)
    return [(clamped(c.apply([dim(0) + i - 1], [base])[0], last), weight) for i, weight in enumerate(weights)]


REACH = {linear_taps: LINEAR, cubic_taps: CUBIC}


def weighted(taps: Sequence[Tap]) -> tuple[list[ir.Value], Scalar | None]:
    """The index of one tap a dimension, and the product of their weights."""
    total = None
    for _, weight in taps:
        if weight is not None:
            total = weight if total is None else total * weight
    return [place for place, _ in taps], total


def resample(c: Conversion, x: ir.Value, factors, rank: int, align_corners: bool, taps: Callable) -> ir.Value:
    dtype = tensor_dtype(x)
    if not dtype.is_floating_point:
        raise NoRule("interpolation of integers, which eager computes in fixed point")
    inner, axes = opmath(dtype), axes_of(shape_of(x), c.result_sizes[0], factors, rank)
    if c.asked.target == "cpu" and fit_for_passes(axes) and runs_along_rows(c.results[0]):
        lead, reach = len(shape_of(x)) - rank, REACH[taps]
        passes = []
        for i, a in enumerate(axes):
            of = partial(taps, c, a, dtype=inner, align_corners=align_corners)
            passes.append(forward_pass(lead + i, a.count, of, reach))
        return resampled(c, x, passes, inner)

    def body(at):
        chosen = [taps(c, a, o, inner, align_corners) for a, o in zip(axes, at[-rank:])]
        return finish(c, interpolated(x, at[:-rank], chosen, inner), dtype)

    return c.compute(body)


def interpolated(x: ir.Value, lead: Sequence[ir.Value], taps: Sequence[list[Tap]], dtype: torch.dtype) -> Scalar:
    """The weighted sum over the taps, one dimension inside the other."""
    if not taps:
        return read(x, lead).to(dtype)
    terms = [interpolated(x, [*lead, place], taps[1:], dtype) * weight for place, weight in taps[0]]
    return reduce(Scalar.__add__, terms)


def spread(c: Conversion, grad: ir.Value, taps: Callable[[Sequence[ir.Value]], list[list[Tap]]], rank: int) -> ir.Value:
    """Adds each element of `grad`, weighted, to its taps; the sums are of `opmath`, rounded once."""
    dtype = tensor_dtype(grad)
    inner = opmath(dtype)
    wide = with_element(c.results[0], inner)

    def body(at, dest):
        value = read(grad, at).to(inner)
        for choice in product(*taps(at[-rank:])):
            places, weight = weighted(choice)
            term = value if weight is None else value * weight
            builders.store(term.value, dest, [*at[:-rank], *places], "add")

    sums = c.scatter(filled(c, 0, inner), shape_of(grad), body, wide)
    return sums if inner == dtype else converted(c, sums, dtype, c.results[0])


def fit_for_passes(axes: Sequence[Axis]) -> bool:
    """Whether one dimension after the other is resampled: each is of static size and shrinks little, so that not many elements are computed
    along one that nobody reads along the next. A single one gains nothing by tables."""
    sizes = [(known(a.size), known(a.count)) for a in axes]
    return len(axes) > 1 and all(size and count and size <= MOST_SHRUNK * count for size, count in sizes)


def resample_backward(
    c: Conversion, grad: ir.Value, factors, rank: int, align_corners: bool, taps: Callable
) -> ir.Value:
    inner, axes = opmath(tensor_dtype(grad)), axes_of(c.result_sizes[0], shape_of(grad), factors, rank)
    passes, lead = [], len(c.result_sizes[0]) - rank
    for i, a in enumerate(axes):
        size, count = known(a.size), known(a.count)
        who = size and count and readers(size, count, a.factor, align_corners, REACH[taps])
        if who:
            of = partial(taps, c, a, dtype=inner, align_corners=align_corners)
            passes.append(backward_pass(c, lead + i, size, count, who, of))
    if len(passes) == rank:
        return resampled(c, grad, passes, inner)
    return spread(c, grad, lambda at: [taps(c, a, o, inner, align_corners) for a, o in zip(axes, at)], rank)


# -- the operators --------------------------------------------------------------------------------------------------------------


def register_nearest(rank: int, exact: bool) -> None:
    name = f"aten.{'_' if exact else ''}upsample_nearest{'_exact' if exact else ''}{rank}d"

    @rule(f"{name}.default")
    def forward(c, x, output_size, *factors):
        return nearest(c, x, factors, rank, exact)

    @rule(f"{name}.vec")
    def forward_vec(c, x, output_size, factors):
        return nearest(c, x, factors, rank, exact)

    @rule(f"{name}_backward.default")
    def backward(c, grad, output_size, input_size, *factors):
        return nearest_backward(c, grad, factors, rank, exact)


def register_resample(kind: str, rank: int, taps: Callable) -> None:
    name = f"aten.upsample_{kind}{rank}d"

    @rule(f"{name}.default")
    def forward(c, x, output_size, align_corners, *factors):
        return resample(c, x, factors, rank, align_corners, taps)

    @rule(f"{name}.vec")
    def forward_vec(c, x, output_size, align_corners, factors):
        return resample(c, x, factors, rank, align_corners, taps)

    @rule(f"{name}_backward.default")
    def backward(c, grad, output_size, input_size, align_corners, *factors):
        return resample_backward(c, grad, factors, rank, align_corners, taps)


for spatial in (1, 2, 3):
    register_nearest(spatial, exact=False)
    register_nearest(spatial, exact=True)
register_resample("linear", 1, linear_taps)
register_resample("bilinear", 2, linear_taps)
register_resample("trilinear", 3, linear_taps)
register_resample("bicubic", 2, cubic_taps)

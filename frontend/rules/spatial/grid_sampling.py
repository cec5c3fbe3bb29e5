"""grid_sampler: the input read between its elements, at places that another tensor gives; and its backward.

A place is in [-1, 1] from one border of the input to the other. As in `interpolation.py` each dimension has taps, indices with weights; a
tap outside the input counts nothing. `grid[..., 0]` is the place along the input's last dimension.

All channels read at the same places. On a CPU places and weights are tensors of their own where there are several channels; a GPU computes them
again while it waits for memory.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import product

import torch
from bascule.dialect.ir import builders
from bascule.dialect.ir.shapes import constant as known
from bascule.dialect.ir.shapes import shape_of
from bascule.dialect.mlir import ir

from ...conversion.context import Conversion
from ...conversion.index_maps import Expr
from ...conversion.registry import NoRule, rule
from ..index.scatter import converted, with_element
from ..support.index_values import as_index, as_integer, both, clamped, compare, extent, when
from ..support.operands import finish, read, temporary, tensor_dtype
from ..support.requirements import require, require_dtype
from ..support.scalars import Scalar, opmath, scalar_type, select
from .interpolation import cubic_weights, number

BILINEAR, NEAREST, BICUBIC = 0, 1, 2
ZEROS, BORDER, REFLECTION = 0, 1, 2
TAPS = {BILINEAR: 2, NEAREST: 1, BICUBIC: 4}  # along one dimension
SHARED = 3  # channels from which places are computed once for all


@dataclass(frozen=True)
class Tap:
    """One element that a place reads along one dimension; `slope` is the derivative of `weight` by the place."""

    place: ir.Value
    weight: Scalar
    slope: Scalar
    inside: ir.Value  # i1: whether `place` is in the input


@dataclass(frozen=True)
class Sampler:
    """How places are read: the operator's arguments, and the dtype of the arithmetic."""

    interpolation: int
    padding: int
    align_corners: bool
    dtype: torch.dtype

    def scale(self, c: Conversion, size: Expr) -> Scalar:
        """Elements of the input for a step of 1 in the grid."""
        return number(c, size - 1 if self.align_corners else size, self.dtype) * 0.5

    def place(self, c: Conversion, x: Scalar, size: Expr) -> Scalar:
        """A place of the grid in units of the input's elements."""
        scaled = (x + 1.0) * self.scale(c, size)
        return scaled if self.align_corners else scaled - 0.5

    def bounded(self, c: Conversion, x: Scalar, size: Expr) -> tuple[Scalar, Scalar]:
        """`x` moved into the input as the padding says, and the derivative of that: 1, 0 or -1."""
        slope = x.like(1.0)
        if self.padding == ZEROS:
            return x, slope
        if self.padding == REFLECTION:
            x, slope = self.reflected(c, x, size)
        last = number(c, size - 1, self.dtype)
        slope = select(x <= 0.0, 0.0, select(x >= last, 0.0, slope))
        return select(x.isnan(), 0.0, x.maximum(0.0).minimum(last)), slope

    def reflected(self, c: Conversion, x: Scalar, size: Expr) -> tuple[Scalar, Scalar]:
        """Mirrored between the first and last element, or, unless corners align, between their outer borders."""
        low = 0.0 if self.align_corners else -0.5
        span = number(c, size - 1 if self.align_corners else size, self.dtype)
        distance = x - low
        away = distance.abs()
        divisor = select(span.eq(0.0), 1.0, span)
        turns = (away / divisor).floor()
        rest = away - turns * divisor
        even = (turns * 0.5).floor().eq(turns * 0.5)
        place = select(even, rest, span - rest) + low
        slope = select(distance < 0.0, x.like(-1.0), x.like(1.0))
        slope = select(even, slope, -slope)
        empty = span.eq(0.0)
        return select(empty, low, place), select(empty, 0.0, slope)

    def taps(self, c: Conversion, x: Scalar, size: Expr) -> list[Tap]:
        """The elements that the grid's place `x` reads along a dimension of `size`; slopes are by the grid's place."""
        scale, x = self.scale(c, size), self.place(c, x, size)
        if self.interpolation == BICUBIC:
            base = x.floor()
            t = x - base
            pairs = zip(cubic_weights(t), cubic_slopes(t))
            return [
                self.tap(c, self.bounded(c, base + float(i - 1), size)[0], weight, slope * scale, size)
                for i, (weight, slope) in enumerate(pairs)
            ]
        x, slope = self.bounded(c, x, size)
        if self.interpolation == NEAREST:
            return [self.tap(c, x.call("math.roundeven"), x.like(1.0), x.like(0.0), size)]
        base = x.floor()
        t, slope = x - base, slope * scale
        return [self.tap(c, base, 1.0 - t, -slope, size), self.tap(c, base + 1.0, t, slope, size)]

    def tap(self, c: Conversion, x: Scalar, weight: Scalar, slope: Scalar, size: Expr) -> Tap:
        """The tap at the whole number `x`. What is far outside is moved next to the border: it fits 32 bits then."""
        near = x.maximum(-1.0).minimum(number(c, size, self.dtype))
        place = as_index(near.to(torch.int32).value)
        inside = both([compare("ge", place, 0), compare("lt", place, extent(c, size))])
        return Tap(place, weight, slope, inside)

    def all_taps(
        self, c: Conversion, grid: ir.Value, lead: Sequence[ir.Value], sizes: Sequence[Expr]
    ) -> list[list[Tap]]:
        """The taps of the grid's point at `lead`, for each of the input's `sizes`."""
        rank = len(sizes)
        numbers = (extent(c, rank - 1 - i) for i in range(rank))
        return [
            self.taps(c, read(grid, [*lead, i]).to(self.dtype), size) for i, size in zip(numbers, sizes, strict=True)
        ]


def cubic_slopes(t: Scalar) -> list[Scalar]:
    """The derivatives of `cubic_weights` by `t`."""
    a = -0.75

    def near(x: Scalar) -> Scalar:
        return (3 * (a + 2) * x - 2 * (a + 3)) * x

    def far(x: Scalar) -> Scalar:
        return (3 * a * x - 10 * a) * x + 8 * a

    return [far(t + 1.0), near(t), -near(1.0 - t), -far(2.0 - t)]


def element(x: ir.Value, lead: Sequence[ir.Value], taps: Sequence[Tap], dtype: torch.dtype) -> Scalar:
    """The input's element at one tap a dimension; zero outside."""
    value = when(
        both([tap.inside for tap in taps]),
        scalar_type(dtype),
        lambda: read(x, [*lead, *(tap.place for tap in taps)]).to(dtype).value,
        lambda: Scalar.constant(0, dtype).value,
    )
    return Scalar(value, dtype)


def weighted_sum(taps: Sequence[list[Tap]], value: Callable, along: int | None = None) -> Scalar:
    """The sum of `value(taps)` times their weights, over all choices of taps; along dimension `along`, times the slope instead."""
    terms = []
    for choice in product(*taps):
        term = value(choice)
        for i, tap in enumerate(choice):
            term = term * (tap.slope if i == along else tap.weight)
        terms.append(term)
    return reduce(Scalar.__add__, terms)


def sampler(x: ir.Value, interpolation: int, padding: int, align_corners: bool) -> Sampler:
    dtype = tensor_dtype(x)
    if not dtype.is_floating_point:
        raise NoRule("a grid sampler of integers")
    modes = (BILINEAR, NEAREST, BICUBIC) if x.type.rank == 4 else (BILINEAR, NEAREST)
    require(interpolation in modes and padding in (ZEROS, BORDER, REFLECTION), "a mode that there is")
    return Sampler(interpolation, padding, align_corners, opmath(dtype))


Taps = Callable[[Sequence[ir.Value]], list[list[Tap]]]  # a point of the grid -> the taps of each dimension
OUTSIDE = -1  # the place of a tap that is not in the input, in a table


def taps_of(c: Conversion, how: Sampler, grid: ir.Value, channels: Expr, sizes: Sequence[Expr]) -> Taps:
    """The taps of all points of the grid; without slopes where they are read from tables."""
    count = known(channels)
    if c.asked.target != "cpu" or (count is not None and count < SHARED):
        return lambda point: how.all_taps(c, grid, point, sizes)
    points, tables = shape_of(grid)[:-1], []
    for axis in range(len(sizes)):
        for k in range(TAPS[how.interpolation]):

            def tap(at: Sequence[ir.Value], axis: int = axis, k: int = k) -> Tap:
                return how.all_taps(c, grid, at, sizes)[axis][k]

            def place(at: Sequence[ir.Value], tap: Callable = tap) -> Scalar:
                found = tap(at)
                number = Scalar(as_integer(found.place, 32), torch.int32)
                return select(Scalar(found.inside, torch.bool), number, OUTSIDE)

            places = temporary(points, torch.int32, place)

            def weight(at: Sequence[ir.Value], tap: Callable = tap) -> Scalar:
                return tap(at).weight

            weights = temporary(points, how.dtype, weight)
            tables.append((places, weights))

    def taps(point: Sequence[ir.Value]) -> list[list[Tap]]:
        found = []
        for places, weights in tables:
            place, weight = as_index(builders.read(places, point)), read(weights, point)
            found.append(Tap(place, weight, weight, compare("ge", place, 0)))
        each = len(found) // len(sizes)
        return [found[i : i + each] for i in range(0, len(found), each)]

    return taps


@rule("aten.grid_sampler_2d.default", "aten.grid_sampler_3d.default")
def grid_sampler(c, x, grid, interpolation, padding, align_corners):
    require_dtype(grid, x)
    how, dtype, sizes = sampler(x, interpolation, padding, align_corners), tensor_dtype(x), shape_of(x)[2:]
    taps_at = taps_of(c, how, grid, shape_of(x)[1], sizes)

    def body(at):
        taps = taps_at([at[0], *at[2:]])
        return finish(c, weighted_sum(taps, lambda chosen: element(x, at[:2], chosen, how.dtype)), dtype)

    return c.compute(body)


@rule("aten.grid_sampler_2d_backward.default", "aten.grid_sampler_3d_backward.default")
def grid_sampler_backward(c, grad, x, grid, interpolation, padding, align_corners, wanted):
    how = sampler(x, interpolation, padding, align_corners)
    of_input = input_gradient(c, how, grad, grid) if wanted[0] else None
    return [of_input, grid_gradient(c, how, grad, x, grid) if wanted[1] else None]


def input_gradient(c: Conversion, how: Sampler, grad: ir.Value, grid: ir.Value) -> ir.Value:
    """Adds each gradient, weighted, to the elements that were read; sums are of `how.dtype`."""
    dtype, sizes = tensor_dtype(grad), c.result_sizes[0][2:]
    wide = with_element(c.results[0], how.dtype)
    zeros = builders.compute(wide, c.result_sizes[0], lambda at: Scalar.constant(0, how.dtype).value)
    taps_at = taps_of(c, how, grid, c.result_sizes[0][1], sizes)

    def body(at, dest):
        value = read(grad, at).to(how.dtype)
        for choice in product(*taps_at([at[0], *at[2:]])):
            term = value
            for tap in choice:
                term = term * select(Scalar(tap.inside, torch.bool), tap.weight, 0.0)
            places = [clamped(tap.place, extent(c, size - 1)) for tap, size in zip(choice, sizes)]
            builders.store(term.value, dest, [*at[:2], *places], "add")

    sums = c.scatter(zeros, shape_of(grad), body)
    return sums if how.dtype == dtype else converted(c, sums, dtype, c.results[0])


def grid_gradient(c: Conversion, how: Sampler, grad: ir.Value, x: ir.Value, grid: ir.Value) -> ir.Value:
    """For each point of the grid and each coordinate: the sum over channels of gradient times the slope there."""
    dtype, sizes = tensor_dtype(grid), shape_of(x)
    rank, channels = len(sizes) - 2, sizes[1]

    def slope_sum(at: Sequence[ir.Value], axis: int) -> Scalar:
        taps = how.all_taps(c, grid, at, sizes[2:])

        def term(k: Sequence[ir.Value]) -> ir.Value:
            slope = weighted_sum(taps, lambda chosen: element(x, [at[0], *k], chosen, how.dtype), axis)
            return (read(grad, [at[0], *k, *at[1:]]).to(how.dtype) * slope).value

        (total,) = builders.reduce("sum", [channels], scalar_type(how.dtype), term)
        return Scalar(total, how.dtype)

    # Coordinate j moves along the input's dimension rank - 1 - j.
    sums = [temporary(shape_of(grid)[:-1], how.dtype, partial(slope_sum, axis=rank - 1 - j)) for j in range(rank)]

    def body(at):
        found = read(sums[-1], at[:-1])
        for j in range(rank - 1):
            found = select(Scalar(compare("eq", at[-1], j), torch.bool), read(sums[j], at[:-1]), found)
        return finish(c, found, dtype)

    return c.compute(body, 1)

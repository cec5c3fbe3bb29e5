"""Resampling of images with antialiasing (`_upsample_bilinear2d_aa`, `_upsample_bicubic2d_aa`), and its backward.

Where a dimension shrinks, an element of the result is a mean over all elements of the input that lie under a filter as wide as the
step between results, weighted by it (as Pillow resizes). One dimension is resampled after the other, with sums in the opmath dtype between. The
weights of a dimension are a small tensor. Places and weights are computed as eager computes them, in f32, in f64 for f64.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil

import torch
from bascule.dialect.ir import builders
from bascule.dialect.ir.shapes import Size, expr, shape_of
from bascule.dialect.ir.shapes import constant as known
from bascule.dialect.mlir import ir

from ...conversion.context import Conversion
from ...conversion.index_maps import dim
from ...conversion.registry import NoRule, rule
from ..support.index_values import as_index, clamped
from ..support.operands import finish, index_constant, read, temporary, tensor_dtype
from ..support.scalars import Scalar, opmath, scalar_type, select
from .interpolation import as_float, axes_of

Filter = Callable[[Scalar], Scalar]  # of the distance, which is not negative


def triangle(x: Scalar) -> Scalar:
    return (1.0 - x).maximum(0.0)


def cubic(x: Scalar) -> Scalar:
    """Keys' kernel with a = -0.5."""
    a = -0.5
    near = ((a + 2) * x - (a + 3)) * x * x + 1.0
    far = (((x - 5.0) * x + 8.0) * x - 4.0) * a
    return select(x < 1.0, near, select(x < 2.0, far, 0.0))


@dataclass(frozen=True)
class Window:
    """The windows of one resampled dimension. `step`: from one result to the next, in elements of the input; `reach`: half the filter's width;
    `taps`: how many elements that is at most."""

    size: int
    count: int
    step: float
    reach: float
    taps: int
    filter: Filter
    dtype: torch.dtype

    @property
    def copies(self) -> bool:
        return self.size == self.count and self.step == 1

    def center(self, o: ir.Value) -> Scalar:
        return (as_float(o, self.dtype) + 0.5) * self.step

    def ends(self, o: ir.Value) -> tuple[Scalar, Scalar]:
        """The first element of the input under result `o`, and one more than the last."""
        center = self.center(o)
        first, end = ((center + (shift + 0.5)).to(torch.int64) for shift in (-self.reach, self.reach))
        first = first.maximum(0)
        return first, end.minimum(self.size).minimum(first + self.taps)

    def weights(self) -> ir.Value:
        """[taps, count]: of element number `j` under result `o`; 0 beyond the last."""

        def raw(j: ir.Value, o: ir.Value) -> Scalar:
            first, end = self.ends(o)
            place = Scalar(first.value, torch.int64) + _integer(j)
            distance = as_float(j, self.dtype) + (first.to(self.dtype) - self.center(o)) + 0.5
            if self.step >= 1:
                distance = distance * (1.0 / self.step)
            return select(place < end, self.filter(distance.abs()), 0.0)

        def body(at: Sequence[ir.Value]) -> Scalar:
            j, o = at
            whole = summed(self.taps, self.dtype, lambda k: raw(k, o))
            return raw(j, o) / select(whole.eq(0.0), 1.0, whole)

        return temporary([expr(self.taps), expr(self.count)], self.dtype, body)


def _integer(index: ir.Value) -> Scalar:
    i64 = ir.IntegerType.get_signless(64)
    return Scalar(ir.Operation.create("arith.index_cast", results=[i64], operands=[index]).result, torch.int64)


def summed(count: int, dtype: torch.dtype, term: Callable[[ir.Value], Scalar]) -> Scalar:
    (total,) = builders.reduce("sum", [expr(count)], scalar_type(dtype), lambda k: term(k[0]).value)
    return Scalar(total, dtype)


def windows(
    sizes: Sequence[Size], counts: Sequence[Size], factors, align_corners: bool, filter_: Filter, dtype: torch.dtype
) -> list[Window]:
    """Those of the last two dimensions. `dtype`: the one that eager computes places in."""
    found = []
    for axis in axes_of(sizes, counts, factors, 2):
        size, count = known(axis.size), known(axis.count)
        if size is None or count is None:
            raise NoRule("antialiasing between sizes that are not constant")
        if align_corners:
            step = (size - 1) / (count - 1) if count > 1 else 0.0
        else:
            step = 1.0 / axis.factor if axis.factor is not None else size / count if count else 1.0
        step = torch.tensor(step, dtype=dtype).item()
        half = 2.0 if filter_ is cubic else 1.0
        reach = torch.tensor(half * max(step, 1.0), dtype=dtype).item()
        found.append(Window(size, count, step, reach, 2 * ceil(reach) + 1, filter_, dtype))
    return found


Pass = Callable[[Sequence[ir.Value]], Scalar]


def along(c: Conversion, x: ir.Value, number: int, window: Window) -> Pass:
    """Dimension `number` of `x` resampled: at each index, the mean."""
    weights = window.weights()

    def body(at: Sequence[ir.Value]) -> Scalar:
        o = at[number]
        first, _ = window.ends(o)
        start = as_index(first.value)

        def term(j: ir.Value) -> Scalar:
            place = clamped(c.apply([dim(0) + dim(1)], [start, j])[0], index_constant(window.size - 1))
            element = read(x, [*at[:number], place, *at[number + 1 :]]).to(window.dtype)
            return element * read(weights, [j, o])

        return summed(window.taps, window.dtype, term)

    return body


def back_along(c: Conversion, grad: ir.Value, number: int, window: Window) -> Pass:
    """The same backward: at each index of the input, the sum over the results that it lies under."""
    weights, last = window.weights(), index_constant(window.count - 1)
    covering = ceil((2 * window.reach + 1.5) / window.step) + 4 if window.step else window.count
    everything = covering >= window.count

    def body(at: Sequence[ir.Value]) -> Scalar:
        i = at[number]
        start = index_constant(0)
        if not everything:
            place = (as_float(i, window.dtype) - (window.reach + 0.5)) / window.step - 1.5
            start = as_index(place.floor().to(torch.int64).maximum(0).value)

        def term(k: ir.Value) -> Scalar:
            (o,) = c.apply([dim(0) + dim(1)], [start, k])
            inside = _integer(o) < window.count
            o = clamped(o, last)
            first, end = window.ends(o)
            inside = inside & (first.compare("le", _integer(i))) & (_integer(i) < end)
            tap = as_index(select(inside, _integer(i) - first, 0).value)
            element = read(grad, [*at[:number], o, *at[number + 1 :]]).to(window.dtype)
            return select(inside, element * read(weights, [tap, o]), 0.0)

        return summed(window.count if everything else covering, window.dtype, term)

    return body


def passes(
    c: Conversion, x: ir.Value, found: Sequence[Window], make: Callable[[Conversion, ir.Value, int, Window], Pass]
) -> ir.Value:
    """The result. Rows are resampled first where fewer are left: what runs along memory reads by gathers."""
    dtype, sizes = tensor_dtype(x), list(shape_of(x))
    steps = [(len(sizes) - 2 + n, window) for n, window in enumerate(found) if not window.copies]
    if known(sizes[-2]) < known(c.result_sizes[0][-2]):
        steps.reverse()
    if not steps:
        return c.compute(builders.element_at(x))
    for number, window in steps[:-1]:
        sizes[number] = c.result_sizes[0][number]
        x = temporary(sizes, window.dtype, make(c, x, number, window))
    number, window = steps[-1]
    body = make(c, x, number, window)
    return c.compute(lambda at: finish(c, body(at), dtype))


def opmath_of(x: ir.Value) -> torch.dtype:
    dtype = tensor_dtype(x)
    if not dtype.is_floating_point:
        raise NoRule("interpolation of integers, which eager computes in fixed point")
    return opmath(dtype)


def register(kind: str, filter_: Filter) -> None:
    def resample(c, x, align_corners, factors):
        found = windows(shape_of(x), c.result_sizes[0], factors, align_corners, filter_, opmath_of(x))
        return passes(c, x, found, along)

    @rule(f"aten._upsample_{kind}2d_aa.default")
    def forward(c, x, output_size, align_corners, *factors):
        return resample(c, x, align_corners, factors)

    @rule(f"aten._upsample_{kind}2d_aa.vec")
    def forward_vec(c, x, output_size, align_corners, factors):
        return resample(c, x, align_corners, factors)

    @rule(f"aten._upsample_{kind}2d_aa_backward.default")
    def backward(c, grad, output_size, input_size, align_corners, *factors):
        found = windows(c.result_sizes[0], shape_of(grad), factors, align_corners, filter_, opmath_of(grad))
        return passes(c, grad, found, back_along)


register("bilinear", triangle)
register("bicubic", cubic)

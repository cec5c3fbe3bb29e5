"""Adaptive pooling: window `o` of `count` covers [floor(o * size / count), ceil((o + 1) * size / count))."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from bascule.dialect.ir.shapes import constant as known
from bascule.dialect.ir.shapes import shape_of
from bascule.dialect.mlir import arith, ir

from ...conversion.context import Conversion
from ...conversion.index_maps import Expr, delinearize, dim, linearize, same_size
from ...conversion.registry import rule
from ..support.index_values import compare
from ..support.operands import floats_only, read, tensor_dtype
from ..support.scalars import opmath
from .pooling import average, divided, largest, lowest, product, sum_over_windows, value_where, where_chosen


@dataclass(frozen=True)
class AdaptiveWindows:
    """The windows along one dimension of `size` elements. Exchanged, size for count, they are the windows that hold an element."""

    size: Expr
    count: Expr

    @property
    def exact(self) -> bool:
        """All windows have `longest` elements."""
        size, count = known(self.size), known(self.count)
        return count in (0, 1) or same_size(self.size, self.count) or (None not in (size, count) and size % count == 0)

    @property
    def longest(self) -> Expr:
        """The length of the longest window, or one more."""
        if self.exact:
            return self.size if known(self.count) == 0 else Expr.get_floor_div(self.size, self.count)
        return Expr.get_ceil_div(self.size, self.count) + 1

    def start(self, o: Expr) -> Expr:
        if self.exact:
            return o * self.longest
        return Expr.get_floor_div(o * self.size, self.count)

    def end(self, o: Expr) -> Expr:
        return Expr.get_ceil_div((o + 1) * self.size, self.count)

    def guards(self, c: Conversion, o: ir.Value, place: ir.Value) -> list[ir.Value]:
        """The conditions under which `place`, at or after the start of window `o`, is in it."""
        return [] if self.exact else [compare("lt", place, c.apply([self.end(dim(0))], [o])[0])]


def adaptive_windows(sizes: Sequence[Expr], counts: Sequence[Expr], rank: int) -> list[AdaptiveWindows]:
    return [AdaptiveWindows(size, count) for size, count in zip(sizes[-rank:], counts[-rank:])]


def element(c, x: ir.Value, windows, at, k, inner: torch.dtype, outside: float | int) -> ir.Value:
    """Element `k` of window `at` of `x`, and `outside` past the window's end."""
    rank, lead = len(windows), len(at) - len(windows)
    places = c.apply([w.start(dim(lead + i)) + dim(lead + rank + i) for i, w in enumerate(windows)], [*at, *k])
    guards = [g for w, o, place in zip(windows, at[lead:], places) for g in w.guards(c, o, place)]
    return value_where(guards, inner, lambda: read(x, [*at[:lead], *places]), outside)


def count_of(c: Conversion, windows: Sequence[AdaptiveWindows], at: Sequence[ir.Value]) -> ir.Value | int:
    """How many elements window `at` has."""
    count: ir.Value | int = 1
    for w, o in zip(windows, at):
        length = known(w.longest) if w.exact else None
        if length is None:
            start, end = c.apply([w.start(dim(0)), w.end(dim(0))], [o])
            length = arith.SubIOp(end, start).result
        count = product(c, count, length)
    return count


@rule("aten._adaptive_avg_pool2d.default", "aten.adaptive_avg_pool2d.default")
@floats_only
def adaptive_avg_pool2d(c, x, _):
    return adaptive_average(c, x, 2)


@rule("aten._adaptive_avg_pool3d.default", "aten.adaptive_avg_pool3d.default")
@floats_only
def adaptive_avg_pool3d(c, x, _):
    return adaptive_average(c, x, 3)


def adaptive_average(c: Conversion, x: ir.Value, rank: int) -> ir.Value:
    dtype, windows = tensor_dtype(x), adaptive_windows(shape_of(x), c.result_sizes[0], rank)
    inner = opmath(dtype)
    return average(
        c,
        dtype,
        [w.longest for w in windows],
        lambda at: lambda k: element(c, x, windows, at, k, inner, 0),
        lambda at: count_of(c, windows, at[-rank:]),
    )


@rule("aten.adaptive_max_pool2d.default")
@floats_only
def adaptive_max_pool2d(c, x, _):
    return adaptive_max(c, x, 2)


@rule("aten.adaptive_max_pool3d.default")
@floats_only
def adaptive_max_pool3d(c, x, _):
    return adaptive_max(c, x, 3)


def adaptive_max(c: Conversion, x: ir.Value, rank: int) -> list[ir.Value]:
    sizes, dtype = shape_of(x), tensor_dtype(x)
    windows, inner, lead = adaptive_windows(sizes, c.result_sizes[0], rank), opmath(dtype), len(sizes) - rank
    shape = [w.longest for w in windows]

    def elements(at):
        return lambda k: element(c, x, windows, at, k, inner, lowest(inner))

    def place(at, first):
        k = delinearize(dim(len(at)), shape, len(at) + 1)
        index = [w.start(dim(lead + i)) + k[i] for i, w in enumerate(windows)]
        return c.apply([linearize(index, sizes[lead:])], [*at, first])[0]

    return largest(c, dtype, shape, elements, place)


def adaptive_sum(c: Conversion, grad: ir.Value, rank: int, value: Callable) -> ir.Value:
    """Each element of the input: the sum of `value` over its windows, which are adaptive windows with sizes exchanged."""
    windows = adaptive_windows(c.result_sizes[0], shape_of(grad), rank)
    exchanged = {w: AdaptiveWindows(w.count, w.size) for w in windows}
    return sum_over_windows(
        c,
        windows,
        [exchanged[w].longest for w in windows],
        lambda w, place, number: exchanged[w].start(place) + number,
        lambda c, w, window, place: exchanged[w].guards(c, place, window),
        value,
    )


@rule("aten._adaptive_avg_pool2d_backward.default")
def adaptive_avg_pool2d_backward(c, grad, x):
    return adaptive_average_backward(c, grad, 2)


@rule("aten._adaptive_avg_pool3d_backward.default")
def adaptive_avg_pool3d_backward(c, grad, x):
    return adaptive_average_backward(c, grad, 3)


def adaptive_average_backward(c: Conversion, grad: ir.Value, rank: int) -> ir.Value:
    windows, inner = adaptive_windows(c.result_sizes[0], shape_of(grad), rank), opmath(tensor_dtype(grad))

    def value(window, at):
        return divided(read(grad, window).to(inner), count_of(c, windows, window[-rank:]))

    return adaptive_sum(c, grad, rank, value)


@rule("aten.adaptive_max_pool2d_backward.default")
def adaptive_max_pool2d_backward(c, grad, x, indices):
    return adaptive_sum(c, grad, 2, where_chosen(c, grad, indices, 2))


@rule("aten.adaptive_max_pool3d_backward.default")
def adaptive_max_pool3d_backward(c, grad, x, indices):
    return adaptive_sum(c, grad, 3, where_chosen(c, grad, indices, 3))

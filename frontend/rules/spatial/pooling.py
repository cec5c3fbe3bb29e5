"""Pooling in one to three dimensions: each element of the result is a `bascule.reduce` over a window of the input.

The backwards are in gather form too: an element of the input sums over the windows that it lies in, so no two points write one place.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from bascule.dialect.ir import builders
from bascule.dialect.ir.shapes import constant as known
from bascule.dialect.ir.shapes import shape_of
from bascule.dialect.mlir import arith, ir

from ...conversion.context import Conversion
from ...conversion.index_maps import Expr, delinearize, dim, dims, linearize
from ...conversion.registry import LeftToAten, rule
from ..support.index_values import as_index, as_integer, both, compare, extent, when
from ..support.operands import dtype_of_result, finish, read, tensor_dtype
from ..support.requirements import require_window
from ..support.scalars import UNSIGNED, Scalar, opmath, scalar_type

Ints = Sequence[int]
# Of a window, by its index: the element at an index in it.
Elements = Callable[[list[ir.Value]], Callable[[list[ir.Value]], ir.Value]]
# Of a window, by its index, and the row-major number of an element in it: where that lies in the pooled dimensions.
Place = Callable[[list[ir.Value], ir.Value], ir.Value]


def per_dim(values: Ints, count: int, default: Ints = ()) -> list[int]:
    """An operator's list of `count` numbers, where one number stands for all and none for `default`."""
    values = list(values) or list(default)
    return values * count if len(values) == 1 else values


@dataclass(frozen=True)
class Windows:
    """The windows along one dimension: where window `o` begins, and which of its elements are in the input.

    `start(o)` and `length` are as if there were no border; `fits` says that all windows lie inside the input.
    """

    size: Expr  # of the input
    count: Expr  # of windows: the size of the result
    kernel: int
    stride: int
    padding: int
    dilation: int

    @property
    def reach(self) -> int:
        """From a window's first element to one past its last."""
        return (self.kernel - 1) * self.dilation + 1

    def place(self, window: Expr, k: Expr) -> Expr:
        """The input's index of element `k` of a window."""
        return window * self.stride + k * self.dilation - self.padding

    def guards(self, c: Conversion, place: ir.Value) -> list[ir.Value]:
        """The conditions under which `place` is in the input; none where all windows lie inside."""
        conditions = [compare("ge", place, 0)] if self.padding else []
        over = known((self.count - 1) * self.stride + self.reach - self.padding - self.size)
        if over is None or over > 0:
            conditions.append(compare("lt", place, extent(c, self.size)))
        return conditions

    def first_inside(self, c: Conversion, place: ir.Value) -> ir.Value:
        """`place`, or the first one of its window that is none of the border: where all elements are -inf, the border's is the first of them."""
        (after_border,) = c.apply([dim(0) % self.dilation], [place])
        return arith.MinSIOp(arith.MaxSIOp(place, after_border).result, extent(c, self.size - 1)).result

    @property
    def cover(self) -> int:
        """The most windows that one element of the input lies in."""
        return (self.reach - 1) // self.stride + 1

    def covering(self, place: Expr, number: Expr) -> Expr:
        """Window number `number` of those that may hold `place`, the last of them first."""
        return Expr.get_floor_div(place + self.padding, self.stride) - number

    def covers(self, c: Conversion, window: ir.Value, place: ir.Value) -> list[ir.Value]:
        """The conditions under which `window`, from `covering`, exists and reaches `place`."""
        end = c.apply([dim(0) * self.stride - self.padding + self.reach], [window])[0]
        exists = [compare("ge", window, 0), compare("lt", window, extent(c, self.count))]
        return [*exists, compare("lt", place, end)]


def windows_of(sizes, counts, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, rank: int) -> list[Windows]:
    """The windows along the last `rank` dimensions of an input of `sizes` and a result of sizes `counts`."""
    kernel = per_dim(kernel, rank)
    given = [*zip(kernel, per_dim(stride, rank, kernel), per_dim(padding, rank), per_dim(dilation, rank))]
    for each in given:
        require_window(*each)
    return [Windows(size, count, *rest) for size, count, rest in zip(sizes[-rank:], counts[-rank:], given)]


def value_where(
    guards: Sequence[ir.Value], inner: torch.dtype, value: Callable[[], Scalar], otherwise: float | int = 0
) -> ir.Value:
    """`value()` as `inner` where all of `guards` hold, the number `otherwise` elsewhere."""
    return when(
        both(guards),
        scalar_type(inner),
        lambda: value().to(inner).value,
        lambda: Scalar.constant(otherwise, inner).value,
    )


def lowest(dtype: torch.dtype) -> int | float:
    if dtype == torch.bool:
        raise LeftToAten("ATen refuses booleans")
    return float("-inf") if dtype.is_floating_point else torch.iinfo(dtype).min


def max_kind(dtype: torch.dtype) -> str:
    return "maxu" if dtype in UNSIGNED else "max"


# -- max ------------------------------------------------------------------------------------------------------------------


@rule("aten.max_pool2d_with_indices.default")
def max_pool2d(c, x, kernel, stride=(), padding=(0,), dilation=(1,), ceil_mode=False):
    return max_pool(c, x, kernel, stride, padding, dilation, 2)


@rule("aten.max_pool3d_with_indices.default")
def max_pool3d(c, x, kernel, stride=(), padding=(0,), dilation=(1,), ceil_mode=False):
    return max_pool(c, x, kernel, stride, padding, dilation, 3)


def element(c: Conversion, x: ir.Value, windows, at, k, inner: torch.dtype, outside: float | int) -> ir.Value:
    """Element `k` of window `at` of `x`, and `outside` in the border."""
    rank, lead = len(windows), len(at) - len(windows)
    places = c.apply([w.place(dim(lead + i), dim(lead + rank + i)) for i, w in enumerate(windows)], [*at, *k])
    guards = [g for w, place in zip(windows, places) for g in w.guards(c, place)]
    return value_where(guards, inner, lambda: read(x, [*at[:lead], *places]), outside)


def largest(
    c: Conversion, dtype: torch.dtype, sizes: Sequence[Expr | int], elements: Elements, place: Place
) -> list[ir.Value]:
    """The largest elements of windows of `sizes`, and their places as row-major positions in the pooled dimensions. `elements` are in the dtype
    that those of `dtype` are computed in."""
    inner = opmath(dtype)

    def value(at):
        (most,) = builders.reduce(max_kind(dtype), sizes, scalar_type(inner), elements(at))
        return finish(c, Scalar(most, inner), dtype)

    def position(at):
        (first,) = builders.reduce("argmax", sizes, scalar_type(inner), elements(at))
        return as_integer(place(at, as_index(first)))

    return [c.compute(value), c.compute(position, 1)]


def max_pool(c: Conversion, x: ir.Value, kernel, stride, padding, dilation, rank: int) -> list[ir.Value]:
    sizes, dtype = shape_of(x), tensor_dtype(x)
    windows = windows_of(sizes, c.result_sizes[0], kernel, stride, padding, dilation, rank)
    shape, inner, lead = [w.kernel for w in windows], opmath(dtype), len(sizes) - rank

    def elements(at):
        return lambda k: element(c, x, windows, at, k, inner, lowest(inner))

    def place(at, first):
        k = delinearize(dim(len(at)), shape, len(at) + 1)
        index = [w.place(dim(lead + i), k[i]) for i, w in enumerate(windows)]
        places = c.apply(index, [*at, first])
        inside = [w.first_inside(c, p) if w.padding else p for p, w in zip(places, windows)]
        return c.apply([linearize(dims(rank), sizes[lead:])], inside)[0]

    return largest(c, dtype, shape, elements, place)


@rule("aten.max_pool2d_with_indices_backward.default")
def max_pool2d_backward(c, grad, x, kernel, stride, padding, dilation, ceil_mode, indices):
    return max_pool_backward(c, grad, indices, windows_of_grad(c, grad, kernel, stride, padding, dilation, 2))


@rule("aten.max_pool3d_with_indices_backward.default")
def max_pool3d_backward(c, grad, x, kernel, stride, padding, dilation, ceil_mode, indices):
    return max_pool_backward(c, grad, indices, windows_of_grad(c, grad, kernel, stride, padding, dilation, 3))


def windows_of_grad(c, grad, kernel, stride, padding, dilation, rank: int) -> list[Windows]:
    return windows_of(c.result_sizes[0], shape_of(grad), kernel, stride, padding, dilation, rank)


def sum_over_windows(
    c: Conversion, windows: Sequence, cover: Sequence[Expr | int], covering, covers, value: Callable
) -> ir.Value:
    """Each element of the input: the sum of `value(window index, element index)` over the windows that hold it."""
    rank = len(windows)
    dtype = dtype_of_result(c)
    inner, lead = opmath(dtype), len(c.result_sizes[0]) - rank

    def body(at):
        def term(numbers):
            index = [covering(w, dim(lead + i), dim(lead + rank + i)) for i, w in enumerate(windows)]
            chosen = c.apply(index, [*at, *numbers])
            guards = [g for w, o, p in zip(windows, chosen, at[lead:]) for g in covers(c, w, o, p)]
            return value_where(guards, inner, lambda: value([*at[:lead], *chosen], at))

        (total,) = builders.reduce("sum", cover, scalar_type(inner), term)
        return finish(c, Scalar(total, inner), dtype)

    return c.compute(body)


def sliding_sum(c: Conversion, windows: Sequence[Windows], value: Callable) -> ir.Value:
    return sum_over_windows(
        c,
        windows,
        [w.cover for w in windows],
        lambda w, place, number: w.covering(place, number),
        lambda c, w, window, place: w.covers(c, window, place),
        value,
    )


def where_chosen(c: Conversion, grad: ir.Value, indices: ir.Value, rank: int) -> Callable:
    """The gradient of a window where the element at hand is the one that it chose."""
    sizes = c.result_sizes[0][-rank:]

    def value(window, at):
        own = c.apply([linearize(dims(rank), sizes)], at[-rank:])[0]
        chosen = compare("eq", as_index(builders.read(indices, window)), own)
        gradient = read(grad, window)
        return Scalar(arith.SelectOp(chosen, gradient.value, gradient.like(0).value).result, gradient.dtype)

    return value


def max_pool_backward(c: Conversion, grad: ir.Value, indices: ir.Value, windows: Sequence[Windows]) -> ir.Value:
    return sliding_sum(c, windows, where_chosen(c, grad, indices, len(windows)))


# -- average ----------------------------------------------------------------------------------------------------------------


@rule("aten.avg_pool2d.default")
def avg_pool2d(c, x, kernel, stride=(), padding=(0,), ceil_mode=False, count_include_pad=True, divisor_override=None):
    return avg_pool(c, x, kernel, stride, padding, count_include_pad, divisor_override, 2)


@rule("aten.avg_pool3d.default")
def avg_pool3d(c, x, kernel, stride=(), padding=(0,), ceil_mode=False, count_include_pad=True, divisor_override=None):
    return avg_pool(c, x, kernel, stride, padding, count_include_pad, divisor_override, 3)


def divisor(
    c: Conversion, windows: Sequence[Windows], at: Sequence[ir.Value], include_pad: bool, override
) -> ir.Value | int:
    """How many elements the average over window `at` counts, as an index or a number."""
    if override is not None:
        return override
    count: ir.Value | int = 1
    for w, o in zip(windows, at):
        last = known((w.count - 1) * w.stride + w.kernel - w.padding - w.size)
        # Without `include_pad` elements outside the input do not count, with it those beyond the border do not.
        border = w.padding if include_pad else 0
        if last is not None and last <= border and (include_pad or not w.padding):
            factor: ir.Value | int = w.kernel
        else:
            start, end = c.apply([dim(0) * w.stride - w.padding, dim(0) * w.stride - w.padding + w.kernel], [o])
            end = arith.MinSIOp(end, extent(c, w.size + border)).result
            start = start if include_pad else arith.MaxSIOp(start, extent(c, 0)).result
            factor = arith.SubIOp(end, start).result
        count = product(c, count, factor)
    return count


def product(c: Conversion, a: ir.Value | int, b: ir.Value | int) -> ir.Value | int:
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    a, b = (extent(c, x) if isinstance(x, int) else x for x in (a, b))
    return arith.MulIOp(a, b).result


def divided(total: Scalar, count: ir.Value | int) -> Scalar:
    """`total / count`; integers are rounded towards zero."""
    by = total.like(count) if isinstance(count, int) else Scalar(as_integer(count), torch.int64).to(total.dtype)
    return total / by if total.dtype.is_floating_point else total.quotient(by)


def avg_pool(c: Conversion, x: ir.Value, kernel, stride, padding, include_pad, override, rank: int) -> ir.Value:
    sizes, dtype = shape_of(x), tensor_dtype(x)
    if not dtype.is_floating_point and dtype != torch.int64:
        raise LeftToAten("ATen refuses whole numbers of other than 64 bits")
    windows = windows_of(sizes, c.result_sizes[0], kernel, stride, padding, [1], rank)
    lead, inner = len(sizes) - rank, opmath(dtype)
    return average(
        c,
        dtype,
        [w.kernel for w in windows],
        lambda at: lambda k: element(c, x, windows, at, k, inner, 0),
        lambda at: divisor(c, windows, at[lead:], include_pad, override),
    )


def average(
    c: Conversion,
    dtype: torch.dtype,
    sizes: Sequence[Expr | int],
    elements: Elements,
    count: Callable[[list[ir.Value]], ir.Value | int],
) -> ir.Value:
    """The sums of windows of `sizes` by the `count` of what each has. `elements` are in the dtype that those of `dtype` are computed in."""
    inner = opmath(dtype)

    def body(at):
        (total,) = builders.reduce("sum", sizes, scalar_type(inner), elements(at))
        return finish(c, divided(Scalar(total, inner), count(at)), dtype)

    return c.compute(body)


@rule("aten.avg_pool2d_backward.default")
def avg_pool2d_backward(c, grad, x, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override):
    return avg_pool_backward(c, grad, kernel, stride, padding, count_include_pad, divisor_override, 2)


@rule("aten.avg_pool3d_backward.default")
def avg_pool3d_backward(c, grad, x, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override):
    return avg_pool_backward(c, grad, kernel, stride, padding, count_include_pad, divisor_override, 3)


def avg_pool_backward(
    c: Conversion, grad: ir.Value, kernel, stride, padding, include_pad, override, rank: int
) -> ir.Value:
    windows = windows_of_grad(c, grad, kernel, stride, padding, [1], rank)
    inner = opmath(tensor_dtype(grad))

    def value(window, at):
        count = divisor(c, windows, window[-rank:], include_pad, override)
        return divided(read(grad, window).to(inner), count)

    return sliding_sum(c, windows, value)

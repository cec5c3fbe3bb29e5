"""Windows laid out as columns, and columns added up again: im2col, col2im, the backward of `Tensor.unfold`."""

from bascule.dialect.ir import builders
from bascule.dialect.ir.shapes import shape_of

from ...conversion.index_maps import Expr, delinearize, dim, dims, linearize
from ...conversion.registry import rule
from ..shape.views import wrap_dim
from ..support.index_values import both, compare, extent, when
from ..support.operands import finish, floats_only, read, tensor_dtype
from ..support.requirements import require_window
from ..support.scalars import Scalar, opmath, scalar_type
from .pooling import Windows, value_where, windows_of


def image_windows(sizes, kernel, dilation, padding, stride) -> list[Windows]:
    """The windows along the last two dimensions of an image of `sizes`."""
    for each in zip(kernel, stride, padding, dilation):
        require_window(*each)
    counts = [
        Expr.get_floor_div(size + (2 * p - d * (k - 1) - 1), s) + 1
        for size, k, d, p, s in zip(sizes[-2:], kernel, dilation, padding, stride)
    ]
    return windows_of(sizes, counts, kernel, stride, padding, dilation, 2)


@rule("aten.im2col.default")
@floats_only
def im2col(c, x, kernel, dilation, padding, stride):
    """[batch, channel * kernel, window] of an image [batch, channel, row, column]; zeros outside it."""
    sizes, dtype = shape_of(x), tensor_dtype(x)
    windows = image_windows(sizes, kernel, dilation, padding, stride)
    lead = len(sizes) - 3
    channel, *inside = delinearize(dim(lead), [sizes[lead], *kernel], lead + 2)
    window = delinearize(dim(lead + 1), [w.count for w in windows], lead + 2)
    index = [*dims(lead), channel, *(w.place(o, k) for w, o, k in zip(windows, window, inside))]

    def body(at):
        places = c.apply(index, at)
        guards = [g for w, place in zip(windows, places[-2:]) for g in w.guards(c, place)]
        return when(
            both(guards),
            scalar_type(dtype),
            lambda: builders.read(x, places),
            lambda: Scalar.constant(0, dtype).value,
        )

    return c.compute(body)


@rule("aten.col2im.default")
def col2im(c, x, output_size, kernel, dilation, padding, stride):
    """Each element of the image: the sum over the elements of columns that show it."""
    sizes, dtype = c.result_sizes[0], tensor_dtype(x)
    windows = image_windows(sizes, kernel, dilation, padding, stride)
    lead, inner = len(sizes) - 3, opmath(dtype)
    # Element `k` of a window shows `place` if place + padding - k * dilation is a multiple of the stride.
    starts = [dim(lead + 1 + i) + w.padding - dim(lead + 3 + i) * w.dilation for i, w in enumerate(windows)]
    chosen = [Expr.get_floor_div(start, w.stride) for start, w in zip(starts, windows)]
    row = linearize([dim(lead), dim(lead + 3), dim(lead + 4)], [sizes[lead], *kernel])
    column = linearize(chosen, [w.count for w in windows])

    def body(at):
        def term(k):
            guards = []
            for start, w, window in zip(starts, windows, c.apply(chosen, [*at, *k])):
                guards += [compare("ge", window, 0), compare("lt", window, extent(c, w.count))]
                if w.stride != 1:
                    guards.append(compare("eq", c.apply([Expr.get_mod(start, w.stride)], [*at, *k])[0], 0))
            return value_where(guards, inner, lambda: read(x, c.apply([*dims(lead), row, column], [*at, *k])))

        (total,) = builders.reduce("sum", kernel, scalar_type(inner), term)
        return finish(c, Scalar(total, inner), dtype)

    return c.compute(body)


@rule("aten.unfold_backward.default")
def unfold_backward(c, grad, input_sizes, number, size, step):
    """Each place: the sum over the windows that hold it, the last of them first."""
    sizes, dtype = c.result_sizes[0], tensor_dtype(grad)
    rank = len(sizes)
    if rank == 0:
        return c.compute(lambda at: builders.read(grad, [extent(c, 0)]))
    number, inner = wrap_dim(number, rank), opmath(dtype)
    windows = Windows(sizes[number], shape_of(grad)[number], size, step, 0, 1)

    def body(at):
        def term(k):
            (window,) = c.apply([windows.covering(dim(0), dim(1))], [at[number], *k])
            (inside,) = c.apply([dim(0) - dim(1) * step], [at[number], window])
            guards = windows.covers(c, window, at[number])
            return value_where(guards, inner, lambda: read(grad, [*at[:number], window, *at[number + 1 :], inside]))

        (total,) = builders.reduce("sum", [windows.cover], scalar_type(inner), term)
        return finish(c, Scalar(total, inner), dtype)

    return c.compute(body)

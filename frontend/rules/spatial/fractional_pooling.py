"""Fractional max pooling: windows of one size, whose starts a number drawn for each channel spreads over the input.

Start `o` of `count` is trunc((o + u) alpha) - trunc(u alpha), alpha = (size - window) / (count - 1), and the last one is size - window (Graham,
"Fractional Max-Pooling", 2014, as PyTorch has it). Of static sizes.
"""

from collections.abc import Callable, Sequence

import torch
from bascule.dialect.ir import builders
from bascule.dialect.ir.shapes import constant as known
from bascule.dialect.ir.shapes import shape_of
from bascule.dialect.mlir import ir

from ...conversion.context import Conversion
from ...conversion.index_maps import delinearize, dim, linearize
from ...conversion.registry import NoRule, rule
from ..index.scatter import filled, scattered
from ..support.index_values import as_index, as_integer, choose, clamped, compare
from ..support.operands import index_constant, read, tensor_dtype
from ..support.scalars import Scalar
from .pooling import largest

# A point of the result -> where its window starts in each pooled dimension.
Starts = Callable[[Sequence[ir.Value]], list[ir.Value]]


def starts_of(c: Conversion, x: ir.Value, samples: ir.Value, window: Sequence[int], order: Sequence[int]) -> Starts:
    """`order`: which of a channel's numbers belongs to which pooled dimension."""
    rank, dtype = len(window), tensor_dtype(x)
    sizes, counts = ([known(e) for e in s[-rank:]] for s in (shape_of(x), c.result_sizes[0]))
    if None in sizes + counts:
        raise NoRule("a fractional pooling of dynamic sizes")
    if dtype not in (torch.float32, torch.float64):
        raise NoRule(f"a fractional pooling of {dtype}, which rounds the places of windows")

    def start(number: int, at: Sequence[ir.Value], o: ir.Value, size: int, count: int, length: int) -> ir.Value:
        last = index_constant(size - length)
        if count == 1:
            return last
        channel = at[:-rank] if len(at) == rank + 2 else [index_constant(0), *at[:-rank]]
        u = read(samples, [*channel, index_constant(number)])
        alpha = (torch.tensor(size - length, dtype=dtype) / (count - 1)).item()
        place = Scalar(as_integer(o), torch.int64).to(dtype)
        first = ((place + u) * alpha).to(torch.int64) - (u * alpha).to(torch.int64)
        return choose(compare("eq", o, count - 1), last, clamped(as_index(first.value), last))

    return lambda at: [
        start(order[i], at, at[i - rank], size, count, length)
        for i, (size, count, length) in enumerate(zip(sizes, counts, window))
    ]


def fractional_max(
    c: Conversion, x: ir.Value, window: Sequence[int], samples: ir.Value, order: Sequence[int]
) -> list[ir.Value]:
    rank = len(window)
    starts, sizes = starts_of(c, x, samples, window, order), shape_of(x)[-rank:]

    def places(first, k):
        return [c.apply([dim(0) + dim(1)], [s, i])[0] for s, i in zip(first, k)]

    def elements(at):
        first = starts(at)
        return lambda k: read(x, [*at[:-rank], *places(first, k)]).value

    def place(at, chosen):
        k = c.apply(delinearize(dim(0), window, 1), [chosen])
        return c.apply([linearize([dim(i) for i in range(rank)], sizes)], places(starts(at), k))[0]

    return largest(c, tensor_dtype(x), window, elements, place)


def fractional_max_backward(c: Conversion, grad: ir.Value, indices: ir.Value, rank: int) -> ir.Value:
    """Each window's gradient is added at the element that it chose."""
    pooled = c.result_sizes[0][-rank:]

    def write(at):
        last = c.apply([linearize([size - 1 for size in pooled], pooled)], [])[0]
        place = clamped(as_index(builders.read(indices, at)), last)
        return [*at[:-rank], *c.apply(delinearize(dim(0), pooled, 1), [place])], read(grad, at)

    return scattered(c, filled(c, 0), shape_of(grad), write, "add")


@rule("aten.fractional_max_pool2d.default")
def fractional_max_pool2d(c, x, window, counts, samples):
    return fractional_max(c, x, window, samples, (1, 0))


@rule("aten.fractional_max_pool3d.default")
def fractional_max_pool3d(c, x, window, counts, samples):
    return fractional_max(c, x, window, samples, (0, 1, 2))


@rule("aten.fractional_max_pool2d_backward.default")
def fractional_max_pool2d_backward(c, grad, x, window, counts, indices):
    return fractional_max_backward(c, grad, indices, 2)


@rule("aten.fractional_max_pool3d_backward.default")
def fractional_max_pool3d_backward(c, grad, x, window, counts, indices):
    return fractional_max_backward(c, grad, indices, 3)

"""The values that an affine expression takes over a box of indices."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, product
from math import prod

from ...mlir import ir

TRIED = 4096  # points of a box that are looked at, one by one


def outside(map_: ir.AffineMap, sizes: Sequence[int], limits: Sequence[int]) -> tuple[tuple[int, ...], int, int] | None:
    """A point of the box `sizes` at which a result of `map_`, which takes no symbols, is not in [0, its limit): the point, which result, and
    its value there. None where there is no such point, or none among the corners and the first points of a box."""
    if not prod(sizes):
        return None
    doubtful = []
    for number, (expr, limit) in enumerate(zip(map_.results, limits)):
        low, high = interval(expr, sizes)
        if low < 0 or high >= limit:
            doubtful.append((number, expr, limit))
    for point in _points(sizes) if doubtful else ():
        at = ir.AffineMap.get(0, 0, [ir.AffineConstantExpr.get(i) for i in point])
        for number, expr, limit in doubtful:
            value = ir.AffineMap.get(len(sizes), 0, [expr]).results[0].compose(at).maybe_downcast()
            if isinstance(value, ir.AffineConstantExpr) and not 0 <= value.value < limit:
                return point, number, value.value
    return None


def _points(sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Corners first: a strided expression is largest and smallest there."""
    yield from islice(product(*({0, size - 1} for size in sizes)), TRIED)
    yield from islice(product(*(range(size) for size in sizes)), TRIED)


def interval(expr: ir.AffineExpr, sizes: Sequence[int] | Mapping[int, int]) -> tuple[float, float]:
    """Numbers between which all values of `expr` over the box lie; those that take them may be in between."""
    expr = expr.maybe_downcast()
    if isinstance(expr, ir.AffineConstantExpr):
        return expr.value, expr.value
    if isinstance(expr, ir.AffineDimExpr):
        return 0, sizes[expr.position] - 1
    if not isinstance(expr, ir.AffineBinaryExpr):
        return -float("inf"), float("inf")
    (a, b), (c, d) = interval(expr.lhs, sizes), interval(expr.rhs, sizes)
    if isinstance(expr, ir.AffineAddExpr):
        return a + c, b + d
    if c != d or c in (-float("inf"), float("inf")):
        return -float("inf"), float("inf")
    if isinstance(expr, ir.AffineMulExpr):
        return min(a * c, b * c), max(a * c, b * c)
    if c <= 0:
        return -float("inf"), float("inf")
    if isinstance(expr, ir.AffineModExpr):
        return (a, b) if a >= 0 and b < c else (0, c - 1)
    return (a // c, b // c) if isinstance(expr, ir.AffineFloorDivExpr) else (-(-a // c), -(-b // c))

"""Sizes and strides as sums of products of symbols: what a launcher computes from a kernel's parameters."""

from collections.abc import Sequence
from math import gcd
from typing import TypeAlias

from ...ir.shapes import Size, expr
from ...mlir import ir

Term: TypeAlias = tuple[int, ...]  # a factor, then the numbers of the symbols that it is multiplied by


def terms_of(size: Size) -> list[Term] | None:
    """`size` as terms to be added; None where there is a quotient or a remainder in it."""
    e = expr(size)
    if isinstance(e, ir.AffineConstantExpr):
        return [(e.value,)]
    if isinstance(e, ir.AffineSymbolExpr):
        return [(1, e.position)]
    if not isinstance(e, ir.AffineAddExpr | ir.AffineMulExpr):
        return None
    left, right = terms_of(e.lhs), terms_of(e.rhs)
    if left is None or right is None:
        return None
    if isinstance(e, ir.AffineAddExpr):
        return left + right
    return [(one[0] * other[0], *one[1:], *other[1:]) for one in left for other in right]


def divisor(terms: Sequence[Term]) -> int:
    """The largest number that is known to divide the sum of `terms`."""
    return gcd(*(factor for factor, *_ in terms))

"""Sizes where nothing is known of symbols: only an order, or what is allocated apart, may depend on them."""

from collections.abc import Callable, Sequence

from ...ir.shapes import constant, expr, symbol_count
from ...mlir import ir
from .buffers import substitute

# Assumed of every symbol, the next where a number would divide by zero: `s - 64`, `s - 8`, `s // 100`, `s // 5000` may be divisors.
SYMBOLS = (64, 8, 1, 1 << 12, 1 << 20)


def number_of(size: ir.AffineExpr, symbol: Callable[[int], int]) -> int | None:
    """`size` with a number for each symbol, by its position; None where that divides by zero."""
    return constant(substitute(size, [], [expr(symbol(k)) for k in range(symbol_count([size]))]))


def assumed(size: ir.AffineExpr, symbols: Sequence[int] = SYMBOLS) -> int:
    """`size` with the same number for each symbol: the first of `symbols` that does not divide by zero; 0 where each does, as by `s - t`."""
    known = (number_of(size, lambda _, number=number: number) for number in symbols)  # type: ignore[misc]
    return next((size for size in known if size is not None), 0)

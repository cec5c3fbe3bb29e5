"""Affine maps evaluated on numbers or on tensors of indices."""

from collections.abc import Sequence
from typing import Any

import torch

from ..mlir import ir


def evaluate(expr: ir.AffineExpr, dims: Sequence[Any], symbols: Sequence[Any]) -> Any:
    """The value of `expr` where dimension K is `dims[K]` and symbol K is `symbols[K]`, ints or int64 tensors.

    Raises ZeroDivisionError where a divisor is zero.
    """
    if isinstance(expr, ir.AffineConstantExpr):
        return expr.value
    if isinstance(expr, ir.AffineDimExpr):
        return dims[expr.position]
    if isinstance(expr, ir.AffineSymbolExpr):
        return symbols[expr.position]
    left, right = evaluate(expr.lhs, dims, symbols), evaluate(expr.rhs, dims, symbols)
    if isinstance(expr, ir.AffineAddExpr):
        return left + right
    if isinstance(expr, ir.AffineMulExpr):
        return left * right
    if isinstance(expr, ir.AffineFloorDivExpr):
        return floordiv(left, right)
    if isinstance(expr, ir.AffineCeilDivExpr):
        return -floordiv(-left, right)
    if isinstance(expr, ir.AffineModExpr):
        return left - right * floordiv(left, right)
    raise TypeError(f"not an affine expression: {expr}")


def floordiv(left: Any, right: Any) -> Any:
    """Quotient rounded down, of ints or tensors."""
    if not isinstance(right, torch.Tensor):
        if right == 0 and isinstance(left, torch.Tensor) and left.numel() == 0:
            return left
        return left // right
    if bool((right == 0).any()) and not (isinstance(left, torch.Tensor) and left.numel() == 0):
        raise ZeroDivisionError("affine division by zero")
    return torch.div(left, torch.where(right == 0, 1, right), rounding_mode="floor")


def sizes(map_: ir.AffineMap, symbols: Sequence[int]) -> list[int]:
    """The results of a map of symbols only."""
    return [int(evaluate(result, (), symbols)) for result in map_.results]

"""Affine expressions of a graph's symbols as Python text."""

from collections.abc import Sequence

from bascule.dialect.mlir import ir


def python_of(e: ir.AffineExpr | int, symbols: Sequence[str]) -> str:
    """`e` over the symbols' names, with as few brackets as Python needs."""
    return _text(e, symbols)[0]


def sizes_of(exprs: Sequence[ir.AffineExpr], symbols: Sequence[str]) -> str:
    """A tuple: `(s0, 32)`, `(4,)`, `()`."""
    parts = [python_of(e, symbols) for e in exprs]
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


_ATOM, _PRODUCT, _SUM = 0, 1, 2  # what a text is, by how weakly it binds


def _text(e: ir.AffineExpr | int, symbols: Sequence[str]) -> tuple[str, int]:
    e = e if isinstance(e, int) else e.maybe_downcast()
    if isinstance(e, int | ir.AffineConstantExpr):
        value = e if isinstance(e, int) else e.value
        return str(value), _ATOM if value >= 0 else _SUM
    if isinstance(e, ir.AffineSymbolExpr):
        return symbols[e.position], _ATOM
    (lhs, left), (rhs, right) = _text(e.lhs, symbols), _text(e.rhs, symbols)
    if isinstance(e, ir.AffineAddExpr):
        negated = _negated(e.rhs.maybe_downcast(), symbols)
        return f"{lhs} + {rhs}" if negated is None else f"{lhs} - {negated}", _SUM
    lhs = f"({lhs})" if left == _SUM else lhs
    if isinstance(e, ir.AffineCeilDivExpr):
        return f"-(-{lhs if left == _ATOM else f'({lhs})'} // {rhs if right == _ATOM else f'({rhs})'})", _ATOM
    if isinstance(e, ir.AffineMulExpr):
        lhs = f"({lhs})" if "//" in lhs or "%" in lhs else lhs
        return f"{lhs} * {rhs if right == _ATOM else f'({rhs})'}", _PRODUCT
    operator = "//" if isinstance(e, ir.AffineFloorDivExpr) else "%"
    return f"{lhs} {operator} {rhs if right == _ATOM else f'({rhs})'}", _PRODUCT


def _negated(e: ir.AffineExpr, symbols: Sequence[str]) -> str | None:
    """The text to subtract where `e`, a negative constant or a product with one, is added; None for another `e`."""
    if isinstance(e, ir.AffineConstantExpr):
        return str(-e.value) if e.value < 0 else None
    if isinstance(e, ir.AffineMulExpr):
        factor = e.rhs.maybe_downcast()
        if isinstance(factor, ir.AffineConstantExpr) and factor.value < 0:
            text, binds = _text(e.lhs if factor.value == -1 else e.lhs * -factor.value, symbols)
            return f"({text})" if binds == _SUM else text
    return None

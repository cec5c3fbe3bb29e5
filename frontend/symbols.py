"""Symbolic integers of a graph (sympy) as affine expressions over the function's symbols, and where a symbol's value is found."""

from collections.abc import Callable, Iterable, Sequence

import sympy
import torch
from bascule.dialect.errors import UnsupportedError
from bascule.dialect.ir.shapes import Size
from bascule.dialect.mlir import ir
from torch.utils._sympy import functions as torch_sympy

Expr = ir.AffineExpr


def _floor_div(base: Expr, divisor: Expr) -> Expr:
    return Expr.get_floor_div(base, divisor)


# sympy function -> its affine form. `mod` is of a non-negative number here: sizes are.
_FUNCTIONS: dict[type, Callable[..., Expr]] = {
    torch_sympy.FloorDiv: _floor_div,
    torch_sympy.CleanDiv: _floor_div,
    torch_sympy.IntTrueDiv: None,
    torch_sympy.CeilToInt: None,
    torch_sympy.Mod: Expr.get_mod,
    torch_sympy.PythonMod: Expr.get_mod,
    sympy.Mod: Expr.get_mod,
    torch_sympy.ModularIndexing: lambda base, divisor, modulus: Expr.get_mod(_floor_div(base, divisor), modulus),
    torch_sympy.CeilDiv: Expr.get_ceil_div,
    torch_sympy.Identity: lambda x: x,
}

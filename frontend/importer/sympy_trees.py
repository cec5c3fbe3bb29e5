"""Sizes that are no affine expressions of symbols, `Max(s0, s1)` for example, as trees of operators (`dialect/ir/computed_symbols.py`)."""

from collections.abc import Callable
from functools import reduce

import sympy
from bascule.dialect.errors import UnsupportedError
from bascule.dialect.ir.computed_symbols import FUNCTIONS, Tree, leaf_of, tree_of
from bascule.dialect.mlir import ir
from sympy.core.relational import Relational
from sympy.logic.boolalg import BooleanFunction

from bascule.compat.graphs.symbolic_shapes import functions as sizes

OPERATORS = {
    sizes.Max: "max",
    sizes.Min: "min",
    sympy.Max: "max",
    sympy.Min: "min",
    sizes.FloorDiv: "floordiv",
    sizes.CleanDiv: "floordiv",
    sizes.Mod: "mod",
    sizes.PythonMod: "mod",
    sympy.Mod: "mod",
    sizes.IntTrueDiv: "truediv",
    sizes.FloatTrueDiv: "truediv",
    sizes.ToFloat: "float",
    sympy.Abs: "abs",
    sizes.FloorToInt: "floor",
    sizes.CeilToInt: "ceil",
    sizes.TruncToInt: "trunc",
    sizes.RoundToInt: "round",
    sizes.RoundDecimal: "rounddigits",
    sizes.FloatPow: "pow",
    sizes.PowByNatural: "pow",
    sympy.Pow: "pow",
    sizes.LShift: "shl",
    sizes.RShift: "shr",
    sympy.Add: "add",
    sympy.Mul: "mul",
    sympy.Eq: "eq",
    sympy.Ne: "ne",
    sympy.Lt: "lt",
    sympy.Le: "le",
    sympy.Gt: "gt",
    sympy.Ge: "ge",
    sympy.Not: "not",
    sympy.And: "min",
    sympy.Or: "max",
    sizes.Where: "select",
}
_BY_NAME = {f"OpaqueUnaryFn_{name}": name for name in FUNCTIONS} | {
    "BitwiseFn_bitwise_and": "bitand",
    "BitwiseFn_bitwise_or": "bitor",
    "BitwiseFn_bitwise_xor": "bitxor",
}
_REMAINDERS = (sizes.Mod, sizes.PythonMod, sympy.Mod)
_TWO_AT_A_TIME = ("add", "mul", "max", "min")


def is_condition(found: sympy.Basic) -> bool:
    """Whether `found` is true or false. (A symbol of sympy's is an instance of `Boolean` too.)"""
    return isinstance(found, Relational | BooleanFunction)


def is_whole(found: sympy.Basic) -> bool:
    """Whether `found` is an integer. PyTorch's remainders say so of those of floats too, `Mod(s0 / 2, 3.0)`."""
    return bool(found.is_integer) and all(part.is_integer for rest in found.atoms(*_REMAINDERS) for part in rest.args)


def tree_for(found: sympy.Basic, affine: Callable[[sympy.Basic], ir.AffineExpr | int]) -> Tree:
    """How `found` is computed from integers, which `affine` gives as expressions of symbols.

    Raises `UnsupportedError` where it is not known how.
    """
    if isinstance(found, sympy.Piecewise):
        *cases, (last, _) = found.args
        tree = _operand(last, affine)
        for value, condition in reversed(cases):
            tree = tree_of("select", _operand(condition, affine), _operand(value, affine), tree)
        return tree
    if isinstance(found, sympy.Symbol):
        raise UnsupportedError(f"an integer is computed from the float {found}, which data gives")
    name = OPERATORS.get(type(found)) or _BY_NAME.get(type(found).__name__)
    if name is None:
        raise UnsupportedError(f"the number {found} is computed from sizes in a way that is not taken")
    parts = [_operand(part, affine) for part in found.args]
    return reduce(lambda a, b: tree_of(name, a, b), parts) if name in _TWO_AT_A_TIME else tree_of(name, *parts)


def _operand(found: sympy.Basic, affine: Callable[[sympy.Basic], ir.AffineExpr | int]) -> Tree:
    if is_condition(found) or (is_whole(found) and not isinstance(found, sizes.ToFloat)):
        return leaf_of(affine(found))
    return leaf_of(float(found)) if found.is_number else tree_for(found, affine)

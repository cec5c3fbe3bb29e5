"""Symbols that are computed from symbols before them, where no affine expression says how: `max(s0, s1)`.

In `bascule.symbol_sources` such a symbol is `{kind = "computed", value = tree}`. A tree is `affine_map<()[s0] -> (..)>` (an integer), a float,
or a list of an operator's name, one of `OPERATORS`, and its operands.
"""

import math
from collections.abc import Callable, Sequence
from string import Formatter
from typing import TypeAlias

from ..mlir import ir
from .shapes import size_map

Tree: TypeAlias = ir.ArrayAttr | ir.AffineMapAttr | ir.FloatAttr

# Operator -> its Python text, of operands in parentheses. A condition is 0 or 1; the module `math` is there.
OPERATORS = {
    "add": "({} + {})",
    "mul": "({} * {})",
    "pow": "({} ** {})",
    "truediv": "({} / {})",
    "floordiv": "({} // {})",
    "mod": "({} % {})",
    "max": "max({}, {})",
    "min": "min({}, {})",
    "float": "float({})",
    "abs": "abs({})",
    "floor": "math.floor({})",
    "ceil": "math.ceil({})",
    "trunc": "math.trunc({})",
    "round": "round({})",
    "rounddigits": "round({}, {})",
    "shl": "({} << {})",
    "shr": "({} >> {})",
    "bitand": "({} & {})",
    "bitor": "({} | {})",
    "bitxor": "({} ^ {})",
    "eq": "int({} == {})",
    "ne": "int({} != {})",
    "lt": "int({} < {})",
    "le": "int({} <= {})",
    "gt": "int({} > {})",
    "ge": "int({} >= {})",
    "not": "int(not {})",
    "select": "({1} if {0} else {2})",
}
FUNCTIONS = ("sqrt", "log2", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh")
OPERATORS |= {name: f"math.{name}({{}})" for name in FUNCTIONS}


def tree_of(operator: str, *operands: Tree) -> ir.ArrayAttr:
    """`operator` of trees."""
    return ir.ArrayAttr.get([ir.StringAttr.get(operator), *operands])


def leaf_of(value: ir.AffineExpr | int | float) -> Tree:
    """An integer expression of the symbols, or a number, as a tree."""
    return ir.FloatAttr.get_f64(value) if isinstance(value, float) else ir.AffineMapAttr.get(size_map([value]))


def complaint(tree: ir.Attribute, symbols: int) -> str | None:
    """Tells what of `tree` is none, or reads more than `symbols` symbols."""
    if isinstance(tree, ir.FloatAttr):
        return None
    if isinstance(tree, ir.AffineMapAttr):
        known = (tree.value.n_dims, len(tree.value.results)) == (0, 1) and tree.value.n_symbols <= symbols
        return None if known else f"where {tree} is no expression of the {symbols} symbols before it"
    operator = tree[0] if isinstance(tree, ir.ArrayAttr) and len(tree) else None
    text = OPERATORS.get(operator.value) if isinstance(operator, ir.StringAttr) else None
    if text is None or len(tree) - 1 != _operands(text):
        return f"where {tree} is no operator with its operands"
    return next(filter(None, (complaint(operand, symbols) for operand in list(tree)[1:])), None)


def _operands(text: str) -> int:
    """How many operands the text of an operator has."""
    return sum(field is not None for _, field, _, _ in Formatter().parse(text))


def python_text(tree: ir.Attribute, text_of: Callable[[ir.AffineExpr], str]) -> str:
    """The tree as a Python expression; `text_of` gives that of an affine expression."""
    match tree:
        case ir.AffineMapAttr():
            text = text_of(tree.value.results[0])
            return text if text.isalnum() else f"({text})"
        case ir.FloatAttr():
            return f"({tree.value!r})" if math.isfinite(tree.value) else f'float("{tree.value}")'
    operator, *operands = tree
    return OPERATORS[operator.value].format(*(python_text(operand, text_of) for operand in operands))


def computed_value(tree: ir.Attribute, evaluate: Callable[[ir.AffineExpr], int]) -> int:
    """The tree's value; `evaluate` gives that of an affine expression."""
    match tree:
        case ir.AffineMapAttr():
            return evaluate(tree.value.results[0])
        case ir.FloatAttr():
            return tree.value
    operator, *operands = tree
    values = {f"x{i}": computed_value(operand, evaluate) for i, operand in enumerate(operands)}
    names: Sequence[str] = list(values)
    return eval(OPERATORS[operator.value].format(*names), {"math": math}, values)

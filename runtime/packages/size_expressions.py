"""Expressions of sizes, as PyTorch prints those of symbols: arithmetic, comparisons, a few functions. They are parsed, and nothing else in them
runs."""

import ast
import math
import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from bascule.compat.graphs.printed_sizes import SQRT

Evaluate = Callable[[Mapping[str, int]], Any]

_BINARY: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_UNARY: dict[type[ast.AST], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
    ast.Invert: operator.invert,
}
_MATH = ("floor", "ceil", "trunc", "sqrt", "log2", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh")
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{function.__name__: function for function in (abs, max, min, round, int, float)},
    **{f"math.{name}": getattr(math, name) for name in _MATH},
    "torch.sym_float": float,
    SQRT: math.sqrt,
}
_CONSTANTS = {"math.inf": math.inf, "math.nan": math.nan}


@lru_cache(maxsize=4096)
def parsed(text: str) -> Evaluate:
    """The value of `text`, of what its symbols are. Raises `ValueError` for anything but arithmetic."""
    try:
        return _evaluate(ast.parse(text, mode="eval").body)
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(f"'{text[:80]}' is no expression of sizes") from error


def value_of(expression: int | str, symbols: Mapping[str, int]) -> Any:
    """A number, or the value of an expression of `symbols`."""
    return expression if isinstance(expression, int) else parsed(expression)(symbols)


def symbol_of(found: int, scale: int, offset: int) -> int:
    """The symbol where `found` is `scale` * symbol + `offset`, as `dialect/ir/symbol_sources.py` has it: the runtime is without the dialect."""
    return (found - offset) // scale


def _evaluate(node: ast.expr) -> Evaluate:
    match node:
        case ast.Constant(value=bool() | int() | float() as value):
            return lambda symbols: value
        case ast.Name(id=name):
            return lambda symbols: symbols[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _binary(_BINARY[type(op)], left, right)
        case ast.UnaryOp(op=op, operand=operand):
            apply, of = _UNARY[type(op)], _evaluate(operand)
            return lambda symbols: apply(of(symbols))
        case ast.Compare(left=left, ops=ops, comparators=others) if all(type(op) in _BINARY for op in ops):
            pairs = zip(ops, [left, *others], others)
            return _all([_binary(_BINARY[type(op)], one, other) for op, one, other in pairs])
        case ast.BoolOp(op=op, values=values):
            terms = [_evaluate(value) for value in values]
            return _all(terms) if isinstance(op, ast.And) else lambda symbols: any(term(symbols) for term in terms)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            condition, yes, no = _evaluate(test), _evaluate(body), _evaluate(orelse)
            return lambda symbols: yes(symbols) if condition(symbols) else no(symbols)
        case ast.Call(func=called, args=args, keywords=[]) if ast.unparse(called) in _FUNCTIONS:
            function, operands = _FUNCTIONS[ast.unparse(called)], [_evaluate(arg) for arg in args]
            return lambda symbols: function(*(operand(symbols) for operand in operands))
        case ast.Attribute() if ast.unparse(node) in _CONSTANTS:
            constant = _CONSTANTS[ast.unparse(node)]
            return lambda symbols: constant
    raise ValueError(f"'{ast.unparse(node)[:80]}' is no arithmetic of sizes")


def _binary(apply: Callable[[Any, Any], Any], left: ast.expr, right: ast.expr) -> Evaluate:
    one, other = _evaluate(left), _evaluate(right)
    return lambda symbols: apply(one(symbols), other(symbols))


def _all(terms: list[Evaluate]) -> Evaluate:
    return lambda symbols: all(term(symbols) for term in terms)

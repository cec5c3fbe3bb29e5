"""Symbolic integers of a graph (sympy) as affine expressions over the function's symbols."""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import reduce
from typing import TypeAlias

import sympy
import torch
from bascule.dialect.errors import UnsupportedError
from bascule.dialect.ir.computed_symbols import Tree, leaf_of, tree_of
from bascule.dialect.ir.shapes import Size, expr
from bascule.dialect.mlir import ir

from bascule.compat.graphs.symbolic_shapes import ValueRanges, bound_sympy
from bascule.compat.graphs.symbolic_shapes import functions as sizes
from bascule.compat.tensors.pytree import tree_leaves

from ..fx.trace_context import hint
from .symbol_sources import Number, is_strided, named_sources, sympy_of
from .sympy_trees import is_condition, is_whole, tree_for

Expr: TypeAlias = ir.AffineExpr


class Symbols:
    """The symbols of one graph, in the order of the function's leading arguments, and expressions over them.

    First come those that the inputs give (an expression, where an input gives that and not its symbols), then those computed from them: each
    stands for an integer that is no affine expression. No symbol in an expression is ever negative: where an integer may be, it is a difference
    of two computed ones.
    """

    def __init__(self, placeholders: Sequence[object], shapes: Iterable[object] = ()):
        """`placeholders`: see `symbol_sources.py`. `shapes`: values of nodes, whose sizes PyTorch's strides are products of."""
        self.sources = named_sources(placeholders)
        self.names = [str(found) if found.is_Symbol else f"e{i}" for i, found in enumerate(self.sources)]
        self.computed: list[Tree] = []
        self.known: dict[sympy.Expr, Expr] = {}
        self.ranges = _ranges(placeholders)
        self.shapes = _shapes([*placeholders, *shapes])
        self.complete = False  # whether no further symbol may be computed: the function has its arguments
        for position, symbol in enumerate(self.sources):
            self.known[symbol] = expr(self._not_negative(symbol, Expr.get_symbol(position)))

    def attribute(self) -> ir.ArrayAttr | None:
        """`bascule.symbol_sources`; None where each symbol is a placeholder."""
        if all(source.is_exact for source in self.sources.values()) and not self.computed:
            return None
        sources = [source.attribute() for source in self.sources.values()]
        kind = ir.StringAttr.get("computed")
        return ir.ArrayAttr.get([*sources, *(ir.DictAttr.get({"kind": kind, "value": tree}) for tree in self.computed)])

    def seen(self, placeholders: Sequence[object]) -> list[int]:
        """The value of each symbol at the call that is traced, 0 where no placeholder shows it as it is."""
        numbers = (number for value in placeholders for number in _numbers(value))
        shown = {sympy_of(number): hint(number) or 0 for number in numbers if isinstance(number, torch.SymInt)}
        found = [max(0, shown.get(source, 0)) for source in self.sources]
        return found + [0] * (len(self.names) - len(found))

    def affine(self, number: Number | sympy.Expr) -> Size:
        """An integer of the graph as an int or an affine expression; a condition as 0 or 1. Raises `UnsupportedError` for an unknown symbol."""
        if isinstance(number, int):
            return number
        found = sympy_of(number) if isinstance(number, torch.SymInt | torch.SymBool) else number
        if isinstance(found, int):
            return found
        if found not in self.known:
            self.known[found] = expr(self._translate(found))
        return self.known[found]

    def stride(self, number: Number) -> Size:
        """As `affine`, of a stride, which PyTorch makes of factors `Max(1, size)`: such a factor is the size, since they differ only where a
        tensor has no elements. A size that is a `Max(1, ..)` itself, as a user wrote it, is none of these."""
        found = sympy_of(number)
        return found if isinstance(found, int) else self.affine(self._of_sizes(found))

    def _of_sizes(self, stride: sympy.Expr) -> sympy.Expr:
        """Only factors, and terms of what was multiplied out: what stands in a quotient is no size's."""
        if isinstance(stride, sympy.Add | sympy.Mul | sympy.Pow):
            return stride.func(*map(self._of_sizes, stride.args))
        if isinstance(stride, sizes.Max) and sympy.S.One in stride.args and stride not in self.shapes:
            size = _without_one(stride)
            parts = {size} if size in self.shapes else {*sympy.Mul.make_args(size)}  # of dims that a view puts together
            return size if all(part in self.shapes or part.is_Integer for part in parts) else stride
        return stride

    def _translate(self, found: sympy.Expr) -> Expr:
        match found:
            case sympy.Integer():
                return expr(int(found))
            case sympy.Symbol():
                what = (
                    "is only known when the graph runs" if str(found).startswith("u") else "is not given by any input"
                )
                raise UnsupportedError(f"the symbol {found} {what}")
            case sizes.Mod() | sizes.PythonMod() | sympy.Mod() if not is_whole(found):
                raise UnsupportedError(f"PyTorch does not say how the number {found} is rounded")
            case sympy.Add():
                return reduce(lambda a, b: a + b, map(self._expr, found.args))
            case sympy.Mul():
                return reduce(lambda a, b: a * b, map(self._expr, found.args))
            case sympy.Pow() | sizes.PowByNatural() if found.args[1].is_Integer and found.args[1] > 0:
                return reduce(lambda a, b: a * b, [self._expr(found.args[0])] * int(found.args[1]))
            case sizes.CeilDiv() if self._may_be_negative(found.args[1]):
                return self._expr(-sizes.FloorDiv(-found.args[0], found.args[1]))
            case sizes.FloorDiv() | sizes.CleanDiv() | sizes.Mod() | sizes.PythonMod() | sympy.Mod() if (
                self._may_be_negative(found.args[1])
            ):
                pass  # an affine expression's divisor is positive
            case sizes.FloorDiv() | sizes.CleanDiv():
                return Expr.get_floor_div(*map(self._expr, found.args))
            case sizes.CeilDiv():
                return Expr.get_ceil_div(*map(self._expr, found.args))
            case sizes.Mod() | sizes.PythonMod() | sympy.Mod():
                return Expr.get_mod(*map(self._expr, found.args))
            case sizes.ModularIndexing():
                base, divisor, modulus = map(self._expr, found.args)
                return Expr.get_mod(Expr.get_floor_div(base, divisor), modulus)
            case sizes.Identity():
                return self._expr(found.args[0])
            case sizes.FloorToInt() | sizes.TruncToInt() | sizes.CeilToInt():  # of a size times a number
                fraction = self._fraction(found.args[0])
                towards_zero = isinstance(found, sizes.TruncToInt) and self._may_be_negative(found.args[0])
                if fraction is not None and not towards_zero:
                    divide = Expr.get_ceil_div if isinstance(found, sizes.CeilToInt) else Expr.get_floor_div
                    return divide(fraction[0], expr(fraction[1]))
        return self._not_negative(found, self._compute(tree_for(found, self.affine)))

    def _compute(self, tree: Tree) -> Expr:
        """A new symbol, whose value is that of `tree`."""
        if self.complete:
            raise UnsupportedError("a size is not an affine expression of the graph's symbols")
        self.computed.append(tree)
        self.names.append(f"c{len(self.computed) - 1}")
        return Expr.get_symbol(len(self.names) - 1)

    def _may_be_negative(self, found: sympy.Basic) -> bool:
        return not (bound_sympy(found, self.ranges).lower >= 0)

    def _not_negative(self, found: sympy.Basic, symbol: Expr) -> Expr:
        """The value of `symbol`, which stands for `found`, in symbols that are not negative."""
        if is_condition(found) or not self._may_be_negative(found):
            return symbol
        zero = leaf_of(0)
        if bound_sympy(found, self.ranges).upper <= 0:
            return self._compute(tree_of("max", leaf_of(symbol * -1), zero)) * -1
        above, below = (self._compute(tree_of("max", leaf_of(e), zero)) for e in (symbol, symbol * -1))
        return above - below

    def _expr(self, found: sympy.Expr) -> Expr:
        return expr(self.affine(found))

    def _fraction(self, found: sympy.Expr) -> tuple[Expr, int] | None:
        """A float computed from sizes as an integer expression over a constant, where it is one exactly."""
        match found:
            case sympy.Float() | sympy.Rational():
                value = Fraction(str(found)) if isinstance(found, sympy.Rational) else Fraction(float(found))
                if value.denominator <= 1 << 20:
                    return expr(value.numerator), value.denominator
            case sizes.ToFloat():
                return self._expr(found.args[0]), 1
            case sizes.IntTrueDiv() if found.args[1].is_Integer and found.args[1] > 0:
                return self._expr(found.args[0]), int(found.args[1])
            case sympy.Mul():
                numerator, denominator = expr(1), 1
                for fraction in map(self._fraction, found.args):
                    if fraction is None:
                        return None
                    numerator, denominator = numerator * fraction[0], denominator * fraction[1]
                return numerator, denominator
        return None


_NUMBER_OPERATORS = {
    sizes.IntTrueDiv: "div",
    sizes.FloatTrueDiv: "div",
    sizes.FloatPow: "pow",
    sizes.PowByNatural: "pow",
    sympy.Pow: "pow",
    sizes.Max: "maximum",
    sizes.Min: "minimum",
    sizes.TruncToFloat: "trunc",
    sizes.Mod: "mod",
    sizes.PythonMod: "mod",
    sizes.ToFloat: "float",
}


def number_operator(found: sympy.Expr) -> tuple[str, Sequence[sympy.Expr]]:
    """The operator and operands of a number that is computed from sizes and is not an integer."""
    for kind, name in ((sympy.Add, "add"), (sympy.Mul, "mul")):
        if isinstance(found, kind):
            first, *rest = found.args
            return name, (first, kind(*rest))
    name = _NUMBER_OPERATORS.get(type(found)) or type(found).__name__.removeprefix("OpaqueUnaryFn_")
    if name != type(found).__name__:
        return name, found.args
    raise UnsupportedError(f"the number {found} is computed from sizes in a way that is not taken")


def _without_one(found: sympy.Expr) -> sympy.Expr:
    rest = [part for part in found.args if part != 1]
    return rest[0] if len(rest) == 1 else sizes.Max(*rest)


def _shapes(values: Iterable[object]) -> set[sympy.Expr]:
    """The symbolic sizes of the tensors in `values`."""
    tensors = [leaf for leaf in tree_leaves(list(values)) if isinstance(leaf, torch.Tensor)]
    return {found for x in tensors for size in x.shape if isinstance(found := sympy_of(size), sympy.Expr)}


def _ranges(values: Sequence[object]) -> dict[sympy.Symbol, ValueRanges]:
    """The ranges that are known of the symbols in `values`."""
    for value in values:
        for number in _numbers(value):
            if isinstance(number, torch.SymInt | torch.SymFloat | torch.SymBool):
                return number.node.shape_env.var_to_range
    return {}


def _numbers(value: object) -> Sequence[object]:
    """Sizes and strides of a tensor; of what is none, itself."""
    return (*value.shape, *value.stride()) if is_strided(value) else (value,)


def bounds(number: torch.SymInt | torch.SymFloat | torch.SymBool, symbol: str) -> tuple[int, int]:
    """The smallest and largest value of a symbol, as far as an int64 holds them."""
    ranges = number.node.shape_env.var_to_range
    found = next((r for s, r in ranges.items() if str(s) == symbol), None)
    limit = torch.iinfo(torch.int64).max
    if found is None:
        return 0, limit
    lower = int(found.lower) if found.lower.is_Integer else 0
    upper = int(found.upper) if found.upper.is_Integer else limit
    return lower, min(upper, limit)

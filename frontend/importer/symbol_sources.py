"""Where the value of each symbol (sympy) of a graph is found among its inputs: a size, a stride or a number, maybe scaled and moved.

An entry of `bascule.symbol_sources` is a `Source` (`dialect/ir/symbol_sources.py`); which inputs give it is decided here.
"""

from collections.abc import Sequence
from typing import TypeGuard

import sympy
import torch
from bascule.dialect.errors import UnsupportedError
from bascule.dialect.ir.symbol_sources import Source

from ..fx.trace_context import hint, known

Number = int | torch.SymInt | torch.SymBool


def sympy_of(number: Number) -> int | sympy.Expr:
    """The expression of a symbolic integer; an int for one that is constant.

    An expression that a guard fixes at 1 (`s0 // 2`) stays one to PyTorch, and yet is a size that is repeated where it meets another: here it
    is 1.
    """
    if isinstance(number, int):
        return number
    found = number.node.expr
    if found in (sympy.true, sympy.false):
        return int(bool(found))
    if found.is_Integer:
        return int(found)
    if found.args and isinstance(number, torch.SymInt) and hint(number) == 1 and known(number == 1):
        return 1
    return found


def linear(found: sympy.Expr) -> tuple[sympy.Symbol, int, int] | None:
    """(s, scale, offset) where `found` is scale * s + offset."""
    symbols = found.free_symbols
    if len(symbols) != 1:
        return None
    (symbol,) = symbols
    scale = found.coeff(symbol, 1)
    offset = found - scale * symbol
    if not (scale.is_Integer and offset.is_Integer and scale != 0):
        return None
    return symbol, int(scale), int(offset)


def symbol_sources(placeholders: Sequence[object]) -> dict[sympy.Symbol, Source]:
    """Where the value of each symbol is found among the placeholders' values: fake tensors, symbolic integers, anything else.

    Raises `UnsupportedError` for a symbol whose value no placeholder gives.
    """
    sources, unsolved = _solved(placeholders)
    missing = {str(symbol) for found in unsolved for symbol in found.free_symbols if symbol not in sources}
    if missing:
        raise UnsupportedError(f"no input gives the value of the symbol {', '.join(sorted(missing))}")
    return sources


def _solved(placeholders: Sequence[object]) -> tuple[dict[sympy.Symbol, Source], dict[sympy.Expr, Source]]:
    """The result of `symbol_sources`, and the sources of expressions that cannot be solved for a symbol."""
    sources: dict[sympy.Symbol, Source] = {}
    unsolved: dict[sympy.Expr, Source] = {}
    # an integer is the cheapest to read, a stride may be arbitrary where a size is 1
    for kind in ("value", "size", "stride"):
        for number, value in enumerate(placeholders):
            for dim, found in enumerate(_observed(value, kind)):
                solved = linear(found)
                if solved and _better(Source(number, kind, dim, *solved[1:]), sources.get(solved[0])):
                    sources[solved[0]] = Source(number, kind, dim, *solved[1:])
                if not solved and found.free_symbols:
                    unsolved.setdefault(found, Source(number, kind, dim))
    return sources, unsolved


def named_sources(placeholders: Sequence[object]) -> dict[sympy.Expr, Source]:
    """The result of `symbol_sources`; an expression with a symbol that no placeholder gives is there itself, as if it were one."""
    sources, unsolved = _solved(placeholders)
    unknown = {found: source for found, source in unsolved.items() if not found.free_symbols <= sources.keys()}
    return {**sources, **unknown}


def is_strided(value: object) -> TypeGuard[torch.Tensor]:
    return isinstance(value, torch.Tensor) and value.layout == torch.strided


def _observed(value: object, kind: str) -> list[sympy.Expr]:
    """The expressions that a placeholder of `value` shows; 0 where it shows an int."""
    if is_strided(value) and kind != "value":
        numbers = value.shape if kind == "size" else value.stride()
    elif isinstance(value, torch.SymInt) and kind == "value":
        numbers = [value]
    elif isinstance(value, torch.SymBool) and kind == "value" and isinstance(value.node.expr, sympy.Eq):
        symbol, one = value.node.expr.args  # how PyTorch writes a boolean that is not known: s == 1
        return [symbol if one == 1 else sympy.S.Zero]
    else:
        return []
    return [sympy.sympify(sympy_of(number)) if isinstance(number, torch.SymInt) else sympy.S.Zero for number in numbers]


def _better(new: Source, old: Source | None) -> bool:
    """Whether a symbol is rather found at `new`: where it stands by itself."""
    return old is None or ((new.scale, new.offset) == (1, 0) and (old.scale, old.offset) != (1, 0))

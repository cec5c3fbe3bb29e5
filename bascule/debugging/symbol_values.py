"""The symbols in the sizes of a graph's inputs: the numbers that they stood for, and what is known of them, as Python source."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import Any

import sympy
import torch
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, free_unbacked_symbols

from ..compat.graphs.symbolic_shapes import PythonPrinter

Symbolic = torch.SymInt | torch.SymFloat | torch.SymBool
Numbers = Mapping[sympy.Symbol, Any]
GUESS = 2  # of a number that only data decides
TRIED = 1000  # sets of guesses


def numbers_in(value: Any) -> tuple[Any, ...]:
    """The sizes and strides of a tensor; the number that `value` is."""
    return (*value.shape, *value.stride()) if isinstance(value, torch.Tensor) else (value,)


def decided_by_data(value: Any) -> set[sympy.Symbol]:
    """The symbols in a tensor's sizes, or in a number, that no size of an input tells."""
    return {s for number in numbers_in(value) if isinstance(number, Symbolic) for s in free_unbacked_symbols(number)}


def stood_for(inputs: Sequence[Any], given: Sequence[Any]) -> dict[sympy.Symbol, Any]:
    """The values of the symbols in a graph's `inputs` in a call with `given`: of those that stand alone somewhere."""
    pairs = [pair for both in zip(inputs, given, strict=True) for pair in zip(*map(numbers_in, both))]
    return {
        number.node.expr: is_ for number, is_ in pairs if isinstance(number, Symbolic) and number.node.expr.is_Symbol
    }


@dataclass(frozen=True)
class Symbols:
    """The symbols of a graph's inputs, each with a number, and what PyTorch knows of them."""

    numbers: Numbers
    facts: tuple[str, ...] = ()

    @staticmethod
    def of(inputs: Iterable[Any], known: Numbers) -> "Symbols":
        """`known`: what some stood for. Others get the number that the trace saw; those that only data decides are guessed, so that
        what is known of them is true."""
        found = [number for value in inputs for number in numbers_in(value) if isinstance(number, Symbolic)]
        symbols = sorted({s for number in found for s in number.node.expr.free_symbols}, key=str)
        if not symbols:
            return Symbols({})
        env = found[0].node.shape_env
        facts = _facts(symbols, env)
        numbers = {s: known[s] if s in known else _plain(env.backed_var_to_val.get(s)) for s in symbols}
        unknown = [s for s in symbols if numbers[s] is None]
        sets = islice(product(*(_guesses(s, env) for s in unknown)), TRIED)
        guesses = [{**numbers, **dict(zip(unknown, guess))} for guess in sets]
        fitting = (guess for guess in guesses if all(fact.xreplace(guess) != sympy.false for fact in facts))
        return Symbols(next(fitting, guesses[0]), tuple(map(text_of, facts)))

    def number(self, value: Any) -> Any:
        """`value`, which may be symbolic, as a number."""
        if not isinstance(value, Symbolic):
            return value
        return value.node.pytype(value.node.expr.xreplace(self.numbers))


def source_of(number: Any) -> str:
    """Source text of a number, with the names of symbols."""
    return text_of(number.node.expr) if isinstance(number, Symbolic) else repr(number)


def text_of(expression: sympy.Basic) -> str:
    """Source text of an expression of symbols, with their names."""
    return PythonPrinter().doprint(expression)


def _plain(number: Any) -> Any:
    return number if number is None else int(number) if number.is_Integer else float(number)


def _guesses(symbol: sympy.Symbol, env: ShapeEnv) -> list[float]:
    if not symbol.is_integer:
        return [float(GUESS)]
    lower = env.var_to_range[symbol].lower
    low = int(lower) if lower.is_Integer else 0
    return [max(low, GUESS), *range(low, low + 10)]


def _facts(symbols: Sequence[sympy.Symbol], env: ShapeEnv) -> list[sympy.Basic]:
    """The ranges of integers, and what the program asserts of them."""
    facts: list[sympy.Basic] = []
    for symbol in filter(lambda s: s.is_integer, symbols):
        bounds = env.var_to_range[symbol]
        facts += [symbol >= bounds.lower] if bounds.lower.is_Integer else []
        facts += [symbol <= bounds.upper] if bounds.upper.is_Integer and bounds.upper < 2**48 else []
    asserted = (env.replace(fact.expr) for found in env.deferred_runtime_asserts.values() for fact in found)
    facts += [fact for fact in asserted if fact.free_symbols and fact.free_symbols <= set(symbols)]
    return list(dict.fromkeys(facts))


def symbolic_numbers(defaults: Mapping[str, Any], env: ShapeEnv) -> list[Any]:
    """Symbols of `env` for those of a file, whose names say what they are (u: data decides it), seen with the numbers `defaults`."""
    from ..compat.graphs.dynamo import ConstantSource

    register = getattr(env, "set_real_tensor_prop_unbacked_vals", None) or env.set_unbacked_var_to_val
    made = []
    with env.ignore_fresh_unbacked_symbols():  # they come from outside of the graph
        for name, number in defaults.items():
            if isinstance(number, float):
                symbol = env.create_unbacked_symfloat()
            elif name.startswith("u"):
                symbol = env.create_unbacked_symint()
            else:
                dynamic = DimDynamic.DYNAMIC
                made.append(env.create_unspecified_symint_and_symbol(number, ConstantSource(name), dynamic))
                continue
            register(symbol.node.expr, number)
            made.append(symbol)
    return made

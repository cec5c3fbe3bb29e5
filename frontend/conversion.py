"""How `torch-to-bascule` works: the registry of rules, the arguments a rule sees, and the walk over a function.

A rule rewrites one torch op. It is a function `rule(c, *arguments)`: `c` is the `Conversion` and the arguments are those of the
operator's schema, decoded to Python: a tensor is its converted `ir.Value` (or None), numbers are int / float / bool,
an integer computed from symbols is an `ir.AffineExpr`, lists are lists, None is None, a dtype is the `torch.dtype`'s scalar-type number.
It returns the converted result(s): a Value, or a list of them in the order of the op's results.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from bascule.dialect.errors import UnsupportedError
from bascule.dialect.ir import builders, shapes
from bascule.dialect.ir.functions import Externs
from bascule.dialect.mlir import ir

Rule = Callable[..., Any]
RULES: dict[str, Rule] = {}  # "aten.add.Tensor" -> rule; filled when `rules/` is imported
FAMILIES = ("pointwise", "reductions", "views", "indexing", "scatter", "assembly", "scans", "random", "resampling", "externs")


class NoRule(Exception):
    """Raised by a rule for arguments it does not take: the operator then goes to ATen."""


def rule(*operators: str) -> Callable[[Rule], Rule]:
    """Registers a rule for operators named as `aten.add.Tensor` (overload `default` included in the name)."""

    def register(function: Rule) -> Rule:
        for operator in operators:
            assert operator not in RULES, f"two rules for {operator}"
            RULES[operator] = function
        return function

    return register


@cache
def load_rules() -> dict[str, Rule]:
    for family in FAMILIES:
        import_module(f"bascule.frontend.rules.{family}")
    return RULES


@dataclass
class Conversion:
    """What a rule works with: types of the op at hand, and the function's symbols. Ops are built at the current insertion point."""

    op: ir.Operation  # the torch op being rewritten
    symbols: list[ir.Value]
    externs: Externs
    eager_rounding: bool
    results: list[ir.RankedTensorType]  # the op's result types with eager's layouts
    result_sizes: list[list[ir.AffineExpr]]

    def compute(self, body: Callable[[list[ir.Value]], ir.Value], number: int = 0) -> ir.Value:
        """Result `number` as a `bascule.compute` of its own type and sizes."""
        return builders.compute(self.results[number], self.result_sizes[number], body)

    def apply(self, exprs: Sequence[shapes.Size], dims: Sequence[ir.Value]) -> list[ir.Value]:
        """Index expressions over `dims` (d0, d1, ...) and the function's symbols, as values."""
        return builders.apply(shapes.index_map(len(dims), exprs), dims, self.symbols)

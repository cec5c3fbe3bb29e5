"""Numbers computed from sizes, in FX graphs: which symbols they name, and the nodes that compute them.

The private modules of PyTorch about symbolic expressions are named here and in `symbols.py`. Checked on torch 2.13.
"""

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import sympy
import torch
from torch.fx import Graph, Node, Proxy
from torch.fx.proxy import GraphAppendingTracer
from torch.utils._pytree import tree_leaves
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis

SymNumber: TypeAlias = torch.SymInt | torch.SymFloat | torch.SymBool


def is_number(value: Any) -> bool:
    return isinstance(value, bool | int | float | torch.SymInt | torch.SymFloat | torch.SymBool)


def _numbers_in(value: Any) -> Iterator[SymNumber]:
    """The symbolic sizes, strides and numbers in a node's `meta["val"]`."""
    for leaf in tree_leaves(value):
        numbers: Iterable[Any] = [leaf]
        if isinstance(leaf, torch.Tensor):
            numbers = (*leaf.shape, *leaf.stride()) if leaf.layout == torch.strided else leaf.shape
        for number in numbers:
            if isinstance(number, SymNumber):
                yield number


def symbols_in(value: Any) -> set[sympy.Symbol]:
    """The symbols that a node's `meta["val"]`, or a list of them, names."""
    expressions = {number.node.expr for number in _numbers_in(value)}
    return {symbol for expression in expressions for symbol in expression.free_symbols}


def checked_equalities(graph: Graph) -> Iterator[tuple[sympy.Symbol, sympy.Symbol]]:
    """Pairs of symbols that the graph asserts to be equal; one of each may be of a node that was found to repeat another and is gone."""
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten._assert_scalar.default):
        value = node.args[0].meta["val"] if isinstance(node.args[0], Node) else None
        if isinstance(value, torch.SymBool) and isinstance(value.node.expr, sympy.Eq):
            a, b = value.node.expr.args
            if a.is_Symbol and b.is_Symbol:
                yield a, b


def number_of(symbol: sympy.Symbol, values: Any) -> torch.SymInt | torch.SymFloat:
    """`symbol`, which `values` name, as a symbolic number by itself."""
    environment = next(_numbers_in(values)).node.shape_env
    if symbol.is_integer:
        return environment.create_symintnode(symbol, hint=None)
    return environment.create_symfloatnode(symbol, hint=None)


class ComputedNumbers:
    """Nodes of `graph` that compute numbers from the nodes of its symbols; each made once."""

    def __init__(self, graph: Graph, symbols: dict[sympy.Symbol, Node]):
        self.tracer = GraphAppendingTracer(graph)
        self.symbols = {symbol: Proxy(node, self.tracer) for symbol, node in symbols.items()}
        self.made: dict[sympy.Expr, Any] = {}

    def of(self, value: Any) -> Any:
        """The node that computes `value`, or a number if it is constant."""
        if not isinstance(value, SymNumber):
            return value
        expression = value.node.expr
        if expression not in self.made:
            made = sympy_interp(PythonReferenceAnalysis, self.symbols, expression)
            if isinstance(made, Proxy):
                made = made.node
                made.meta.setdefault("val", value)
            self.made[expression] = made
        return self.made[expression]

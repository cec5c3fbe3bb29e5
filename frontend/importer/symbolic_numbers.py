"""Numbers computed from sizes, in FX graphs: which symbols they name, and the nodes that compute them."""

import math
import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import sympy
import torch
from bascule.dialect.ir.computed_symbols import FUNCTIONS
from torch.fx import Graph, Node, Proxy
from torch.fx.proxy import GraphAppendingTracer

from bascule.compat.graphs.symbolic_shapes import PythonReferenceAnalysis, sympy_interp
from bascule.compat.tensors.pytree import tree_leaves

SymNumber: TypeAlias = torch.SymInt | torch.SymFloat | torch.SymBool

aten = torch.ops.aten


def _function(function: Callable[..., Any]) -> staticmethod:
    """A call of `function` that is a node where an argument is one."""

    def called(*arguments: Any) -> Any:
        proxy = next((a for a in arguments if isinstance(a, Proxy)), None)
        return (
            function(*arguments)
            if proxy is None
            else proxy.tracer.create_proxy("call_function", function, arguments, {})
        )

    return staticmethod(called)


def _to_int(function: Callable[[Any], Any]) -> staticmethod:
    called = _function(function)
    return staticmethod(lambda x, dtype: called(x))


class _Operators(PythonReferenceAnalysis):
    """Every operator of expressions over sizes on FX's proxies, which the base class has some of for numbers only."""

    int_truediv = _function(operator.truediv)
    round_decimal = _function(round)
    round_to_int, trunc_to_int = _to_int(round), _to_int(math.trunc)
    floor_to_int, ceil_to_int = _to_int(math.floor), _to_int(math.ceil)


for _name in FUNCTIONS:
    setattr(_Operators, _name, _function(getattr(torch, f"_sym_{_name}")))


def _with_values(made: Any) -> Any:
    """The value of `made`, a node or a number; notes it on all nodes that compute it."""
    if not isinstance(made, Node):
        return made
    if "val" not in made.meta:
        made.meta["val"] = made.target(*map(_with_values, made.args), **made.kwargs)
    return made.meta["val"]


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
    for node in graph.find_nodes(op="call_function", target=aten._assert_scalar.default):
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
            made = sympy_interp(_Operators, self.symbols, expression)
            if isinstance(made, Proxy):
                made = made.node
                made.meta.setdefault("val", value)
                for argument in made.args:
                    _with_values(argument)
            self.made[expression] = made
        return self.made[expression]

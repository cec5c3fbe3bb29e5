"""The ways in which a module is made smaller: each finds its sites in a module, and changes some of them in place.

The sites of an edit are numbered in a fixed order, so that a number means the same in each copy of a module. An edit need not keep what the
module computes, nor leave it valid: whoever applies it verifies what it left, and asks whether that still fails.
"""

import re
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from bascule.dialect.ir.functions import functions, is_extern
from bascule.dialect.ir.regions import end_of, ops_in
from bascule.dialect.mlir import ir

from .signatures import add_argument, drop_arguments, drop_results, return_instead

TERMINATORS = ("func.return", "bascule.yield", "scf.yield", "scf.condition")


class Edit:
    """`name` says what it does, for the log."""

    name: str

    @abstractmethod
    def sites(self, module: ir.Module) -> list[Any]: ...

    @abstractmethod
    def apply(self, module: ir.Module, sites: Sequence[Any]) -> None: ...


def _graphs(module: ir.Module) -> list[ir.Operation]:
    """The functions with a body that no call names: their signatures are free."""
    called = {op.attributes["callee"].value for op in ops_in(module.operation) if op.name == "func.call"}
    return [
        f
        for f in functions(module)
        if not is_extern(f) and len(f.regions[0].blocks) and f.attributes["sym_name"].value not in called
    ]


class Functions(Edit):
    name = "functions"

    def sites(self, module):
        return functions(module)

    def apply(self, module, sites):
        for function in sites:
            function.erase()


class Results(Edit):
    name = "results"

    def sites(self, module):
        return [(f, n) for f in _graphs(module) for n in range(len(end_of(f.regions[0].blocks[0]).operands))]

    def apply(self, module, sites):
        for function in _graphs(module):
            drop_results(function, {n for f, n in sites if f == function})
        drop_unused(module)


class Returns(Edit):
    """Returns what one operation makes, and nothing else: what comes after it goes."""

    name = "returns"

    def sites(self, module):
        return [
            (f, op.operation)
            for f in _graphs(module)
            for op in f.regions[0].blocks[0].operations
            if len(op.operation.results) and all(map(_is_tensor, op.operation.results))
        ]

    def apply(self, module, sites):
        return_instead(*sites[-1])
        drop_unused(module)


class Producers(Edit):
    """Makes what an operation of a graph computes an argument; what only that operation needed goes."""

    name = "producers"

    def sites(self, module):
        return [
            (f, op.operation)
            for f in _graphs(module)
            for op in f.regions[0].blocks[0].operations
            if any(len(list(r.uses)) for r in op.operation.results) and all(map(_is_tensor, op.operation.results))
        ]

    def apply(self, module, sites):
        for function, op in sites:
            for result in op.results:
                result.replace_all_uses_with(add_argument(function, result))
            op.erase()
        drop_unused(module)


class Bypasses(Edit):
    """Replaces an operation by an operand of the same type, or a number by 1."""

    name = "operations"

    def sites(self, module):
        found = (op for f in _bodies(module) for op in ops_in(f)[1:])
        return [op for op in found if len(op.results) == 1 and op.name != "arith.constant" and _other(op) is not None]

    def apply(self, module, sites):
        for op in reversed(sites):  # those in an operation's regions before it
            made = _other(op)
            if made is not None:
                op.results[0].replace_all_uses_with(made())
                op.erase()
        drop_unused(module)


class Statements(Edit):
    """Erases operations that nothing uses the results of, such as stores."""

    name = "statements"

    def sites(self, module):
        found = (op for f in _bodies(module) for op in ops_in(f)[1:])
        return [op for op in found if op.name not in TERMINATORS and not any(len(list(r.uses)) for r in op.results)]

    def apply(self, module, sites):
        for op in reversed(sites):
            op.erase()
        drop_unused(module)


class Arguments(Edit):
    name = "arguments"

    def sites(self, module):
        blocks = [(f, f.regions[0].blocks[0]) for f in _graphs(module)]
        return [(f, n) for f, b in blocks for n, a in enumerate(b.arguments) if not list(a.uses)]

    def apply(self, module, sites):
        for function in _graphs(module):
            drop_arguments(function, {n for f, n in sites if f == function})


class Attributes(Edit):
    name = "attributes"

    def sites(self, module):
        ops = ops_in(module.operation)
        return [(op, a) for op in ops for a in list(op.attributes) if str(a).startswith("bascule.")]

    def apply(self, module, sites):
        for op, name in sites:
            del op.attributes[name]


EDITS: tuple[Edit, ...] = (
    Functions(),
    Results(),
    Returns(),
    Producers(),
    Statements(),
    Bypasses(),
    Arguments(),
    Attributes(),
)


def smaller_sizes(text: str) -> list[Callable[[str], str]]:
    """Substitutions of one number among the sizes in the text of a module by a smaller one: with all its multiples, then by itself."""
    sizes = {
        int(size) for dims in re.findall(r"(?:tensor|memref)<((?:[\d?]+x)+)", text) for size in re.findall(r"\d+", dims)
    }
    sizes |= {int(n) for dims in re.findall(r"vtensor<\[([\d,?]+)\]", text) for n in re.findall(r"\d+", dims)}
    found = []
    for size in sorted(sizes, reverse=True):
        for smaller in dict.fromkeys((1, 2, size // 2)):
            if 0 < smaller < size:
                found += [_substitution(size, smaller, True), _substitution(size, smaller, False)]
    return found


_INTEGER = re.compile(r"(?:(?<![\w.%#@-])|(?<=[\d?]x))\d+(?=x|\b(?!\.\d))")


def _substitution(size: int, smaller: int, multiples: bool) -> Callable[[str], str]:
    def replaced(match: re.Match) -> str:
        number = int(match[0])
        if number == size or (multiples and number and number % size == 0):
            return str(number // size * smaller)
        return match[0]

    return lambda text: _INTEGER.sub(replaced, text)


def _bodies(module: ir.Module) -> list[ir.Operation]:
    return [f for f in functions(module) if not is_extern(f) and len(f.regions[0].blocks)]


def _is_tensor(value: ir.Value) -> bool:
    return isinstance(value.type, ir.RankedTensorType) or str(value.type).startswith("!torch.vtensor")


def _other(op: ir.Operation) -> Callable[[], ir.Value] | None:
    """Makes a value of the type of an operation's result, without the operation."""
    type_ = op.results[0].type
    for operand in op.operands:
        if operand.type == type_:
            return lambda: operand
    if not isinstance(type_, ir.FloatType | ir.IntegerType):
        return None

    def constant() -> ir.Value:
        attribute = ir.FloatAttr.get(type_, 1.0) if isinstance(type_, ir.FloatType) else ir.IntegerAttr.get(type_, 1)
        with ir.InsertionPoint(op), op.location:
            return ir.Operation.create("arith.constant", results=[type_], attributes={"value": attribute}).results[0]

    return constant


def drop_unused(module: ir.Module) -> None:
    """Erases the operations with results that nothing uses, and what then is not used any more; declarations too that nothing calls."""
    for function in _bodies(module):
        for op in reversed(ops_in(function)[1:]):
            if len(op.results) and op.name not in TERMINATORS and not any(len(list(r.uses)) for r in op.results):
                op.erase()
    called = {op.attributes["callee"].value for op in ops_in(module.operation) if op.name == "func.call"}
    for function in functions(module):
        private = "sym_visibility" in function.attributes
        if private and function.attributes["sym_name"].value not in called:
            function.erase()

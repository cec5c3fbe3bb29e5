"""How a graph is called: what its attributes say of placeholders, symbols and outputs names arguments, results and each other as they are."""

import re
from collections.abc import Iterator

from ..errors import UserError
from ..ir.attribute_names import HOST_INPUTS, HOST_OUTPUTS
from ..ir.attributes import OperandAttr
from ..ir.computed_symbols import complaint as complaint_of_tree
from ..ir.functions import CONSTANT, INPUTS, OUTPUTS, SEEN, SYMBOL_SOURCES, SYMBOLS
from ..ir.locations import source_of
from ..ir.symbol_sources import KINDS
from ..ir.types import symbols_among
from ..mlir import ir

_INPUT = re.compile(r"(tensor|float|symbol) (\d{1,9})|int")


def check_callers(function: ir.Operation) -> None:
    """Refuses the first of these attributes that does not fit the function. Their kinds have been looked at."""
    told = (SYMBOLS, SEEN, INPUTS, OUTPUTS, SYMBOL_SOURCES, HOST_INPUTS, HOST_OUTPUTS)
    if not any(name in function.attributes for name in told):
        return
    for name, complaint in _Call(function).complaints():
        text = f"'{name}' of @{function.attributes['sym_name'].value} {complaint}"
        raise UserError(text, location=source_of(function.location))


class _Call:
    """A function's arguments and results, and what is said of them."""

    def __init__(self, function: ir.Operation):
        type_ = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
        self.symbols, self.results = symbols_among(type_.inputs), len(type_.results)
        told = (
            list(function.attributes["arg_attrs"]) if "arg_attrs" in function.attributes else [{}] * len(type_.inputs)
        )
        self.tensors = [t for t, kind in list(zip(type_.inputs, told))[self.symbols :] if CONSTANT not in kind]
        self.attributes = function.attributes
        default = [f"symbol {n}" for n in range(self.symbols)] + [f"tensor {n}" for n in range(len(self.tensors))]
        self.inputs = [entry.value for entry in self._list(INPUTS)] if INPUTS in self.attributes else default
        self.outputs = self._list(OUTPUTS) or [ir.UnitAttr.get()] * self.results

    def _list(self, name: str) -> list[ir.Attribute]:
        return list(self.attributes[name]) if name in self.attributes else []

    def complaints(self) -> Iterator[tuple[str, str]]:
        """The attributes that do not fit, each with what is wrong; later ones take earlier ones for granted."""
        checks = {SYMBOLS: self._names, INPUTS: self._inputs, SYMBOL_SOURCES: self._sources, OUTPUTS: self._outputs}
        checks |= {SEEN: self._seen, HOST_INPUTS: self._host_inputs, HOST_OUTPUTS: self._host_outputs}
        for name, check in checks.items():
            if name in self.attributes and (complaint := check()) is not None:
                yield name, complaint

    def _names(self) -> str | None:
        names = [entry.value for entry in self._list(SYMBOLS)]
        if len(names) != self.symbols:
            return f"has {len(names)} names for {self.symbols} symbols"
        if len(set(names)) < len(names) or not all(name.isidentifier() for name in names):
            return f"is {names}: a name each is needed, which Python takes"
        return None

    def _seen(self) -> str | None:
        numbers = list(self.attributes[SEEN])
        if len(numbers) != self.symbols or min(numbers, default=0) < 0:
            return f"is {numbers}: a number each is needed of {self.symbols} symbols, none below 0"
        return None

    def _inputs(self) -> str | None:
        numbers: dict[str, list[int]] = {"tensor": [], "float": [], "symbol": []}
        for entry in self.inputs:
            match = _INPUT.fullmatch(entry)
            if match is None:
                return f'has "{entry}" in it: an input is "tensor K", "float K", "symbol K" or "int"'
            if match[1]:
                numbers[match[1]].append(int(match[2]))
        for kind in ("tensor", "float"):
            if numbers[kind] != [*range(len(numbers[kind]))]:
                return f"has {kind}s {numbers[kind]}: they are numbered in order, from 0"
        given = len(numbers["tensor"]) + len(numbers["float"])
        if given != len(self.tensors):
            return f"has {given} tensors and floats for {len(self.tensors)} arguments"
        known, needed = numbers["symbol"], SYMBOL_SOURCES not in self.attributes
        if (
            len(set(known)) < len(known)
            or any(n >= self.symbols for n in known)
            or (needed and len(known) < self.symbols)
        ):
            return f"has symbols {known} for {self.symbols}" + (
                f" and there is no '{SYMBOL_SOURCES}'" if needed else ""
            )
        return None

    def _sources(self) -> str | None:
        sources = self._list(SYMBOL_SOURCES)
        if len(sources) != self.symbols:
            return f"has {len(sources)} entries for {self.symbols} symbols"
        for number, source in enumerate(sources):
            if complaint := self._source(source, number):
                return f"has {source} for symbol {number}, {complaint}"
        return None

    def _source(self, source: ir.DictAttr, number: int) -> str | None:
        kind = source["kind"].value if "kind" in source and isinstance(source["kind"], ir.StringAttr) else None
        if kind == "computed":
            return complaint_of_tree(source["value"], number) if "value" in source else "which has no value"
        named = ("input", "dim", "scale", "offset")
        if kind not in KINDS or not all(name in source and isinstance(source[name], ir.IntegerAttr) for name in named):
            return f"which has no kind of {', '.join(KINDS)} or lacks a number of {', '.join(named)}"
        place, dim, scale, _ = (source[name].value for name in named)
        if scale == 0:
            return "which is to be divided by 0"
        if not 0 <= place < len(self.inputs):
            return f"which is no input of {len(self.inputs)}"
        what, _, at = self.inputs[place].partition(" ")
        if (what == "tensor") != (kind != "value"):
            return f"whose input is {what}"
        if kind == "value":
            return None
        rank = getattr(self.tensors[int(at)], "rank", None)  # of the torch dialect's types none is known
        return None if rank is None or 0 <= dim < rank else f"whose tensor has {rank} dims"

    def _outputs(self) -> str | None:
        for entry in self.outputs:
            if isinstance(entry, OperandAttr):
                known = 0 <= ir.IntegerAttr(entry.index).value < self.results
            elif isinstance(entry, ir.AffineMapAttr):
                map_ = entry.value
                known = (map_.n_dims, len(map_.results)) == (0, 1) and map_.n_symbols <= self.symbols
            elif isinstance(entry, ir.StringAttr):
                match = re.fullmatch(r"input (\d{1,9})", entry.value)
                known = match is not None and int(match[1]) < len(self.inputs)
            else:
                known = isinstance(entry, ir.UnitAttr | ir.IntegerAttr | ir.FloatAttr | ir.BoolAttr)
            if not known:
                have = f"{self.results} results, {self.symbols} symbols and {len(self.inputs)} inputs"
                return f"has {entry} in it, which is no output of a function of {have}"
        return None

    def _host_inputs(self) -> str | None:
        return _numbers(list(self.attributes[HOST_INPUTS]), sum(entry.startswith("tensor ") for entry in self.inputs))

    def _host_outputs(self) -> str | None:
        return _numbers(list(self.attributes[HOST_OUTPUTS]), len(self.outputs))


def _numbers(numbers: list[int], count: int) -> str | None:
    """Complains of numbers that are not those of some of `count`."""
    if len(set(numbers)) == len(numbers) and all(0 <= number < count for number in numbers):
        return None
    return f"is {numbers}: different numbers below {count} are needed"

"""How a call's arguments become symbols and tensors."""

from collections.abc import Callable
from textwrap import wrap

from bascule.dialect.ir import builders, symbol_sources
from bascule.dialect.ir.attribute_names import HOST_INPUTS
from bascule.dialect.ir.computed_symbols import python_text
from bascule.dialect.ir.functions import ANY_STRIDES, CONSTANT, INPUTS, NULLABLE, OUTPUTS, SYMBOL_SOURCES, SYMBOLS
from bascule.dialect.ir.locations import source_of
from bascule.dialect.mlir import ir

from .buffer_places import Places
from .expressions import python_of
from .source import Source


class Signature:
    """The arguments of a graph function: symbols, inputs, constants; and the list of placeholders that a caller gives."""

    def __init__(self, graph: ir.Operation):
        attributes = graph.attributes
        count = len(builders.symbols_of(graph))
        self.symbols = [f"s{i}" for i in range(count)]
        if SYMBOLS in attributes:
            self.symbols = [name.value for name in attributes[SYMBOLS]]
        arguments = list(graph.regions[0].blocks[0].arguments)[count:]
        kinds = list(attributes["arg_attrs"])[count:] if "arg_attrs" in attributes else [{}] * len(arguments)
        self.constants = [a for a, kind in zip(arguments, kinds) if CONSTANT in kind]
        self.tensors = [a for a, kind in zip(arguments, kinds) if CONSTANT not in kind]
        absent = [
            i
            for i, (_, kind) in enumerate(t for t in zip(arguments, kinds) if CONSTANT not in t[1])
            if NULLABLE in kind
        ]
        self.inputs = [f"symbol {i}" for i in range(count)] + [f"tensor {i}" for i in range(len(self.tensors))]
        if INPUTS in attributes:
            self.inputs = [entry.value for entry in attributes[INPUTS]]
        self.nullable = tuple(
            self.inputs.index(f"tensor {i}") for i in absent
        )  # numbers of inputs: see `nullable-tangents`
        self.restrided = {a for a, kind in zip(arguments, kinds) if ANY_STRIDES in kind}
        floats = sum(entry.startswith("float ") for entry in self.inputs)  # numbers that become tensors of rank 0
        self.floats = self.tensors[len(self.tensors) - floats :]
        self.tensors = self.tensors[: len(self.tensors) - floats]
        self.names: list[str] = []  # what each placeholder is called, once unpacked
        host = list(attributes[HOST_INPUTS]) if HOST_INPUTS in attributes else []
        # CPU tensors among the inputs of a graph on another device.
        self.host_inputs = [f"in{number}" for number in host]
        outputs = list(attributes[OUTPUTS]) if OUTPUTS in attributes else []
        self.passed = {entry.value for entry in outputs if isinstance(entry, ir.StringAttr)}  # returned as they came
        self.sources = list(attributes[SYMBOL_SOURCES]) if SYMBOL_SOURCES in attributes else []
        self.computes = any("value" in found for found in self.sources)  # some symbol from others, with Python's math

    def unpack(
        self, source: Source, places: Places, layout: Callable[[ir.Value], str], device: str | None = None
    ) -> None:
        """Writes the lines that name every argument and empty the caller's list. `layout`: the text of how one lies that an operator gives;
        `device`: that of the program's, if not the CPU."""
        names, lines = self.names, []
        for number, entry in enumerate(self.inputs):
            kind, _, index = entry.partition(" ")
            needed = (
                any("input" in found and found["input"].value == number for found in self.sources)
                or f"input {number}" in self.passed
            )
            if kind == "tensor":
                names.append(f"in{index}")
                places.own(self.tensors[int(index)], names[-1])
                places.inputs.add(names[-1])
            elif kind == "float":
                names.append(f"float{index}")
                places.own(self.floats[int(index)], f"number{index}")
            elif kind == "symbol" and not self.sources:
                names.append(self.symbols[int(index)])
            else:
                names.append(f"int{number}" if needed else "_")
        if names:
            for text in wrap(f"{', '.join(names)},", 110):
                lines.append(f"        {text}")
            if len(lines) == 1:
                source.line(f"    {lines[0].strip().removesuffix(',') if len(names) > 1 else lines[0].strip()} = args")
            else:
                for text in ("    (", *lines, "    ) = args"):
                    source.line(text)
        source.line("    args.clear()")
        for number in range(len(self.floats)):
            where = f", device={device}" if device else ""
            source.line(f"    number{number} = torch.tensor(float{number}, dtype=torch.float64{where})")
        for symbol, found in zip(self.symbols, self.sources):
            if "value" in found:
                text = python_text(found["value"], lambda e: python_of(e, self.symbols))
            else:
                where = symbol_sources.Source.of(found)
                text = where.text(names[where.input])
            source.line(f"    {symbol} = {text}")
        for value in self.tensors:
            if value in self.restrided and not all(use.owner.operation.name == "memref.dealloc" for use in value.uses):
                name = places.tensors[value]
                source.line(f"    {name} = laid_out({name}, {layout(value)})", source_of(value.location))
        for number, value in enumerate(self.constants):
            places.own(value, f"constant{number}")
            places.inputs.add(f"constant{number}")
            source.line(f"    constant{number} = constants[{number}]")

"""Running an imported graph as its FX graph is called: placeholders in, FX outputs out."""

from collections.abc import Sequence
from typing import Any

import torch

from ..ir.attributes import OperandAttr
from ..ir.computed_symbols import computed_value
from ..ir.functions import INPUTS, OUTPUTS, SYMBOL_SOURCES
from ..ir.symbol_sources import Source
from ..mlir import ir
from .entry import choose, interpret
from .maps import evaluate


def interpret_graph(module: ir.Module, inputs: Sequence[Any], constants: Sequence[torch.Tensor] = ()) -> list[Any]:
    """Runs the graph function of `module` on a value for each placeholder (tensors and numbers); `constants` are the
    tensors that the graph holds. Returns its outputs: tensors, numbers and None, as `bascule.outputs` says."""
    with module.context:
        attributes = choose(module, None).attributes
        results = interpret(module, arguments_of(module, inputs, constants))
        symbols = _symbols(attributes, inputs)
        return [_output(entry, inputs, results, symbols) for entry in attributes[OUTPUTS]]


def arguments_of(
    module: ir.Module, inputs: Sequence[Any], constants: Sequence[torch.Tensor] = ()
) -> list[torch.Tensor | int]:
    """The arguments of the graph function of `module`, for `interpret`, where its placeholders have the values `inputs`."""
    with module.context:
        attributes = choose(module, None).attributes
        tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
        floats = [
            torch.tensor(value, dtype=torch.float64)
            for entry, value in zip(attributes[INPUTS], inputs)
            if entry.value.startswith("float ")
        ]
        return [*_symbols(attributes, inputs), *tensors, *floats, *constants]


def _symbols(attributes: ir.OpAttributeMap, inputs: Sequence[Any]) -> list[int]:
    """The value of each symbol: of the placeholder that is it, or solved from a size or a stride."""
    if SYMBOL_SOURCES not in attributes:
        places = [entry.value.split() for entry in attributes[INPUTS]]
        known = {int(place[1]): value for place, value in zip(places, inputs) if place[0] == "symbol"}
        return [known[i] for i in range(len(known))]
    values: list[int] = []
    for source in attributes[SYMBOL_SOURCES]:
        if "value" in source:
            values.append(computed_value(source["value"], lambda e: int(evaluate(e, (), values))))
            continue
        where = Source.of(source)
        values.append(where.symbol(inputs[where.input]))
    return values


def _output(
    entry: ir.Attribute, inputs: Sequence[Any], results: list[torch.Tensor | int], symbols: Sequence[int]
) -> Any:
    if isinstance(entry, ir.StringAttr):  # "input 2"
        return inputs[int(entry.value.split()[1])]
    if isinstance(entry, OperandAttr):
        return results[ir.IntegerAttr(entry.index).value]
    if isinstance(entry, ir.UnitAttr):
        return None
    if isinstance(entry, ir.AffineMapAttr):
        return int(evaluate(entry.value.results[0], (), symbols))
    return entry.value

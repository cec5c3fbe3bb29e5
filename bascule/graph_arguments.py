"""Between the placeholders and outputs of an FX graph and the arguments and results of the function it was imported as."""

from collections.abc import Sequence
from typing import Any

import torch

from bascule.dialect.ir.functions import INPUTS, OUTPUTS, SYMBOL_SOURCES, SYMBOLS
from bascule.frontend.importer import ImportedGraph

from .dialect.ir import OperandAttr
from .dialect.ir.functions import graph_functions
from .dialect.mlir import ir


def arguments_of(imported: ImportedGraph, values: Sequence[Any]) -> list[Any]:
    """The arguments of the function: symbols, tensors, constants; `values` are those of the placeholders."""
    (graph,) = graph_functions(imported.module)
    attributes = graph.attributes
    symbols: list[int] = [0] * len(attributes[SYMBOLS])
    for entry, value in zip(attributes[INPUTS], values):
        kind, _, number = entry.value.partition(" ")
        if kind == "symbol":
            symbols[int(number)] = value
    if SYMBOL_SOURCES in attributes:
        symbols = [_found(source, values) for source in attributes[SYMBOL_SOURCES]]
    return [*symbols, *(value for value in values if isinstance(value, torch.Tensor)), *imported.constants]


def _found(source: ir.DictAttr, values: Sequence[Any]) -> int:
    value, kind = values[source["input"].value], source["kind"].value
    number = value if kind == "value" else getattr(value, kind)(source["dim"].value)
    return (number - source["offset"].value) // source["scale"].value


def results_of(module: ir.Module, outputs: Sequence[Any]) -> list[torch.Tensor]:
    """The results of the function, from the outputs of the FX graph."""
    (graph,) = graph_functions(module)
    found: dict[int, torch.Tensor] = {}
    for entry, output in zip(graph.attributes[OUTPUTS], outputs):
        if isinstance(entry, OperandAttr):
            found[ir.IntegerAttr(entry.index).value] = output
    return [found[number] for number in range(len(found))]


def copied(value: Any) -> Any:
    """A copy of a tensor with the same strides, overlapping ones too; anything else as it is."""
    if not isinstance(value, torch.Tensor):
        return value
    storage = value.detach().untyped_storage().clone()
    made = torch.empty(0, dtype=value.dtype, device=value.device)
    return made.set_(storage, value.storage_offset(), value.shape, value.stride())

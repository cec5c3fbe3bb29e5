"""Compiling a module of the program stage and calling it as `interpret` is called."""

from typing import Any

import torch

from bascule.dialect.interpreter import choose
from bascule.dialect.ir import OperandAttr
from bascule.dialect.ir.functions import CONSTANT, INPUTS, OUTPUTS, SYMBOL_SOURCES, functions, graph_functions
from bascule.dialect.ir.symbol_sources import Source
from bascule.dialect.mlir import ir
from bascule.dialect.passes.kernel.schedule_kernels import ScheduleKernels
from bascule.lowering.cpu import cache_bytes, compile_kernels, host
from bascule.lowering.program import to_python
from bascule.runtime import load

Inputs = list[torch.Tensor | int]


def is_program(module: ir.Module) -> bool:
    """Whether `module` is at the program stage: one graph function, and no function over tensors."""
    types = [str(f.attributes["function_type"]) for f in functions(module)]
    return len(graph_functions(module)) == 1 and not any("tensor<" in type_ for type_ in types)


def run_compiled(module: ir.Module, inputs: Inputs) -> list[torch.Tensor]:
    """Compiles the graph function of `module` and calls it with `inputs`, the values of its arguments; returns the tensors
    among its outputs. Kernels that have no schedule get one."""
    ScheduleKernels(vector_bits=host().vector_bits, cache_bytes=cache_bytes(), keep=True).run(module)
    return call_program(module, inputs, to_python(module), compile_kernels(module))


def call_program(module: ir.Module, inputs: Inputs, wrapper: str, kernels: Any) -> list[torch.Tensor]:
    """Calls `wrapper`, the text of what runs the graph function of `module`, as `run_compiled` does; `kernels` are for `load`."""
    graph = choose(module, None)
    kinds = list(graph.attributes["arg_attrs"]) if "arg_attrs" in graph.attributes else [{}] * len(inputs)
    given = [value for value, kind in zip(inputs, kinds) if CONSTANT not in kind]
    constants = [value for value, kind in zip(inputs, kinds) if CONSTANT in kind]
    call = load(wrapper, kernels, constants)
    outputs = call(placeholders(graph, given))
    return [output for output in outputs if isinstance(output, torch.Tensor)]


def placeholders(graph: ir.Operation, values: Inputs) -> Inputs:
    """The arguments of a caller of the compiled graph, in the order of `bascule.inputs`, from the function's arguments."""
    attributes = graph.attributes
    if INPUTS not in attributes:
        return list(values)
    symbols = [value for value in values if not isinstance(value, torch.Tensor)]
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    count = sum(entry.value.startswith("tensor ") for entry in attributes[INPUTS])
    numbers = {}
    if SYMBOL_SOURCES in attributes:
        for symbol, source in zip(symbols, attributes[SYMBOL_SOURCES]):
            if source["kind"].value == "value":
                where = Source.of(source)
                numbers[where.input] = where.found(symbol)
    placed = []
    for position, entry in enumerate(attributes[INPUTS]):
        kind, _, number = entry.value.partition(" ")
        if kind == "tensor":
            placed.append(tensors[int(number)])
        elif kind == "float":
            placed.append(tensors[count + int(number)].item())
        else:
            placed.append(numbers.get(position, symbols[int(number)] if kind == "symbol" else 0))
    return placed


def returned(module: ir.Module, results: list[torch.Tensor]) -> list[torch.Tensor]:
    """The tensors among the outputs of the graph (`bascule.outputs`), from the results of its function."""
    attributes = choose(module, None).attributes
    if OUTPUTS not in attributes:
        return results
    numbers = [ir.IntegerAttr(e.index).value for e in attributes[OUTPUTS] if isinstance(e, OperandAttr)]
    return [results[number] for number in numbers]

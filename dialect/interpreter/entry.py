"""Running a function of a module."""

from collections.abc import Sequence
from typing import Any

import torch

from ..ir.functions import GRAPH, SHAPE, SHAPES, functions, graph_functions, is_extern
from ..ir.signatures import check, check_extern
from ..mlir import ir
from . import aten, maps, memory, random, structure  # noqa: F401  (importing registers the rules)
from .errors import InterpreterError, error
from .frame import Frame, Scope, rule
from .numerics.precision import OWN, Precision, computing_in
from .values import Buffer, dtype_of, layout_strides, same_strides


def interpret(
    module: ir.Module,
    inputs: Sequence[torch.Tensor | int],
    function: str | None = None,
    precision: Precision = OWN,
) -> list[torch.Tensor]:
    """Runs a graph or kernel function of `module` and returns its results.

    `inputs` are the function's arguments: an int for each symbol, then tensors with the dtypes, sizes and strides of
    the arguments' types. Without `function` the module's only graph function runs, or the one called "main". Inputs
    that the function mutates (`bascule.copy_into`, memref destinations) are mutated. In double `precision` floats
    among them are f64 (`widened`), and so are the results. Raises `InterpreterError`, with the op's location.
    """
    with module.context, torch.no_grad(), computing_in(precision):
        return [_tensor(value) for value in _call(module, choose(module, function), list(inputs))]


def check_arguments(module: ir.Module, inputs: Sequence[torch.Tensor | int], function: str | None = None) -> None:
    """Raises `InterpreterError` where `inputs` are not what `interpret` takes: another number of them, other dtypes, sizes or strides."""
    with module.context:
        _arguments(choose(module, function), list(inputs))


def choose(module: ir.Module, name: str | None) -> ir.Operation:
    """The function called `name`; without a name the module's only one, or only graph function, or "main". Raises `InterpreterError` if there is
    none, and `UserError` if its signature leaves sizes or strides open."""
    known = {f.attributes["sym_name"].value: f for f in functions(module) if len(f.regions[0].blocks)}
    if name is None:
        graphs = [f.attributes["sym_name"].value for f in graph_functions(module)]
        marked = [graph for graph in graphs if GRAPH in known[graph].attributes]
        name = next((names[0] for names in (marked, graphs, list(known)) if len(names) == 1), "main")
        if name not in known and known:
            raise InterpreterError(
                "several functions could run", hint=f"name one of {', '.join(known)}, or call one main"
            )
    if name not in known:
        raise InterpreterError(f"there is no function '{name}'", hint=f"functions: {', '.join(known) or 'none'}")
    check(known[name])
    return known[name]


def _tensor(value: Any) -> Any:
    return value.tensor if isinstance(value, Buffer) else value


def _call(module: ir.Module, function: ir.Operation, inputs: list, around: tuple[str, ...] = ()) -> list:
    """The results of `function`, which the functions `around` call, the innermost last."""
    block, around = function.regions[0].blocks[0], (*around, function.attributes["sym_name"].value)
    symbols, arguments = _arguments(function, inputs)
    shapes = function.attributes[SHAPES] if SHAPES in function.attributes else ()
    frame = Frame(lambda op, operands: _call_op(module, op, operands, symbols, around), symbols, {}, [])
    frame.sizes_of_results = [frame.sizes(shape.value) for shape in shapes]
    _, results = frame.block(block, arguments, Scope())
    return results


def _arguments(function: ir.Operation, inputs: list) -> tuple[list[int], list]:
    """The symbols among the arguments, and all arguments, checked against their types."""
    arguments = list(function.regions[0].blocks[0].arguments)
    if len(inputs) != len(arguments):
        raise error(function, f"takes {len(arguments)} arguments, got {len(inputs)}")
    symbols: list[int] = []
    for argument, value in zip(arguments, inputs):
        if not isinstance(argument.type, ir.IndexType):
            break
        if isinstance(value, torch.Tensor) and value.numel() != 1:
            raise error(function, f"expects a number as argument {len(symbols)}, got a tensor of {list(value.shape)}")
        symbols.append(int(value))
    return symbols, [_argument(function, i, a.type, v, symbols) for i, (a, v) in enumerate(zip(arguments, inputs))]


def _argument(function: ir.Operation, number: int, type_: ir.Type, value: Any, symbols: list[int]) -> Any:
    """The value of an argument, checked against its type: dtype, sizes and strides."""
    if isinstance(type_, ir.IndexType):
        return torch.tensor(int(value))
    if not isinstance(type_, ir.RankedTensorType | ir.MemRefType):
        return value if isinstance(value, torch.Tensor) else torch.tensor(value, dtype=dtype_of(type_))
    tensor, where = _tensor(value), f"argument {number} of '{function.attributes['sym_name'].value}'"
    if not isinstance(tensor, torch.Tensor):
        raise error(function, f"expects a tensor as {where}, got {type(value).__name__}")
    if tensor.dtype != dtype_of(type_.element_type):
        raise error(function, f"expects elements of type {type_.element_type} in {where}, got {tensor.dtype}")
    sizes: list[int | None] = [None if type_.is_dynamic_dim(i) else type_.get_dim_size(i) for i in range(type_.rank)]
    attributes = function.attributes["arg_attrs"][number] if "arg_attrs" in function.attributes else {}
    if SHAPE in attributes:
        sizes = [*maps.sizes(attributes[SHAPE].value, symbols)]
    if len(sizes) != tensor.dim() or any(want not in (None, got) for want, got in zip(sizes, tensor.shape)):
        raise error(function, f"expects {type_} as {where}, got sizes {list(tensor.shape)}")
    try:
        strides, offset = layout_strides(type_, symbols)
    except ValueError as reason:
        raise error(function, str(reason)) from None
    if not same_strides(tensor, strides):
        raise error(function, f"expects strides {strides} in {where}, got {list(tensor.stride())}")
    if isinstance(type_, ir.MemRefType) and not isinstance(value, Buffer):
        return Buffer(tensor, tensor.storage_offset() - offset)
    return value


def _call_op(module: ir.Module, op: ir.Operation, operands: list, symbols: list[int], around: tuple[str, ...]) -> list:
    name = op.attributes["callee"].value
    callee = next((f for f in functions(module) if f.attributes["sym_name"].value == name), None)
    if callee is None:
        raise error(op, f"calls '{name}', which is not in the module")
    if name in around:
        raise error(op, f"calls '{name}', which is running: a graph has no recursion")
    if not is_extern(callee):
        if not len(callee.regions[0].blocks):
            raise error(op, f"calls '{name}', which is declared and not defined")
        return _call(module, callee, operands, around)
    check_extern(callee)
    return aten.call(op, callee, operands, symbols)


@rule("func.call")
def func_call(frame, op, operands, scope):
    return frame.call(op, operands)

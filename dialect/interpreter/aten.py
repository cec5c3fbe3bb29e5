"""Calls of ATen functions: the operator, its arguments from `bascule.arguments`, and which results are returned."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from bascule.compat.operators.schemas import OpOverload

from ..ir.attributes import OperandAttr
from ..ir.functions import ARGUMENTS, EXTERN, MUTATES, OUT, RESULTS, parameters_of
from ..ir.scalar_types import scalar_type_name
from ..mlir import ir
from .errors import error
from .maps import evaluate
from .values import Buffer, dtype_of, layout_strides, same_strides

# Numbers of c10::MemoryFormat and c10::Layout: how the IR spells constants of these types.
MEMORY_FORMATS = (torch.contiguous_format, torch.preserve_format, torch.channels_last, torch.channels_last_3d)
LAYOUTS = {0: torch.strided}
CONSTANTS: dict[str, Callable[[int], Any]] = {
    "ScalarType": lambda number: getattr(torch, scalar_type_name(number)),
    "MemoryFormat": MEMORY_FORMATS.__getitem__,
    "Layout": LAYOUTS.__getitem__,
}


def operator(name: str) -> OpOverload:
    """The operator called `name` ("aten.mm.default"). Raises AttributeError if torch has none."""
    namespace, packet, overload = name.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload)


def decode(attribute: ir.Attribute, type_: str, tensors: Sequence[Any], symbols: Sequence[int]) -> Any:
    """An entry of `bascule.arguments` as the Python value for a parameter of the schema type `type_`."""
    if isinstance(attribute, OperandAttr):
        return tensors[ir.IntegerAttr(attribute.index).value]
    if isinstance(attribute, ir.UnitAttr):
        return None
    if isinstance(attribute, ir.ArrayAttr):
        return [decode(item, type_, tensors, symbols) for item in attribute]
    if isinstance(attribute, ir.AffineMapAttr):
        return int(evaluate(attribute.value.results[0], (), symbols))
    if isinstance(attribute, ir.DenseF64ArrayAttr):
        return complex(*attribute)
    value = attribute.value
    for name, convert in CONSTANTS.items():
        if name in type_ and isinstance(value, int):
            return convert(value)
    return torch.device(value) if "Device" in type_ else value


def call(
    op: ir.Operation, function: ir.Operation, operands: Sequence[torch.Tensor | Buffer], symbols: Sequence[int]
) -> list[torch.Tensor | Buffer]:
    """Calls the operator of an ATen function at the func.call `op`; returns the outputs that the function returns.

    In the program stage a function with `bascule.out` takes its destinations last and returns nothing.
    """
    attributes = function.attributes
    tensors = [operand.tensor if isinstance(operand, Buffer) else operand for operand in operands]
    for number in attributes[MUTATES] if MUTATES in attributes else ():
        tensors[number] = tensors[number].clone()  # the operator writes it; the caller's stays as it is
    writes = OUT in attributes and len(op.results) == 0
    name = attributes[OUT if writes else EXTERN].value
    try:
        overload = operator(name)
    except (AttributeError, ValueError):
        raise error(op, f"calls the operator '{name}', which torch does not have") from None
    parameters = parameters_of(overload._schema, MUTATES in attributes)
    values = [
        decode(attribute, str(parameter.real_type), tensors, symbols)
        for attribute, parameter in zip(attributes[ARGUMENTS], parameters)
    ]
    positional = [value for value, parameter in zip(values, parameters) if not parameter.kwarg_only]
    named = {parameter.name: value for value, parameter in zip(values, parameters) if parameter.kwarg_only}
    if writes:
        outs = [p.name for p in overload._schema.arguments if p.is_out]
        destinations = tensors[len(tensors) - len(outs) :]
        overload(*positional, **named, **dict(zip(outs, destinations)))
        return []
    written = attributes[MUTATES] if MUTATES in attributes else ()
    try:
        outputs = overload(*positional, **named)
    except (TypeError, RuntimeError, IndexError) as reason:  # it does not take these arguments, or refuses the data
        raise error(op, f"of '{name}': {reason}") from reason
    outputs = (_flat(outputs) if overload._schema.returns else []) + [tensors[k] for k in written]
    positions = list(attributes[RESULTS])
    if len(positions) != len(op.results) or any(not 0 <= i < len(outputs) for i in positions):
        raise error(op, f"of '{name}', which returns {len(outputs)} values, asks for those at {positions}")
    results = [outputs[i] for i in positions]
    return [_result(op, result, value, symbols) for result, value in zip(op.results, results)]


def _flat(outputs: Any) -> list[Any]:
    """An operator's outputs in order, those of a list of tensors one by one."""
    if isinstance(outputs, list | tuple):
        return [part for output in outputs for part in _flat(output)]
    return [outputs]


def _result(op: ir.Operation, result: ir.Value, value: torch.Tensor, symbols: Sequence[int]) -> torch.Tensor | Buffer:
    """An output of an operator, which must have the dtype, sizes and strides that the IR states if anything uses it."""
    type_ = result.type
    if not list(result.uses):
        return value
    if value.dtype != dtype_of(type_.element_type):
        raise error(op, f"returns {value.dtype} for {type_}")
    static = zip(value.shape, (None if type_.is_dynamic_dim(i) else type_.get_dim_size(i) for i in range(type_.rank)))
    if value.dim() != type_.rank or any(want not in (None, got) for got, want in static):
        raise error(op, f"returns sizes {list(value.shape)} for {type_}")
    strides, _ = layout_strides(type_, symbols)
    if not same_strides(value, strides):
        raise error(op, f"returns strides {list(value.stride())} for {type_}")
    return Buffer(value, value.storage_offset()) if isinstance(type_, ir.MemRefType) else value


__all__ = ["call", "decode", "operator"]

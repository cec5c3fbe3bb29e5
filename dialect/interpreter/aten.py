"""Calls of ATen functions: the operator, its arguments from `bascule.arguments`, and which results are returned."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from bascule.compat.operators.schemas import OpOverload

from ..ir.attributes import OperandAttr
from ..ir.functions import ARGUMENTS, EFFECTS, EXTERN, MUTATES, OUT, RESULTS, parameters_of
from ..ir.scalar_types import scalar_type_name
from ..ir.signatures import operand_numbers
from ..mlir import ir
from .errors import InterpreterError, error
from .maps import evaluate
from .numerics.precision import OWN, computed, computing_in, is_double, is_stochastic, nudged, widened
from .values import Buffer, dtype_of, is_freed, layout_strides, same_strides, stored_dtype

# Numbers of c10::MemoryFormat and c10::Layout: how the IR spells constants of these types.
MEMORY_FORMATS = (torch.contiguous_format, torch.preserve_format, torch.channels_last, torch.channels_last_3d)
LAYOUTS = {0: torch.strided}
CONSTANTS: dict[str, Callable[[int], Any]] = {
    "ScalarType": lambda number: computed(getattr(torch, scalar_type_name(number))),
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
    name = attributes[OUT if OUT in attributes and len(op.results) == 0 else EXTERN].value
    try:
        overload = operator(name)
    except (AttributeError, ValueError):
        raise error(op, f"calls the operator '{name}', which torch does not have") from None
    tensors = [operand.tensor if isinstance(operand, Buffer) else operand for operand in operands]
    if not is_double():
        return _call(op, function, overload, tensors, symbols)
    if not _looks_at_bits(overload):
        try:
            return _call(op, function, overload, tensors, symbols)
        except _Refusal:  # it has no kernel for double
            pass
    return _call_narrow(op, function, overload, tensors, symbols)


class _Refusal(InterpreterError):
    """An operator does not take its arguments, or refuses the data."""


def _looks_at_bits(overload: OpOverload) -> bool:
    """Whether in double an operator would not do the same: one that draws takes other random numbers."""
    return torch.Tag.nondeterministic_seeded in overload.tags or overload is torch.ops.aten.view.dtype


def _destinations(op: ir.Operation, overload: OpOverload) -> list[str]:
    """The parameters that an operator writes, where a call of it returns nothing: they come last."""
    return [p.name for p in overload._schema.arguments if p.is_out] if len(op.results) == 0 else []


def _written(op: ir.Operation, function: ir.Operation, overload: OpOverload, count: int) -> Iterator[int]:
    """The numbers of the operands, of so many, that a call writes: destinations, and what an operator works on in place."""
    yield from range(count - len(_destinations(op, overload)), count)
    if MUTATES not in function.attributes:  # else it writes to copies
        for parameter, attribute in zip(overload._schema.arguments, function.attributes[ARGUMENTS]):
            if parameter.alias_info is not None and parameter.alias_info.is_write:
                yield from operand_numbers(attribute)


def _call_narrow(
    op: ir.Operation,
    function: ir.Operation,
    overload: OpOverload,
    tensors: Sequence[torch.Tensor],
    symbols: Sequence[int],
) -> list[torch.Tensor | Buffer]:
    """Calls the operator on what the IR's types say; what it makes, or writes, is in double again."""
    types = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value).inputs[-len(tensors) or None :]
    narrow = [t.to(stored_dtype(getattr(type_, "element_type", type_))) for t, type_ in zip(tensors, types)]
    with computing_in(OWN):
        made = _call(op, function, overload, narrow, symbols)
    for number in _written(op, function, overload, len(tensors)):
        tensors[number].copy_(narrow[number])
    whole = [widened(x.tensor if isinstance(x, Buffer) else x) for x in made]
    return [Buffer(t, 0) if isinstance(x, Buffer) else t for t, x in zip(whole, made)]


def _call(
    op: ir.Operation,
    function: ir.Operation,
    overload: OpOverload,
    tensors: Sequence[torch.Tensor],
    symbols: Sequence[int],
) -> list[torch.Tensor | Buffer]:
    attributes = function.attributes
    written = list(attributes[MUTATES]) if MUTATES in attributes else []
    outs = _destinations(op, overload)
    read = len(tensors) - len(outs)
    if any(map(is_freed, tensors)):
        raise error(op, f"of '{overload}' is given memory that was given back")
    copies = is_stochastic() and EFFECTS not in attributes  # what has effects has them on the memory itself
    given = [nudged(t) if copies and n < read else t for n, t in enumerate(tensors)]
    for number in written:
        given[number] = given[number].clone()  # the operator writes it; the caller's stays as it is
    parameters = parameters_of(overload._schema, MUTATES in attributes)
    values = [
        decode(attribute, str(parameter.real_type), given, symbols)
        for attribute, parameter in zip(attributes[ARGUMENTS], parameters)
    ]
    positional = [value for value, parameter in zip(values, parameters) if not parameter.kwarg_only]
    named = {parameter.name: value for value, parameter in zip(values, parameters) if parameter.kwarg_only}
    try:
        outputs = overload(*positional, **named, **dict(zip(outs, given[read:])))
    except (TypeError, RuntimeError, IndexError) as reason:
        refused = error(op, f"of '{overload}': {reason}")
        raise _Refusal(refused.message, location=refused.location) from reason
    if outs:
        return []
    found = (_flat(outputs) if overload._schema.returns else []) + [given[k] for k in written]
    positions = list(attributes[RESULTS])
    if len(positions) != len(op.results) or any(not 0 <= i < len(found) for i in positions):
        raise error(op, f"of '{overload}', which returns {len(found)} values, asks for those at {positions}")
    return [_result(op, result, found[i], symbols) for result, i in zip(op.results, positions)]


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
    if is_double() and value.dtype == stored_dtype(type_.element_type):
        value = widened(value)  # an operator whose results have a dtype of their own
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

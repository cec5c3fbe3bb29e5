"""The fallback of an operator that no rule takes: a call of its ATen function.

No result of an ATen function shares memory with an operand: of an operator that returns a view, the `_copy` form is called. (That of
`wait_tensor` does, but nothing else uses the operand.)
"""

from collections.abc import Sequence
from typing import Any

import torch
from bascule.dialect.ir.scalar_types import scalar_type_number
from bascule.dialect.ir.shapes import shape_of, tensor_type
from bascule.dialect.mlir import ir

from bascule.compat.operators.schemas import Argument, OpOverload

from ..fx.node_calls import STORAGE_OFFSETS, is_written
from ..fx.operator_effects import WAIT, only_begins
from .context import Conversion
from .extern_calls import Tensors, call, encode, overload, relaid
from .torch_stage import operator_name, unsupported


def _is_waited_for(op: ir.Operation) -> bool:
    """Whether each result of `op`, which only begins, is waited for in its graph."""
    return all(
        any(operator_name(use.owner.operation).split(".")[1] == WAIT for use in result.uses) for result in op.results
    )


def _lasting(c: Conversion, argument: Any) -> Any:
    """`argument` with row-major copies of its tensors, which nothing else takes, so that their memory is nobody else's."""
    if isinstance(argument, list | tuple):
        return [_lasting(c, part) for part in argument]
    if not isinstance(argument, ir.Value):
        return argument
    sizes, contiguous = shape_of(argument), 0
    types = [tensor_type(sizes, argument.type.element_type)]
    reason = "a caller may wait for what reads it"
    (copy,) = call(c.externs, "aten.clone.default", [argument, contiguous], types, [sizes], reason=reason)
    return copy


def _returns_view(operator: OpOverload) -> bool:
    returned = [result.alias_info for result in operator._schema.returns]
    return any(alias is not None and not alias.is_write for alias in returned)


def fall_back(c: Conversion, arguments: Sequence[Any], reason: str) -> Tensors:
    """The op of `c` as a call of its operator, because of `reason`; one value a result."""
    operator = overload(c.operator)
    if operator in STORAGE_OFFSETS:  # which count from the argument's first element here and from the storage's in ATen
        raise unsupported(c.op, c.operator, reason)
    if operator is not None:
        if any(map(_is_symbolic_float, arguments, operator._schema.arguments)):  # the host has it between two graphs
            raise unsupported(c.op, c.operator, f"{reason}; ATen takes it from the host")
        if operator._schema.is_mutable:
            return _functional(c, operator, arguments, reason)
        if only_begins(operator) and not _is_waited_for(c.op):
            arguments = _lasting(c, arguments)
        arguments = _with_a_tensor(c, operator, arguments)
        if _returns_view(operator):
            return _copied(c, arguments, reason)
    return call(c.externs, c.operator, arguments, c.results, c.result_sizes, reason=reason)


def _functional(c: Conversion, operator: OpOverload, arguments: Sequence[Any], reason: str) -> Tensors:
    """An operator that writes to arguments, whose op has a result more for each tensor written: the new contents."""
    pairs = zip(operator._schema.arguments, arguments)
    written = [x for p, x in pairs if is_written(p) and x is not None]
    tensors = [tensor for x in written for tensor in (x if isinstance(x, list) else [x])]
    if len(c.results) < len(operator._schema.returns) + len(tensors):
        raise unsupported(c.op, c.operator, "mutates its arguments")
    operands: list[ir.Value] = []
    for argument in arguments:
        encode(argument, operands)
    mutates = [operands.index(tensor) for tensor in tensors]
    return call(c.externs, c.operator, arguments, c.results, c.result_sizes, reason=reason, mutates=mutates)


def _is_symbolic_float(argument: Any, parameter: Argument) -> bool:
    """Whether a number is computed from sizes by a graph, as a tensor."""
    if not isinstance(argument, ir.Value):
        return False
    wanted = parameter.type.getElementType() if isinstance(parameter.type, torch.OptionalType) else parameter.type
    return isinstance(wanted, torch.NumberType | torch.FloatType)


def _with_a_tensor(c: Conversion, operator: OpOverload, arguments: Sequence[Any]) -> Sequence[Any]:
    """`arguments`, where all tensors among them are numbers with those made tensors: ATen takes a number for a tensor only beside one."""
    if any(isinstance(argument, ir.Value | list) for argument in arguments):
        return arguments

    def tensor(number: Any, parameter: Argument) -> Any:
        if number is None or not isinstance(parameter.type, torch.TensorType):
            return number
        element = c.results[0].element_type
        wanted = [number, scalar_type_number(element), None, None, None]
        (value,) = call(
            c.externs, "aten.scalar_tensor.default", wanted, [tensor_type([], element)], [[]], reason="a number"
        )
        return value

    return [tensor(*pair) for pair in zip(arguments, operator._schema.arguments)]


def _copied(c: Conversion, arguments: Sequence[Any], reason: str) -> Tensors:
    """The copying form of a view operator, whose results are row-major, under the view's types."""
    namespace, name, kind = c.operator.split(".")
    operator = f"{namespace}.{name}_copy.{kind}"
    if overload(operator) is None:
        raise unsupported(c.op, c.operator, "returns a view and has no form that copies")
    types = [type_ and tensor_type(sizes, type_.element_type) for type_, sizes in zip(c.results, c.result_sizes)]
    values = call(c.externs, operator, arguments, types, c.result_sizes, reason=reason)
    return [value and relaid(value, type_, sizes) for value, type_, sizes in zip(values, c.results, c.result_sizes)]

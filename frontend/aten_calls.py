"""Calls of ATen functions: arguments as attributes, tensors as operands, and the reason why the operator is not generated.

No result of an ATen function shares memory with an operand: of an operator that returns a view, the `_copy` form is called. (That of
`wait_tensor` does, but nothing else uses the operand.) What an operator has only begun may read its operands until it is waited for: the wait
has them among its operands, behind those that it is called with, so that they stay as they are until then.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from bascule.dialect.ir import OperandAttr, builders
from bascule.dialect.ir.functions import Externs
from bascule.dialect.ir.scalar_types import scalar_type_number
from bascule.dialect.ir.shapes import index_map, shape_of, size_map, tensor_type
from bascule.dialect.mlir import ir

from .node_arguments import STORAGE_OFFSETS
from .operator_effects import WAIT, keeps_order, only_begins
from .out_overloads import out_overload
from .torch_ops import operator_name, unsupported

if TYPE_CHECKING:
    from .conversion import Conversion

Tensors: TypeAlias = list[ir.Value | None]


def encode(argument: Any, operands: list[ir.Value]) -> ir.Attribute:
    """`argument`, decoded as a rule sees it, as an element of `bascule.arguments`; appends the tensors in it to `operands`."""
    match argument:
        case ir.Value():
            number = next((i for i, known in enumerate(operands) if known == argument), len(operands))
            if number == len(operands):
                operands.append(argument)
            return OperandAttr.get(_i64(number))
        case None:
            return ir.UnitAttr.get()
        case bool():
            return ir.BoolAttr.get(argument)
        case int():
            return _i64(argument)
        case float():
            return ir.FloatAttr.get_f64(argument)
        case complex():
            return ir.DenseF64ArrayAttr.get([argument.real, argument.imag])
        case str():
            return ir.StringAttr.get(argument)
        case ir.AffineExpr():
            return ir.AffineMapAttr.get(size_map([argument]))
        case list() | tuple():
            return ir.ArrayAttr.get([encode(part, operands) for part in argument])
    raise AssertionError(f"an argument of type {type(argument)} has no encoding")


def _i64(value: int) -> ir.IntegerAttr:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)


def call(
    externs: Externs,
    operator: str,
    arguments: Sequence[Any],
    types: Sequence[ir.RankedTensorType | None],
    sizes: Sequence[Sequence[ir.AffineExpr] | None],
    *,
    reason: str,
    mutates: Sequence[int] | None = None,
) -> Tensors:
    """Calls `operator` at the insertion point. `types` and `sizes` are of all its outputs, None for what is not a tensor.

    Returns a value an output (None likewise).
    """
    operands: list[ir.Value] = []
    encoded = [encode(argument, operands) for argument in arguments]
    operands += [x for x in _begun_with(externs, operands) if x not in operands]
    found = overload(operator)
    positions = [i for i, type_ in enumerate(types) if type_ is not None]
    dynamic = any(not types[i].has_static_shape for i in positions)
    values = externs.call(
        operator,
        encoded,
        operands,
        [types[i] for i in positions],
        positions=positions,
        mutates=mutates,
        shapes=[size_map(sizes[i]) for i in positions] if dynamic else None,
        reason=reason,
        out=out_overload(operator) if None not in types and mutates is None else None,
        effects=found is not None and keeps_order(found),
        begins=found is not None and only_begins(found),
    )
    results: Tensors = [None] * len(types)
    for position, value in zip(positions, values):
        results[position] = value
    return results


def relaid(value: ir.Value, type_: ir.RankedTensorType, sizes: Sequence[ir.AffineExpr]) -> ir.Value:
    """`value` under `type_`, which differs from its own type in the layout only."""
    if value.type == type_:
        return value
    identity = [ir.AffineExpr.get_dim(i) for i in range(type_.rank)]
    return builders.view(value, index_map(type_.rank, identity), sizes, type_)


def overload(operator: str) -> torch._ops.OpOverload | None:
    """`torch.ops.aten.add.Tensor` for "aten.add.Tensor"; None for an operator that is not registered in this process."""
    namespace, name, kind = operator.split(".")
    packet = getattr(getattr(torch.ops, namespace), name, None)
    return getattr(packet, kind, None)


def _begun_with(externs: Externs, operands: Sequence[ir.Value]) -> list[ir.Value]:
    """The operands of the calls that have only begun to make `operands`."""
    found: dict[ir.Value, None] = {}
    for value in operands:
        if not isinstance(value.owner, ir.Block) and externs.begins(value.owner.operation):
            found.update(dict.fromkeys(value.owner.operation.operands))
    return [*found]


def _is_waited_for(op: ir.Operation) -> bool:
    """Whether each result of `op`, which only begins, is waited for in its graph."""
    return all(
        any(operator_name(use.owner.operation).split(".")[1] == WAIT for use in result.uses) for result in op.results
    )


def _lasting(c: "Conversion", argument: Any) -> Any:
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


def _returns_view(operator: torch._ops.OpOverload) -> bool:
    returned = [result.alias_info for result in operator._schema.returns]
    return any(alias is not None and not alias.is_write for alias in returned)


def fall_back(c: "Conversion", arguments: Sequence[Any], reason: str) -> Tensors:
    """The op of `c` as a call of its operator, because of `reason`; one value a result."""
    operator = overload(c.operator)
    if operator in STORAGE_OFFSETS:  # which count from the argument's first element here and from the storage's in ATen
        raise unsupported(c.op, c.operator, reason)
    if operator is not None:
        if operator._schema.is_mutable:
            return _functional(c, operator, arguments, reason)
        if only_begins(operator) and not _is_waited_for(c.op):
            arguments = _lasting(c, arguments)
        arguments = _with_a_tensor(c, operator, arguments)
        if _returns_view(operator):
            return _copied(c, arguments, reason)
    return call(c.externs, c.operator, arguments, c.results, c.result_sizes, reason=reason)


def _functional(c: "Conversion", operator: torch._ops.OpOverload, arguments: Sequence[Any], reason: str) -> Tensors:
    """An operator that writes to arguments, whose op has a result more for each tensor written: the new contents."""
    pairs = zip(operator._schema.arguments, arguments)
    written = [x for p, x in pairs if p.alias_info is not None and p.alias_info.is_write and x is not None]
    tensors = [tensor for x in written for tensor in (x if isinstance(x, list) else [x])]
    if len(c.results) < len(operator._schema.returns) + len(tensors):
        raise unsupported(c.op, c.operator, "mutates its arguments")
    operands: list[ir.Value] = []
    for argument in arguments:
        encode(argument, operands)
    mutates = [operands.index(tensor) for tensor in tensors]
    return call(c.externs, c.operator, arguments, c.results, c.result_sizes, reason=reason, mutates=mutates)


def _with_a_tensor(c: "Conversion", operator: torch._ops.OpOverload, arguments: Sequence[Any]) -> Sequence[Any]:
    """`arguments`, where all tensors among them are numbers with those made tensors: ATen takes a number for a tensor only beside one."""
    if any(isinstance(argument, ir.Value | list) for argument in arguments):
        return arguments

    def tensor(number: Any, parameter: torch._C.Argument) -> Any:
        if number is None or not isinstance(parameter.type, torch.TensorType):
            return number
        element = c.results[0].element_type
        wanted = [number, scalar_type_number(element), None, None, None]
        (value,) = call(
            c.externs, "aten.scalar_tensor.default", wanted, [tensor_type([], element)], [[]], reason="a number"
        )
        return value

    return [tensor(*pair) for pair in zip(arguments, operator._schema.arguments)]


def _copied(c: "Conversion", arguments: Sequence[Any], reason: str) -> Tensors:
    """The copying form of a view operator, whose results are row-major, under the view's types."""
    namespace, name, kind = c.operator.split(".")
    operator = f"{namespace}.{name}_copy.{kind}"
    if overload(operator) is None:
        raise unsupported(c.op, c.operator, "returns a view and has no form that copies")
    types = [type_ and tensor_type(sizes, type_.element_type) for type_, sizes in zip(c.results, c.result_sizes)]
    values = call(c.externs, operator, arguments, types, c.result_sizes, reason=reason)
    return [value and relaid(value, type_, sizes) for value, type_, sizes in zip(values, c.results, c.result_sizes)]

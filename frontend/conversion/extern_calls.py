"""Calls of ATen functions: arguments as attributes, tensors as operands, and the reason why the operator is not generated.

What an operator has only begun may read its operands until it is waited for: the wait has them among its operands, behind those that it is
called with, so that they stay as they are until then.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import torch
from bascule.dialect.ir import OperandAttr, builders
from bascule.dialect.ir.attributes import i64
from bascule.dialect.ir.functions import Externs
from bascule.dialect.ir.shapes import index_map, size_map
from bascule.dialect.mlir import ir

from bascule.compat.operators.schemas import OpOverload

from ..fx.operator_effects import group_ranks, keeps_order, only_begins
from .out_overloads import out_overload

Tensors: TypeAlias = list[ir.Value | None]


def encode(argument: Any, operands: list[ir.Value]) -> ir.Attribute:
    """`argument`, decoded as a rule sees it, as an element of `bascule.arguments`; appends the tensors in it to `operands`."""
    match argument:
        case ir.Value():
            number = next((i for i, known in enumerate(operands) if known == argument), len(operands))
            if number == len(operands):
                operands.append(argument)
            return OperandAttr.get(i64(number))
        case None:
            return ir.UnitAttr.get()
        case bool():
            return ir.BoolAttr.get(argument)
        case int():
            return i64(argument)
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
    begins = found is not None and only_begins(found)
    positions = [i for i, type_ in enumerate(types) if type_ is not None]
    dynamic = any(not type_.has_static_shape for type_ in types if type_ is not None)
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
        begins=begins,
        ranks=group_ranks(found, arguments) if begins else None,
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


def overload(operator: str) -> OpOverload | None:
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

"""The pass `drop-roundings`: a value that was rounded only to be stored keeps its precision where fusion removed the store."""

from dataclasses import dataclass
from typing import ClassVar

from ..ir.regions import end_of, ops_in
from ..ir.types import rounds_for_store
from ..mlir import ir
from .base import VALUES, Pass


@dataclass(frozen=True)
class DropRoundings(Pass):
    """Replaces `extf(truncf(x))` by `x`, where the `truncf` has no rounding mode.

    Every operator on f16 and bf16 ends in a `truncf` for its store and starts with an `extf` after its load. After fusion the two
    meet with no memory between them. A `truncf` that the user's own cast made has a rounding mode and stays. The rounded value may
    come through `arith.select` and `scf.if`, which then work in the wider type. Takes and leaves the tensor or kernel stage.
    """

    name: ClassVar[str] = "drop-roundings"
    takes: ClassVar[str] = VALUES

    def run(self, module: ir.Module) -> None:
        for op in [op for op in ops_in(module.operation) if op.name == "arith.extf"]:
            _drop(op)


def _drop(extension: ir.Operation) -> None:
    source, wide = extension.operands[0], extension.results[0].type
    if source.type == wide:  # an `scf.if` that became wide when another of its users was visited
        value = source
    elif _rounded(source, wide):
        with extension.location:
            value = _widened(source, wide, ir.InsertionPoint(extension))
    else:
        return
    extension.results[0].replace_all_uses_with(value)
    extension.erase()
    _erase_dead(source)


def _erase_dead(value: ir.Value) -> None:
    op = value.owner
    if isinstance(op, ir.Block) or op.name not in ("arith.truncf", "arith.select") or any(True for _ in value.uses):
        return
    operands = list(op.operands)
    op.erase()
    for operand in dict.fromkeys(operands):
        _erase_dead(operand)


def _is_own_rounding(op: ir.Operation, wide: ir.Type) -> bool:
    return rounds_for_store(op) and op.operands[0].type == wide


def _yields(op: ir.Operation) -> list[ir.Operation]:
    """The yields that end the branches of an `scf.if`."""
    return [end_of(region.blocks[0]) for region in op.regions]


def _rounded(value: ir.Value, wide: ir.Type) -> bool:
    """Whether a rounding of ours, of a number in `wide`, reaches `value`."""
    op = value.owner
    if isinstance(op, ir.Block):
        return False
    if op.name == "arith.select":
        return any(_rounded(operand, wide) for operand in list(op.operands)[1:])
    if op.name == "scf.if":
        number = ir.OpResult(value).result_number
        return _only_extended(value, wide) and any(_rounded(end.operands[number], wide) for end in _yields(op))
    return _is_own_rounding(op, wide)


def _only_extended(value: ir.Value, wide: ir.Type) -> bool:
    """Whether all that happens to `value` is an extension to `wide`: only then may an `scf.if` yield it in `wide`."""
    users = [use.owner.operation for use in value.uses]
    return all(user.name == "arith.extf" and user.results[0].type == wide for user in users)


def _widened(value: ir.Value, wide: ir.Type, at: ir.InsertionPoint) -> ir.Value:
    """`value` in `wide`, without the roundings of ours on its way; new ops are built at `at`."""
    op = value.owner
    if not isinstance(op, ir.Block):
        if _is_own_rounding(op, wide):
            return op.operands[0]
        if op.name == "arith.select" and _rounded(value, wide):
            operands = [_widened(operand, wide, at) for operand in list(op.operands)[1:]]
            return _create("arith.select", wide, [op.operands[0], *operands], at)
        if op.name == "scf.if" and _rounded(value, wide):
            number = ir.OpResult(value).result_number
            for end in _yields(op):
                branch = end.operands[number]
                end.operands[number] = _widened(branch, wide, ir.InsertionPoint(end))
                _erase_dead(branch)
            value.set_type(wide)
            return value
    return _create("arith.extf", wide, [value], at)


def _create(name: str, type_: ir.Type, operands: list[ir.Value], at: ir.InsertionPoint) -> ir.Value:
    return ir.Operation.create(name, results=[type_], operands=operands, ip=at).result

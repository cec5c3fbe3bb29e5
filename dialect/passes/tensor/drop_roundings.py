"""The pass `drop-roundings`: a value that was rounded only to be stored keeps its precision where fusion removed the store."""

from dataclasses import dataclass
from typing import ClassVar

from ...ir.regions import end_of, ops_in
from ...ir.types import CAST, ROUNDED, STORED, is_narrow, is_undone
from ...mlir import ir
from ..base import VALUES, Pass


@dataclass(frozen=True)
class DropRoundings(Pass):
    """Replaces `extf(truncf(x))` by `x`, where the `truncf` has no rounding mode, unless their marks say otherwise.

    Every operator on f16 and bf16 ends in a `truncf` for its store and starts with an `extf` after its load. After fusion the two
    meet with no memory between them. Conversions that the user wrote are marked `bascule.cast`: of `x.to(torch.bfloat16).float()` both
    are, so that it rounds, and of `x.to(torch.bfloat16) * y` in bf16 the first alone. An `extf` marked `bascule.stored`, as those of
    comparisons are, takes what is rounded. A `truncf` with a rounding mode stays: that of every result with `numerics=eager`. The rounded
    value may come through `arith.select` and `scf.if`, which then work in the wider type. An op whose result was rounded for all that read
    it is marked `bascule.rounded`: functions that lead to it may be approximated. Takes and leaves the tensor or kernel stage.
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
    elif _rounded(source, extension):
        with extension.location:
            value = _widened(source, extension, ir.InsertionPoint(extension))
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


def _yields(op: ir.Operation) -> list[ir.Operation]:
    """The yields that end the branches of an `scf.if`."""
    return [end_of(region.blocks[0]) for region in op.regions]


def _rounded(value: ir.Value, extension: ir.Operation) -> bool:
    """Whether a rounding that `extension` undoes reaches `value`."""
    op = value.owner
    if isinstance(op, ir.Block):
        return False
    if op.name == "arith.select":
        return any(_rounded(operand, extension) for operand in list(op.operands)[1:])
    if op.name == "scf.if":
        number = ir.OpResult(value).result_number
        return _only_extended(value, extension) and any(
            _rounded(end.operands[number], extension) for end in _yields(op)
        )
    return is_undone(op, extension)


def _only_extended(value: ir.Value, extension: ir.Operation) -> bool:
    """Whether all that happens to `value` are extensions like `extension`: only then may an `scf.if` yield what they make."""
    users = [use.owner.operation for use in value.uses]
    return all(
        user.name == "arith.extf"
        and user.results[0].type == extension.results[0].type
        and _marks(user) == _marks(extension)
        for user in users
    )


def _widened(value: ir.Value, extension: ir.Operation, at: ir.InsertionPoint) -> ir.Value:
    """`value` as wide as `extension` makes it, without the roundings on its way that it undoes; new ops are built at `at`."""
    op, wide = value.owner, extension.results[0].type
    if not isinstance(op, ir.Block):
        if is_undone(op, extension):
            _mark(op.operands[0])
            return op.operands[0]
        if op.name == "arith.select" and _rounded(value, extension):
            operands = [_widened(operand, extension, at) for operand in list(op.operands)[1:]]
            return _create("arith.select", wide, [op.operands[0], *operands], at)
        if op.name == "scf.if" and _rounded(value, extension):
            number = ir.OpResult(value).result_number
            for end in _yields(op):
                branch = end.operands[number]
                end.operands[number] = _widened(branch, extension, ir.InsertionPoint(end))
                _erase_dead(branch)
            value.set_type(wide)
            return value
    return _create("arith.extf", wide, [value], at, _marks(extension))


def _mark(value: ir.Value) -> None:
    """Tells that `value` is rounded by all that read it, where it is."""
    users = [use.owner.operation for use in value.uses]
    if not isinstance(value.owner, ir.Block) and all(
        user.name == "arith.truncf" and is_narrow(user.results[0].type) for user in users
    ):
        value.owner.attributes[ROUNDED] = ir.UnitAttr.get()


def _marks(extension: ir.Operation) -> dict[str, ir.Attribute]:
    return {mark: extension.attributes[mark] for mark in (CAST, STORED) if mark in extension.attributes}


def _create(
    name: str,
    type_: ir.Type,
    operands: list[ir.Value],
    at: ir.InsertionPoint,
    attributes: dict[str, ir.Attribute] | None = None,
) -> ir.Value:
    return ir.Operation.create(name, results=[type_], operands=operands, attributes=attributes, ip=at).result

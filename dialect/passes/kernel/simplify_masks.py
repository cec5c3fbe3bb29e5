"""The pass `simplify-masks`: a mask drawn at random is a comparison of whole numbers, and what it multiplies by, a choice of two constants."""

from dataclasses import dataclass
from math import ceil, floor
from typing import ClassVar

from ...ir import builders
from ...ir.philox import DIGITS
from ...ir.regions import ops_in
from ...mlir import arith, ir
from ..base import VALUES, Pass

# A comparison of a uniform number with a constant -> that of its bits, and the least upper digits that it starts to hold or to fail at.
_COMPARISONS = {
    arith.CmpFPredicate.OLT: (arith.CmpIPredicate.ult, ceil),
    arith.CmpFPredicate.OGE: (arith.CmpIPredicate.uge, ceil),
    arith.CmpFPredicate.OLE: (arith.CmpIPredicate.ult, lambda x: floor(x) + 1),
    arith.CmpFPredicate.OGT: (arith.CmpIPredicate.uge, lambda x: floor(x) + 1),
}


@dataclass(frozen=True)
class SimplifyMasks(Pass):
    """Compares the bits of a `bascule.random` with a whole number, where all that uses the uniform number compares it with constants between 0
    and 1, as a dropout does: a uniform number is its upper bits over a power of two. And `uitofp(mask) * constant`, of a positive constant, is
    a choice of the constant or 0. Both are exact. Takes and leaves the tensor or kernel stage.
    """

    name: ClassVar[str] = "simplify-masks"
    takes: ClassVar[str] = VALUES

    def run(self, module: ir.Module) -> None:
        with module.context:
            for op in list(ops_in(module.operation)):
                if op.name == "bascule.random" and op.attributes["distribution"].value == "uniform":
                    _compare_bits(op)
                elif op.name == "arith.mulf":
                    _choose(op)


def _compare_bits(random: ir.Operation) -> None:
    """Erases `random` with the comparisons, if those are all its users."""
    width = random.results[0].type.width
    digits = DIGITS[width]
    users = list(dict.fromkeys(use.owner.operation for use in random.results[0].uses))
    found = []
    for user in users:
        limit = _number(user.operands[1]) if user.name == "arith.cmpf" else None
        predicate = arith.CmpFPredicate(user.attributes["predicate"].value) if limit is not None else None
        if limit is None or predicate not in _COMPARISONS:
            return
        compare, least = _COMPARISONS[predicate]
        upper = least(limit * 2**digits)
        if not 0 < upper < 2**digits:
            return
        found.append((user, compare, upper << (width - digits)))
    if not found:
        return
    type_ = ir.IntegerType.get_signless(width)
    with ir.InsertionPoint(random), random.location:
        seed, position = random.operands
        bits = builders.random("bits", seed, position, type_)
    for user, compare, bound in found:
        with ir.InsertionPoint(user), user.location:
            signed = bound - (1 << width) if bound >> (width - 1) else bound
            mask = arith.cmpi(compare, bits, arith.constant(type_, signed))
        user.results[0].replace_all_uses_with(mask)
        user.erase()
    random.erase()


def _choose(product: ir.Operation) -> None:
    mask, factor = product.operands
    if _mask(mask) is None:
        mask, factor = factor, mask
    condition, number = _mask(mask), _number(factor)
    if condition is None or number is None or number <= 0.0:
        return
    with ir.InsertionPoint(product), product.location:
        zero = arith.constant(product.results[0].type, 0.0)
        chosen = arith.select(condition, factor, zero)
    product.results[0].replace_all_uses_with(chosen)
    product.erase()
    if not any(True for _ in mask.uses):
        mask.owner.erase()


def _mask(value: ir.Value) -> ir.Value | None:
    """The condition that `value` is 1.0 or 0.0 by."""
    op = value.owner
    if isinstance(op, ir.Block) or op.name != "arith.uitofp":
        return None
    condition = op.operands[0]
    return condition if condition.type == ir.IntegerType.get_signless(1) else None


def _number(value: ir.Value) -> float | None:
    """The finite number that `value` always is."""
    op = value.owner
    if isinstance(op, ir.Block) or op.name != "arith.constant" or not isinstance(value.type, ir.FloatType):
        return None
    number = op.attributes["value"].value
    return number if abs(number) < float("inf") else None

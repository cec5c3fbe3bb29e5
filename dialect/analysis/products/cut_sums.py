"""Sums of products over a part of what they run over, from one index to another that are computed around them, as over the rows of one group."""

from dataclasses import dataclass

from ...ir.regions import end_of
from ...mlir import arith, ir
from ..bodies.body_tree import indices_of
from .contractions import before_widening, factor

FROM, BEFORE = arith.CmpIPredicate.sge, arith.CmpIPredicate.slt


@dataclass(frozen=True)
class CutSum:
    """A reduction that sums products of `factors`, what is read in it, where its index is from `first` on and before `end`, and else 0."""

    first: ir.Value
    end: ir.Value
    factors: tuple[ir.Value, ir.Value]


def cut_sum(reduce: ir.Operation) -> CutSum | None:
    """The cut sum that a reduction is; None where it is something else."""
    block = reduce.regions[0].blocks[0]
    if reduce.attributes["kind"].value != "sum" or len(indices_of(reduce)) != 1 or len(end_of(block).operands) != 1:
        return None
    chosen = [made(each, "arith.select") for number in (0, 1) if (each := factor(reduce, number)) is not None]
    found = [operands for operands in chosen if operands is not None and _is_zero(operands[2])]
    if len(found) != 2 or found[0][0] != found[1][0]:
        return None
    ends = _interval(found[0][0], indices_of(reduce)[0])
    if ends is None or any(not isinstance(end.owner, ir.Block) and end.owner.operation.block == block for end in ends):
        return None
    return CutSum(*ends, (before_widening(found[0][1]), before_widening(found[1][1])))


def read_factor(reduce: ir.Operation, number: int) -> ir.Value | None:
    """Factor 0 or 1 of the products that `reduce` sums, before it is widened, and cut; None where it sums something else."""
    cut = cut_sum(reduce)
    return factor(reduce, number) if cut is None else cut.factors[number]


def _interval(condition: ir.Value, index: ir.Value) -> tuple[ir.Value, ir.Value] | None:
    """Between which indices, the second one left out, `condition` of `index` holds."""
    sides = made(condition, "arith.andi") or []
    found = {}
    for side in sides:
        compared = made(side, "arith.cmpi")
        if compared is None or compared[0] != index:
            return None
        found[side.owner.attributes["predicate"].value] = compared[1]
    return (found[FROM], found[BEFORE]) if found.keys() == {int(FROM), int(BEFORE)} else None


def _is_zero(value: ir.Value) -> bool:
    return made(value, "arith.constant") is not None and value.owner.attributes["value"].value == 0.0


def made(value: ir.Value, name: str) -> list[ir.Value] | None:
    """The operands of the op `name` that makes `value`; None where another does."""
    if isinstance(value.owner, ir.Block) or value.owner.name != name:
        return None
    return list(value.owner.operands)

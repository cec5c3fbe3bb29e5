"""Conditions of masks, and the steps of a walk over keys in which they are known: where nothing is hidden, none has to be computed."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

from ...ir.regions import ops_in
from ...mlir import ir
from .visible_keys import ALL, Interval, Masks


@dataclass(frozen=True)
class MaskCondition:
    """The condition of a choice that hides something. Outside of the intervals `hiding` it is `shown`, and hides nothing."""

    condition: ir.Value
    shown: bool
    hiding: tuple[Interval, ...]


def mask_conditions(scores: ir.Operation, masks: Masks) -> Iterator[MaskCondition]:
    """Those in the region of `scores`, a compute over keys, of which it is known where they hide nothing."""
    for op in ops_in(scores):
        if op.name != "arith.select":
            continue
        condition, *choices = op.operands
        one, other = map(_hides, choices)
        if one == other:
            continue
        shown = one < other
        hiding = masks.holds(condition, not shown)
        if hiding and ALL[0] not in hiding:
            yield MaskCondition(condition, shown, hiding)


def _hides(value: ir.Value) -> int:
    """How much a choice looks like one that hides a score or a weight: -inf does, 0 and other constants do beside what is computed."""
    if isinstance(value.owner, ir.Block) or value.owner.name != "arith.constant":
        return 0
    return 2 if value.owner.attributes["value"].value == -inf else 1

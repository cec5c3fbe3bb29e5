"""Parts of a scatter's body, computed elsewhere: what it adds, and what its destination starts as."""

from collections.abc import Sequence

from ..analysis.bodies.backward_slice import needed
from ..ir import builders
from ..ir.regions import clone, end_of
from ..mlir import ir
from .row_scatters import is_made_there


def copied(values: Sequence[ir.Value], block: ir.Block, inside: dict[ir.Value, ir.Value]) -> list[ir.Value]:
    """`values` of `block`, computed at the current insertion point with `inside` in place of the block's arguments."""
    inside = dict(inside)
    for op in needed(values, block).ops:
        clone(op, inside)
    return [inside.get(value, value) for value in values]


def start(init: ir.Value, at: Sequence[ir.Value]) -> ir.Value:
    """The element of a scatter's init at an index; what is computed there without a loop is computed here."""
    if not is_made_there(init):
        return builders.read(init, list(at))
    block = init.owner.operation.regions[0].blocks[0]
    return copied(list(end_of(block).operands), block, dict(zip(block.arguments, at)))[0]

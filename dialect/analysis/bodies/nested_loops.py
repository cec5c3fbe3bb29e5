"""Loops directly inside of others, and how long they are."""

from collections.abc import Sequence
from math import prod

from ...ir.shapes import constant
from ...mlir import ir
from .body_tree import LOOPS


def inner_loops(loop: ir.Operation) -> list[ir.Operation]:
    """The loops in the region of `loop` that are in no other one there."""
    return _in_block(loop.regions[0].blocks[0])


def _in_block(block: ir.Block) -> list[ir.Operation]:
    found = []
    for view in block.operations:
        op = view.operation
        if op.name in LOOPS:
            found.append(op)
        else:
            found += [inner for region in op.regions for nested in region.blocks for inner in _in_block(nested)]
    return found


def iterations(sizes: Sequence[ir.AffineExpr]) -> int | None:
    """The points of a domain; None if that is dynamic."""
    known = [constant(size) for size in sizes]
    return None if None in known else prod(size for size in known if size is not None)

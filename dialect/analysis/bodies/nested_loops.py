"""Loops directly inside of others: what they need of each other, how long they are."""

from collections.abc import Sequence
from math import prod

from ...ir.shapes import constant
from ...mlir import ir
from .accesses import LOOPS


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


def needs(loop: ir.Operation, siblings: Sequence[ir.Operation]) -> set[ir.Operation]:
    """The siblings whose results a loop needs, through whatever stands between."""
    found: set[ir.Operation] = set()
    seen: set[ir.Operation] = set()

    def visit(op: ir.Operation) -> None:
        for operand in op.operands:
            owner = operand.owner
            if isinstance(owner, ir.Block) or owner in seen:
                continue
            seen.add(owner)
            if owner in siblings:
                found.add(owner)
            elif not inside(owner, loop):
                walk(owner)

    def walk(op: ir.Operation) -> None:
        visit(op)
        for region in op.regions:
            for block in region.blocks:
                for view in block.operations:
                    walk(view.operation)

    walk(loop)
    for other in list(found):
        found |= needs(other, siblings)
    return found


def inside(op: ir.Operation, loop: ir.Operation) -> bool:
    parent = op.parent
    while parent is not None:
        if parent.operation == loop:
            return True
        parent = parent.operation.parent
    return False


def follows(loop: ir.Operation, scan: ir.Operation) -> bool:
    """Whether `loop` reads what `scan` makes at its own point, nowhere else."""
    arguments = list(loop.regions[0].blocks[0].arguments)
    uses = [use.owner.operation for use in scan.results[0].uses]
    return any(inside(user, loop) for user in uses) and all(
        user.name == "tensor.extract" and user.parent.operation == loop and list(user.operands)[1:] == arguments
        for user in uses
        if inside(user, loop)
    )

"""Backward slices: the ops of a region that values are computed from."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from ...ir.regions import ops_in
from ...mlir import ir


@dataclass(frozen=True)
class Needs:
    """Ops of a region's block, in order, and the numbers of its arguments."""

    ops: list[ir.Operation]
    arguments: set[int]


def needed(values: Iterable[ir.Value], block: ir.Block, given: Collection[ir.Value] = ()) -> Needs:
    """The backward slice of `values` within `block`, captures of nested regions included. What is around `block` is left out, and what makes
    the values `given`."""
    numbers = {argument: number for number, argument in enumerate(block.arguments)}
    ops: set[ir.Operation] = set()
    arguments: set[int] = set()
    todo = list(values)
    while todo:
        value = todo.pop()
        if value in given:
            continue
        if value in numbers:
            arguments.add(numbers[value])
        elif not isinstance(value.owner, ir.Block):
            op = value.owner.operation
            if op.block == block and op not in ops:
                ops.add(op)
                todo += captured(op)
    return Needs([view.operation for view in block.operations if view.operation in ops] if ops else [], arguments)


def captured(op: ir.Operation) -> list[ir.Value]:
    """All values that `op` and the ops in its regions use, those made in the regions among them."""
    return [operand for inner in ops_in(op) for operand in inner.operands]

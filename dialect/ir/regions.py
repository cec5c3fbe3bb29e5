"""Helpers over an op's regions: its ops in order, the op that ends a block, and clones of ops over other values."""

from collections.abc import Container

from ..mlir import ir

ADVANCE = ir.WalkResult.ADVANCE


def ops_in(op: ir.Operation) -> list[ir.Operation]:
    """`op` and all ops in its regions, each before those in its own regions."""
    found: list[ir.Operation] = []

    def visit(view: ir.Operation) -> ir.WalkResult:
        found.append(view.operation)
        return ADVANCE

    op.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found


def ops_named(op: ir.Operation, names: Container[str]) -> list[tuple[str, ir.Operation]]:
    """Those of `ops_in` that have one of `names`, each with its name: faster, where they are few."""
    found: list[tuple[str, ir.Operation]] = []

    def visit(view: ir.Operation) -> ir.WalkResult:
        name = view.name
        if name in names:
            found.append((name, view.operation))
        return ADVANCE

    op.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found


def end_of(block: ir.Block) -> ir.Operation:
    """The last op of a block. It is looked for from the front: not for every op of a long block."""
    return block.operations[len(block.operations) - 1].operation


def op_in(block: ir.Block, op: ir.Operation) -> ir.Operation:
    """The op of `block` that is `op`, or that has it in its regions."""
    while op.block != block:
        op = op.parent.operation
    return op


def clone(op: ir.Operation, mapping: dict[ir.Value, ir.Value]) -> ir.Operation:
    """A clone of `op` at the insertion point, over what `mapping` has for values that it and its regions use; adds its results there."""
    new = op.clone().operation
    for inner in ops_in(new) if len(new.regions) else (new,):
        for number, operand in enumerate(inner.operands):
            other = mapping.get(operand)
            if other is not None:
                inner.operands[number] = other
    mapping.update(zip(op.results, new.results))
    return new

"""Structural equality of operations, up to the buffers that they use."""

from collections.abc import Sequence

from ...mlir import ir


def form_of(op: ir.Operation, buffers: Sequence[ir.Value]) -> tuple[tuple, list[ir.Value]]:
    """The form of `op`, and those of `buffers` that it uses, in the order in which it first does.

    Two ops with equal forms do the same with their buffers, one by one; whatever else they use from outside is the same.
    """
    known: dict[ir.Value, tuple] = {}
    used: list[ir.Value] = []
    candidates = set(buffers)

    def name(value: ir.Value) -> object:
        if value not in known:
            if value not in candidates:
                return value  # from outside: only itself is equal to it
            known[value] = ("buffer", len(used), str(value.type))
            used.append(value)
        return known[value]

    def visit(op: ir.Operation) -> tuple:
        operands = tuple(name(value) for value in op.operands)
        attributes = tuple(sorted((key, str(op.attributes[key])) for key in op.attributes))
        for result in op.results:
            known[result] = ("value", len(known))
        types = tuple(str(result.type) for result in op.results)
        blocks = []
        for region in op.regions:
            for block in region.blocks:
                for argument in block.arguments:
                    known[argument] = ("value", len(known))
                blocks.append(tuple(visit(view.operation) for view in block.operations))
        return op.name, operands, attributes, types, tuple(blocks)

    return visit(op), used

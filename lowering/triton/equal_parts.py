"""Parallel domains of one launch that differ in their buffers only: they share code, and a program chooses its pointers.

An optimizer's step over 128 tensors is one body, not 128.
"""

from collections.abc import Sequence

from bascule.dialect.mlir import ir

from .builder import Builder


def form_of(op: ir.Operation, buffers: Sequence[ir.Value]) -> tuple[tuple, list[ir.Value]]:
    """What `op` does, comparable with what another does, and the buffers it uses in the order in which it first does.

    Two ops with equal forms do the same with their buffers, one by one.
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


def choose(b: Builder, number: ir.Value, rows: Sequence[Sequence[ir.Value]]) -> list[ir.Value]:
    """Row `number` of `rows`, one select after the other: a tree of branches would become selects too, with all addresses in registers."""
    chosen = list(rows[0])
    for row_number, row in enumerate(rows[1:], 1):
        here = b.compare("eq", number, b.constant(number.type, row_number))
        for column, value in enumerate(row):
            if value != rows[0][column] or chosen[column] != rows[0][column]:
                chosen[column] = b.select(here, value, chosen[column])
    return chosen

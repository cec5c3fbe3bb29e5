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
    """Row `number` of `rows`, by halving: a few branches that all threads take alike."""
    varying = [column for column in range(len(rows[0])) if any(row[column] != rows[0][column] for row in rows)]
    chosen = list(rows[0])
    if varying:
        found = _halve(b, number, [[row[column] for column in varying] for row in rows], 0)
        for column, value in zip(varying, found):
            chosen[column] = value
    return chosen


def _halve(b: Builder, number: ir.Value, rows: Sequence[Sequence[ir.Value]], first: int) -> list[ir.Value]:
    if len(rows) == 1:
        return list(rows[0])
    half = len(rows) // 2
    below = b.compare("slt", number, b.constant(number.type, first + half))
    made = b.op("scf.if", [value.type for value in rows[0]], [below], regions=2)
    for region, part, start in zip(made.regions, (rows[:half], rows[half:]), (first, first + half)):
        with b.inside(region.blocks.append()):
            b.op("scf.yield", [], _halve(b, number, part, start))
    return list(made.results)

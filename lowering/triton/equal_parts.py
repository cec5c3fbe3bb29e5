"""Parallel domains of one launch that differ in their buffers only: they share code, and a program chooses its pointers.

An optimizer's step over 128 tensors is one body, not 128.
"""

from collections.abc import Sequence

from bascule.dialect.mlir import ir

from .builder import Builder


def choose(b: Builder, number: ir.Value, rows: Sequence[Sequence[ir.Value]]) -> list[ir.Value]:
    """Row `number` of `rows`, one select after the other: a tree of branches would become selects too, with all addresses in registers."""
    chosen = list(rows[0])
    for row_number, row in enumerate(rows[1:], 1):
        here = b.compare("eq", number, b.constant(number.type, row_number))
        for column, value in enumerate(row):
            if value != rows[0][column] or chosen[column] != rows[0][column]:
                chosen[column] = b.select(here, value, chosen[column])
    return chosen

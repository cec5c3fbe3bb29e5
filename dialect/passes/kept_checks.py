"""Clamps that a lowering asserts at (`bascule.checked`), hidden from MLIR's folders while a pass of its own runs.

A folder would replace the clamp of a constant, and what eager refuses would be another element; and it puts constants second, where the
assertion looks for the end that the dimension has. A cast of two operands to one, which MLIR merges and drops as a pure op, folds into nothing.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from ..ir.attributes import literal
from ..ir.functions import CHECKED
from ..ir.regions import ops_named
from ..mlir import ir

_CLAMP = "bascule.clamp"  # on the cast: the name of the op it stands for
_CAST = "builtin.unrealized_conversion_cast"
_LOWER = {
    "arith.minsi": "arith.maxsi",
    "arith.minimumf": "arith.maximumf",
}  # the other clamp that a checked one may follow
_SOLE = "arith.maximumf"  # the one that is checked alone


@contextmanager
def checks_kept(module: ir.Module) -> Iterator[None]:
    """Every checked clamp inside compares afterwards what it compared before, in that order, but for those of constants that are in range."""
    clamps = [op for _, op in ops_named(module.operation, {*_LOWER, _SOLE}) if CHECKED in op.attributes]
    for op in clamps:
        lower = op.operands[0].owner
        if not isinstance(lower, ir.Block) and lower.name == _LOWER.get(op.name):
            _replaced(lower.operation, _CAST)
        _replaced(op, _CAST)
    try:
        yield
    finally:
        for _, op in ops_named(module.operation, {_CAST}) if clamps else []:
            if _CLAMP in op.attributes and not _settled(op):
                _replaced(op, op.attributes[_CLAMP].value)


def _replaced(op: ir.Operation, name: str) -> None:
    attributes = {a: op.attributes[a] for a in op.attributes if a != _CLAMP}
    if name == _CAST:
        attributes[_CLAMP] = ir.StringAttr.get(op.name)
    with ir.InsertionPoint(op), op.location:
        new = ir.Operation.create(name, [op.results[0].type], list(op.operands), attributes)
    op.results[0].replace_all_uses_with(new.results[0])
    op.erase()


def _settled(op: ir.Operation) -> bool:
    """Replaces a clamp that leaves a constant as it is."""
    x, end = (literal(value) for value in op.operands)
    if x is None or end is None or not (x >= end if op.attributes[_CLAMP].value in _LOWER.values() else x <= end):
        return False
    op.results[0].replace_all_uses_with(op.operands[0])
    op.erase()
    return True

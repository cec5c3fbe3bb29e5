"""Conditions of indices that hold at all points of a kernel, or at none: the choices by them are made."""

from collections.abc import Callable

from ...analysis.affine.bounds import interval
from ...analysis.affine.indexing import Indexing
from ...ir.regions import end_of, ops_in
from ...ir.shapes import constant
from ...mlir import arith, ir

_SIGNED = arith.CmpIPredicate
# What is compared, of which is known between which numbers it is -> whether it always holds, whether it never does.
_ALWAYS: dict[_SIGNED, Callable[[float, float], tuple[bool, bool]]] = {
    _SIGNED.slt: lambda low, high: (high < 0, low >= 0),
    _SIGNED.sle: lambda low, high: (high <= 0, low > 0),
    _SIGNED.sge: lambda low, high: (low >= 0, high < 0),
    _SIGNED.sgt: lambda low, high: (low > 0, high <= 0),
}


def settle(root: ir.Operation, indexing: Indexing) -> None:
    """Within `root`, whose loops' indices are in range: has a comparison of an index with a number that never changes its result no users, what
    is chosen by it stand in the place of the choice, and the conditions that it is joined with stand alone."""
    known: dict[ir.Value, bool] = {}
    dead: list[ir.Operation] = []  # or not, if something uses it still
    for op in ops_in(root):
        if op.name == "arith.cmpi":
            found = _compared(op, indexing)
            dead.append(op)
        elif op.name == "arith.andi" and op.results[0].type == ir.IntegerType.get_signless(1):
            found = _joined(op, known)
            dead.append(op)
        else:
            if op.name == "scf.if" and op.operands[0] in known:
                _choose(op, known[op.operands[0]])
                dead.append(op)
            continue
        if found is not None:
            known[op.results[0]] = found
    for op in reversed(dead):
        if not any(any(True for _ in result.uses) for result in op.results):
            op.erase()


def _compared(op: ir.Operation, indexing: Indexing) -> bool | None:
    """Whether a comparison holds, at all points; None where that depends on the point, or is not known."""
    predicate = _SIGNED(op.attributes["predicate"].value)
    if predicate not in _ALWAYS or not isinstance(op.operands[0].type, ir.IndexType):
        return None
    (x, values), (limit, none) = (indexing.resolve(operand) for operand in op.operands)
    end, sizes = constant(limit), [None if (size := indexing.extent(v)) is None else constant(size) for v in values]
    if none or end is None or any(not size for size in sizes):
        return None
    low, high = interval(x, [size for size in sizes if size is not None])
    always, never = _ALWAYS[predicate](low - end, high - end)
    return True if always else False if never else None


def _joined(op: ir.Operation, known: dict[ir.Value, bool]) -> bool | None:
    """What is known of `a and b`; where one of them holds always, the other stands for both."""
    sides = list(op.operands)
    holds = [known.get(side) for side in sides]
    if False in holds:
        return False
    if holds == [True, True]:
        return True
    if True in holds:
        op.results[0].replace_all_uses_with(sides[1 - holds.index(True)])
    return None


def _choose(op: ir.Operation, holds: bool) -> None:
    """Moves what a settled choice takes to before it."""
    block = op.regions[0 if holds else 1].blocks[0]
    last = end_of(block)
    for view in list(block.operations)[:-1]:
        view.operation.move_before(op)
    for result, value in zip(op.results, list(last.operands)):
        result.replace_all_uses_with(value)

"""Indices and guards inside a region: comparisons, `scf.if`, places that come from data."""

from collections.abc import Callable, Sequence

from bascule.dialect.ir.functions import CHECKED
from bascule.dialect.ir.shapes import constant, expr
from bascule.dialect.mlir import arith, ir, scf

from ...conversion.context import Conversion
from .operands import index_constant
from .scalars import integer_predicate


def compare(predicate: str, a: ir.Value, b: ir.Value | int) -> ir.Value:
    """i1: `a predicate b` of indices; "eq", "ne", "lt", "le", "gt" or "ge"."""
    return arith.CmpIOp(
        integer_predicate(predicate, signed=True), a, index_constant(b) if isinstance(b, int) else b
    ).result


def choose(condition: ir.Value, yes: ir.Value, no: ir.Value) -> ir.Value:
    return arith.SelectOp(condition, yes, no).result


def both(conditions: Sequence[ir.Value | None]) -> ir.Value | None:
    """The conjunction of `conditions`, where None holds always; None for none."""
    joined = None
    for condition in conditions:
        if condition is not None:
            joined = condition if joined is None else arith.AndIOp(joined, condition).result
    return joined


def when(
    condition: ir.Value | None, type_: ir.Type, yes: Callable[[], ir.Value], no: Callable[[], ir.Value]
) -> ir.Value:
    """`scf.if` that yields a scalar of `type_`, so that only the branch taken reads; without a condition, `yes()` itself."""
    if condition is None:
        return yes()
    op = scf.IfOp(condition, [type_], has_else=True)
    for block, branch in ((op.then_block, yes), (op.else_block, no)):
        with ir.InsertionPoint(block):
            scf.YieldOp([branch()])
    return op.results[0]


def as_index(value: ir.Value) -> ir.Value:
    """A scalar integer (signed) as an index."""
    return arith.IndexCastOp(ir.IndexType.get(), value).result


def as_integer(value: ir.Value, width: int = 64) -> ir.Value:
    """An index as a scalar integer of `width` bits."""
    return arith.IndexCastOp(ir.IntegerType.get_signless(width), value).result


def extent(c: Conversion, e: ir.AffineExpr | int) -> ir.Value:
    """A size, or another expression of symbols only, as an index."""
    known = constant(expr(e))
    return index_constant(known) if known is not None else c.apply([e], [])[0]


def clamped(index: ir.Value, last: ir.Value) -> ir.Value:
    """`index` moved into [0, last]."""
    return arith.MinSIOp(arith.MaxSIOp(index, index_constant(0)).result, last).result


def refused_outside(c: Conversion, inside: ir.Value) -> ir.Value:
    """`inside`, which is `clamped`: where assertions are asked for, a kernel refuses an index that had to be."""
    if c.asked.index_asserts:
        inside.owner.attributes[CHECKED] = ir.UnitAttr.get()
    return inside


def wrapped(index: ir.Value, size: ir.Value) -> ir.Value:
    """`index`, where a negative one counts from the end."""
    return choose(compare("lt", index, 0), arith.AddIOp(index, size).result, index)

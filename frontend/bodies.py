"""Scalar building blocks of the regions that rules write: constants, comparisons, guards and indices that come from data."""

from collections.abc import Callable, Sequence

from bascule.dialect.ir.types import is_float
from bascule.dialect.mlir import arith, ir, scf

Value = ir.Value


def index_type() -> ir.Type:
    return ir.IndexType.get()


def constant(value: bool | int | float, type_: ir.Type | None = None) -> Value:
    """`value` as a scalar of `type_` (default: index); integers wrap to the type's width."""
    type_ = type_ or ir.IndexType.get()
    if is_float(type_):
        return arith.ConstantOp(type_, ir.FloatAttr.get(type_, float(value))).result
    number = int(value)
    if isinstance(type_, ir.IntegerType):
        half = 1 << (type_.width - 1)
        number = (number + half) % (2 * half) - half if type_.width > 1 else number & 1
    return arith.ConstantOp(type_, ir.IntegerAttr.get(type_, number)).result


_PREDICATES = {"eq": 0, "ne": 1, "lt": 2, "le": 3, "gt": 4, "ge": 5, "ult": 6, "ule": 7, "ugt": 8, "uge": 9}


def compare(predicate: str, a: Value, b: Value | int) -> Value:
    """i1: `a predicate b` of integers or indices; "lt" is signed, "ult" unsigned."""
    b = constant(b, a.type) if isinstance(b, int) else b
    return arith.CmpIOp(_PREDICATES[predicate], a, b).result


def select(condition: Value, yes: Value, no: Value) -> Value:
    return arith.SelectOp(condition, yes, no).result


def both(conditions: Sequence[Value]) -> Value | None:
    """The conjunction of `conditions`; None for none."""
    joined = None
    for condition in conditions:
        joined = condition if joined is None else arith.AndIOp(joined, condition).result
    return joined


def when(condition: Value | None, type_: ir.Type, yes: Callable[[], Value], no: Callable[[], Value]) -> Value:
    """`scf.if` that yields a scalar of `type_`, so that only the branch taken reads; without a condition, `yes()` itself."""
    if condition is None:
        return yes()
    op = scf.IfOp(condition, [type_], has_else=True)
    for block, branch in ((op.then_block, yes), (op.else_block, no)):
        with ir.InsertionPoint(block):
            scf.YieldOp([branch()])
    return op.results[0]


def as_index(value: Value) -> Value:
    """A scalar integer (signed) as an index."""
    return value if isinstance(value.type, ir.IndexType) else arith.IndexCastOp(ir.IndexType.get(), value).result


def as_integer(value: Value, width: int = 64) -> Value:
    """An index as a scalar integer of `width` bits."""
    return arith.IndexCastOp(ir.IntegerType.get_signless(width), value).result


def clamped(index: Value, size: Value) -> Value:
    """`index` moved into [0, size)."""
    low = arith.MaxSIOp(index, constant(0)).result
    return arith.MinSIOp(low, arith.SubIOp(size, constant(1)).result).result


def wrapped(index: Value, size: Value) -> Value:
    """`index`, where a negative one counts from the end."""
    return select(compare("lt", index, 0), arith.AddIOp(index, size).result, index)

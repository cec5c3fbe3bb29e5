"""Floats of 16 and 8 bits: to f32 and back, and ops on them.

Registers hold them as such only between a load or a `truncf` and the next `extf`: all arithmetic on them is done in f32.
"""

from collections.abc import Sequence

from bascule.dialect.mlir import ir

from .float8 import FLOAT8, from_f32, to_f32
from .scalars import Scalars, element, like

NARROW = (ir.F16Type, ir.BF16Type, *FLOAT8)


def widen(s: Scalars, x: ir.Value) -> ir.Value:
    """A narrow float to f32, exactly."""
    b = s.b
    if isinstance(element(x.type), FLOAT8):
        return to_f32(s, x, element(x.type))
    if isinstance(element(x.type), ir.F16Type):
        return s.convert("arith.extf", x, b.f32)
    bits = s.convert("arith.extui", s.convert("arith.bitcast", x, b.i16), b.i32)
    bits = s.op("arith.shli", bits, s.constant(bits.type, 16))
    return s.convert("arith.bitcast", bits, b.f32)


def narrow(s: Scalars, x: ir.Value, to: ir.Type) -> ir.Value:
    """f32 to a narrow float, rounding to nearest even. bf16 by integer arithmetic: the same on every machine, denormals included."""
    b = s.b
    if isinstance(to, FLOAT8):
        return from_f32(s, x, to)
    if isinstance(to, ir.F16Type):
        return s.convert("arith.truncf", x, to)
    bits = s.convert("arith.bitcast", x, b.i32)
    high = s.op("arith.shrui", bits, s.constant(bits.type, 16))
    odd = s.op("arith.andi", high, s.constant(bits.type, 1))
    bias = s.op("arith.addi", odd, s.constant(bits.type, 0x7FFF))
    rounded = s.op("arith.shrui", s.op("arith.addi", bits, bias), s.constant(bits.type, 16))
    rounded = s.select(s.is_nan(x), s.constant(bits.type, 0x7FC0), rounded)
    return s.convert("arith.bitcast", s.convert("arith.trunci", rounded, b.i16), to)


def to_float(s: Scalars, x: ir.Value, to: ir.Type) -> ir.Value:
    """A float of one width as a float of another; to narrow ones through f32, as PyTorch does."""
    have = element(x.type)
    if have == to:
        return x
    if isinstance(have, NARROW):
        return to_float(s, widen(s, x), to)
    if isinstance(to, NARROW):
        return narrow(s, to_float(s, x, s.b.f32), to)
    return s.convert("arith.extf" if to.width > have.width else "arith.truncf", x, to)


def promoted(s: Scalars, name: str, attributes: dict, operands: Sequence[ir.Value], result: ir.Type) -> ir.Value:
    """The op `name` on operands of which some are narrow floats, done in f32."""
    wide = [widen(s, x) if isinstance(element(x.type), NARROW) else x for x in operands]
    if not isinstance(element(result), NARROW):
        return s.b.value(name, result, wide, attributes, s.level)
    return narrow(s, s.b.value(name, like(result, s.b.f32), wide, attributes, s.level), element(result))

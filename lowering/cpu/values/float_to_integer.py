"""Floats as integers of 32 or 64 bits, rounded toward zero: numbers that the integer has not, and NaN, as C++ converts them on x86.

LLVM leaves those undefined. Where it knows the float (the deviation of one element is NaN), the conversion is poison, and so is what is
computed from it: a store of that is dropped.
"""

from bascule.dialect.mlir import ir

from .scalars import Scalars


def to_signed(s: Scalars, x: ir.Value, to: ir.Type) -> ir.Value:
    """The smallest number of `to` where it has no other."""
    bound = 1 << (to.width - 1)
    inside = s.compare("olt", s.op("math.absf", x), s.constant(x.type, float(bound)))
    value = s.convert("arith.fptosi", x, to)
    return s.select(inside, value, s.constant(value.type, -bound))


def to_unsigned(s: Scalars, x: ir.Value, to: ir.Type) -> ir.Value:
    """By a signed conversion, which wraps what is negative; of the upper half it is made after a subtraction."""
    bound = 1 << (to.width - 1)
    limit = s.constant(x.type, float(bound))
    upper = s.compare("oge", x, limit)
    value = to_signed(s, s.select(upper, s.op("arith.subf", x, limit), x), to)
    flipped = s.op("arith.xori", value, s.constant(value.type, -bound))
    return s.select(upper, flipped, value)

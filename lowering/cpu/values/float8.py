"""8-bit floats to f32 and back, in integer arithmetic: bit for bit what PyTorch makes of them.

A number of `fraction` bits and an exponent of bias `bias`; below the smallest normal one, multiples of the smallest. What is too large becomes
infinity in e5m2, NaN in the types ending in FNUZ, and in e4m3fn what this PyTorch makes of it: NaN, or since 2.13 the largest number. The types
ending in FNUZ have one NaN, the bits 0x80, and no negative zero.
"""

from dataclasses import dataclass

from bascule.dialect.mlir import ir

from ...float8_overflow import bits_of_overflow
from .scalars import Scalars


@dataclass(frozen=True)
class Format:
    dtype: str  # of torch
    fraction: int
    bias: int
    infinite: bool = False
    unsigned_zero: bool = False

    @property
    def smallest(self) -> float:
        return 2.0 ** (1 - self.bias - self.fraction)

    @property
    def overflow(self) -> int:
        """Bits, without the sign, of what numbers too large become; for FNUZ they include the sign."""
        return bits_of_overflow(self.dtype)


FORMATS: dict[type[ir.Type], Format] = {
    ir.Float8E4M3FNType: Format("float8_e4m3fn", 3, 7),
    ir.Float8E5M2Type: Format("float8_e5m2", 2, 15, infinite=True),
    ir.Float8E4M3FNUZType: Format("float8_e4m3fnuz", 3, 8, unsigned_zero=True),
    ir.Float8E5M2FNUZType: Format("float8_e5m2fnuz", 2, 16, unsigned_zero=True),
}
FLOAT8 = tuple(FORMATS)
_EXPONENTS = 0x7F800000  # of an f32: infinite, or NaN with anything below it
_NAN = _EXPONENTS | 1 << 22


def to_f32(s: Scalars, x: ir.Value, type_: ir.Type) -> ir.Value:
    """Exact. Without denormal f32 on the way, which a processor may be told to take for zero."""
    b, format_ = s.b, FORMATS[type(type_)]
    bits = s.convert("arith.extui", s.convert("arith.bitcast", x, b.i8), b.i32)

    def number(value: int) -> ir.Value:
        return s.constant(bits.type, value)

    size = s.op("arith.andi", bits, number(0x7F))
    steps = s.convert("arith.sitofp", size, b.f32)
    small = s.op("arith.mulf", steps, s.constant(steps.type, format_.smallest))
    shifted = s.op("arith.shli", size, number(23 - format_.fraction))
    normal = s.op("arith.addi", shifted, number((127 - format_.bias) << 23))
    result = s.select(
        s.compare("ult", size, number(1 << format_.fraction)), s.convert("arith.bitcast", small, b.i32), normal
    )
    if format_.unsigned_zero:
        special, nonfinite = s.compare("eq", bits, number(0x80)), number(_NAN)
    elif format_.infinite:  # infinity, and after it the NaNs
        special, nonfinite = s.compare("uge", size, number(0x7C)), s.op("arith.ori", shifted, number(_EXPONENTS))
    else:
        special, nonfinite = s.compare("eq", size, number(0x7F)), number(_NAN)
    result = s.select(special, nonfinite, result)
    sign = s.op("arith.shli", s.op("arith.andi", bits, number(0x80)), number(24))
    return s.convert("arith.bitcast", s.op("arith.ori", result, sign), b.f32)


def from_f32(s: Scalars, x: ir.Value, type_: ir.Type) -> ir.Value:
    """Rounded to nearest, ties to even."""
    b, format_ = s.b, FORMATS[type(type_)]
    bits = s.convert("arith.bitcast", x, b.i32)

    def number(value: int) -> ir.Value:
        return s.constant(bits.type, value)

    size = s.op("arith.andi", bits, number(0x7FFFFFFF))
    dropped = 23 - format_.fraction
    # To the sum with 2^23 of the smallest numbers the addition rounds to a multiple of the smallest, the sum's last bit.
    least = s.constant(x.type, format_.smallest * 2.0**23)
    total = s.convert("arith.bitcast", s.op("arith.addf", s.convert("arith.bitcast", size, b.f32), least), b.i32)
    small = s.op("arith.subi", total, s.convert("arith.bitcast", least, b.i32))
    odd = s.op("arith.andi", s.op("arith.shrui", size, number(dropped)), number(1))
    half = s.op("arith.addi", odd, number((1 << (dropped - 1)) - 1))
    rounded = s.op("arith.shrui", s.op("arith.addi", size, half), number(dropped))
    normal = s.op("arith.subi", rounded, number((127 - format_.bias) << format_.fraction))
    is_small = s.compare("ult", size, number((128 - format_.bias) << 23))
    result = s.select(is_small, small, s.op("arith.minui", normal, number(format_.overflow)))
    nan = number(0x80 if format_.unsigned_zero else 0x7F)
    result = s.select(s.is_nan(x), nan, result)
    sign = s.op("arith.andi", s.op("arith.shrui", bits, number(24)), number(0x80))
    signed = s.op("arith.ori", result, sign)
    if format_.unsigned_zero:
        signed = s.select(s.compare("eq", result, number(0)), result, signed)
    return s.convert("arith.bitcast", s.convert("arith.trunci", signed, b.i8), type_)

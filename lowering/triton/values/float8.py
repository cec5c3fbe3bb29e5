"""Floats of 8 bits, bytes in memory: their conversions are instructions from compute capability 89 on, and made of integers before that."""

from bascule.dialect.mlir import ir

from ...float8_overflow import bits_of_overflow
from .builder import Builder, element, like

# None converts the types ending in FNUZ, which kernels for a CPU take.
FLOAT8 = (ir.Float8E4M3FNType, ir.Float8E5M2Type)
SINCE = 89  # the compute capability that converts them
LARGEST_E4M3FN, NAN_E4M3FN, LARGEST_E5M2, NAN_E5M2 = 0x7E, 0x7F, 0x7B, 0x7F
EXPONENT_F32, EXPONENT_E4M3FN, EXPONENT_E5M2 = 127, 7, 15  # what is added to an exponent
FRACTION_F32, FRACTION_E4M3FN, FRACTION_E5M2 = 23, 3, 2  # bits


def widen_float8(b: Builder, x: ir.Value) -> ir.Value:
    """As an f32, which has each of their numbers."""
    if b.converts_float8:
        return b.convert("tt.fp_to_fp", x, b.f32)
    half, bits = ir.F16Type.get(), b.convert("arith.extui", b.convert("tt.bitcast", x, b.i8), b.i16)
    if isinstance(element(x.type), ir.Float8E5M2Type):  # the upper half of an f16
        shifted = b.same("arith.shli", bits, b.constant(bits.type, 8))
        return b.convert("arith.extf", b.convert("tt.bitcast", shifted, half), b.f32)
    size = b.same("arith.andi", bits, b.constant(bits.type, 0x7F))
    sign = b.same("arith.shli", b.same("arith.andi", bits, b.constant(bits.type, 0x80)), b.constant(bits.type, 8))
    # As the bits of an f16 a number is 2**-8 of what it is: exponents there have 8 more added to them. NaN is a number there.
    shifted = b.same("arith.ori", sign, b.same("arith.shli", size, b.constant(bits.type, 7)))
    wide = b.convert("arith.extf", b.convert("tt.bitcast", shifted, half), b.f32)
    wide = b.same("arith.mulf", wide, b.constant(wide.type, 256.0))
    is_nan = b.compare("eq", size, b.constant(size.type, NAN_E4M3FN))
    return b.select(is_nan, b.constant(wide.type, float("nan")), wide)


def to_float8(b: Builder, to: ir.Type, x: ir.Value) -> ir.Value:
    """An f32 as 8 bits. A GPU makes the largest number of what is too large; PyTorch makes infinity of it in e5m2, in e4m3fn what this one does:
    from the middle between the largest number and the one that would follow it, which in e4m3fn is the largest number still."""
    is_e4m3 = isinstance(to, ir.Float8E4M3FNType)
    overflow = bits_of_overflow("float8_e4m3fn" if is_e4m3 else "float8_e5m2")
    if b.converts_float8:
        value = b.value("tt.fp_to_fp", like(x.type, to), [x], {"rounding": b.number(b.i32, 1)})
        if is_e4m3 and overflow == LARGEST_E4M3FN:
            return value
        bits = b.convert("tt.bitcast", value, b.i8)
    else:
        bits = _rounded(b, to, x)
    size = b.same("math.absf", x)
    negative = b.compare("olt", x, b.constant(x.type, 0.0))
    beyond = b.select(negative, b.constant(bits.type, 0x80 | overflow), b.constant(bits.type, overflow))
    too_large = b.compare(
        *(("ogt", size, b.constant(x.type, 464.0)) if is_e4m3 else ("oge", size, b.constant(x.type, 61440.0)))
    )
    bits = b.select(too_large, beyond, bits)
    return b.convert("tt.bitcast", bits, to)


def _rounded(b: Builder, to: ir.Type, x: ir.Value) -> ir.Value:
    """The bits of an f32 `x` to the nearest number of 8 bits, the even one of two; of a finite one that is too large something else."""
    if isinstance(to, ir.Float8E4M3FNType):
        exponent, fraction, largest, nan = EXPONENT_E4M3FN, FRACTION_E4M3FN, LARGEST_E4M3FN, NAN_E4M3FN
    else:
        exponent, fraction, largest, nan = EXPONENT_E5M2, FRACTION_E5M2, LARGEST_E5M2, NAN_E5M2
    dropped = FRACTION_F32 - fraction

    def number(n: int) -> ir.Value:
        return b.constant(whole.type, n)

    whole = b.convert("tt.bitcast", x, b.i32)
    size = b.same("arith.andi", whole, number(0x7FFFFFFF))
    sign = b.same("arith.andi", b.same("arith.shrui", whole, number(24)), number(0x80))
    # Just below half of the last bit, and one more where what is left is odd: a carry goes into the exponent.
    odd = b.same("arith.andi", b.same("arith.shrui", size, number(dropped)), number(1))
    up = b.same("arith.addi", odd, number((1 << dropped - 1) - 1 - (EXPONENT_F32 - exponent << FRACTION_F32)))
    normal = b.same("arith.shrui", b.same("arith.addi", size, up), number(dropped))
    # To add a number whose last bit is the smallest one's worth rounds, and leaves its multiple in the last bits.
    least = EXPONENT_F32 - exponent + 1  # the exponent of the smallest normal number, as an f32 has it
    worth = number(least + dropped << FRACTION_F32)
    sum_ = b.same("arith.addf", b.convert("tt.bitcast", size, b.f32), b.convert("tt.bitcast", worth, b.f32))
    small = b.same("arith.subi", b.convert("tt.bitcast", sum_, b.i32), worth)
    bits = b.select(b.compare("ult", size, number(least << FRACTION_F32)), small, normal)
    bits = b.select(
        b.compare("ult", number(0x7F800000), size), number(nan), b.same("arith.minui", bits, number(largest))
    )
    return b.convert("arith.trunci", b.same("arith.ori", bits, sign), b.i8)

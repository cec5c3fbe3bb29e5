"""exp, erf and tanh of f32 in line: no call, no spilled registers, several vectors in flight.

Coefficients are minimax fits (Lawson's weighted least squares on Chebyshev points) of the relative error of the result, highest power first;
`python -m benchmarks.polynomials` makes them again. Beside each stands the error of the fit before its coefficients are rounded to f32, in units
in the last place of results from 1/2 to 1. `tests/lowering/cpu/functions/test_transcendental.py` measures all of them against f64.
"""

from collections.abc import Sequence

from bascule.dialect.mlir import ir

from ..values.lanes import joined, pieces
from ..values.scalars import Scalars, like
from .table_functions import erf as erf_by_table
from .table_functions import has_tables

LOG2_E = 1.4426950408889634
# ln 2 in two parts: the first has few enough bits that n * LN2_HIGH is exact for |n| < 2**9.
LN2_HIGH, LN2_LOW = 0.693359375, -2.12194440054690583e-4
# Adding 1.5 * 2**23 rounds to the nearest integer, which then stands in the low bits of the sum.
MAGIC = 12582912.0
MAGIC_BITS = 0x4B400000

# exp(r) for |r| <= ln(2) / 2: 0.05
EXP = (0.0013814602280035615, 0.008368715643882751, 0.04166838899254799, 0.1666652113199234, 0.4999999403953552,
       1.0, 1.0)  # fmt: skip
# Vectors that AVX-512's scaling by a power of two takes, in one register or several.
SCALE_LANES = (4, 8, 16, 32, 64, 128, 256)
# tanh(x) = x + x^3 p(x^2) for |x| < 0.63: 0.08
TANH = (-0.005666977260261774, 0.020606176927685738, -0.05373000726103783, 0.13331331312656403, -0.33333277702331543)
TANH_SMALL = 0.63
# erf(x) = x + x p(x^2) for |x| < 0.95: 0.4; erf(x) = 1 - exp(-(x + x q(x))) from there: 0.01
ERF = (-0.0005862095858901739, 0.004967510234564543, -0.026748867705464363, 0.11281320452690125, -0.37612447142601013,
       0.12837913632392883)  # fmt: skip
ERF_TAIL = (1.2339334716671146e-05, -0.0003339591494295746, 0.00368810398504138, -0.023859264329075813,
            0.10635055601596832, 0.6350820660591125, 0.12866568565368652)  # fmt: skip
ERF_SMALL, ERF_ONE = 0.95, 3.95  # beyond the second erf is 1 in f32


def horner(s: Scalars, x: ir.Value, coefficients: Sequence[float]) -> ir.Value:
    value = s.constant(x.type, coefficients[0])
    for c in coefficients[1:]:
        value = s.fma(value, x, s.constant(x.type, c))
    return value


def _split(s: Scalars, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """exp(x) = p * 2**n: p, near 1, and n, or where the machine does not scale by it n + `MAGIC` (its low bits are n)."""
    if _scales(s, x):
        n = power = s.unary("math.roundeven", s.op("arith.mulf", x, s.constant(x.type, LOG2_E)))
    else:
        power = s.fma(x, s.constant(x.type, LOG2_E), s.constant(x.type, MAGIC))
        n = s.op("arith.subf", power, s.constant(x.type, MAGIC))
    r = s.fma(n, s.constant(x.type, -LN2_HIGH), x)
    r = s.fma(n, s.constant(x.type, -LN2_LOW), r)
    return horner(s, r, EXP), power


def _scales(s: Scalars, x: ir.Value) -> bool:
    return s.b.scales and isinstance(x.type, ir.VectorType) and x.type.shape[0] in SCALE_LANES


def _scaled(s: Scalars, p: ir.Value, n: ir.Value) -> ir.Value:
    """p * 2**n, rounded once; n is an integer or infinite."""
    lanes = min(p.type.shape[0], 16)
    masks = s.constant(s.b.i16 if lanes == 16 else s.b.i8, -1)
    name = f"llvm.x86.avx512.mask.scalef.ps.{32 * lanes}"
    modes = [s.constant(s.b.i32, 4)] if lanes == 16 else []  # the rounding mode in force
    parts = zip(pieces(s, p, lanes), pieces(s, n, lanes))
    return joined(s, [s.intrinsic(name, x, y, x, masks, *modes) for x, y in parts])


def _exp_bounded(s: Scalars, x: ir.Value) -> ir.Value:
    """exp(x) for |x| < 80: the exponent of p is raised by n."""
    p, shifted = _split(s, x)
    if _scales(s, x):
        return _scaled(s, p, shifted)
    n = s.op("arith.shli", s.convert("arith.bitcast", shifted, s.b.i32), s.constant(like(x.type, s.b.i32), 23))
    bits = s.op("arith.addi", s.convert("arith.bitcast", p, s.b.i32), n)
    return s.convert("arith.bitcast", bits, s.b.f32)


def exp(s: Scalars, x: ir.Value) -> ir.Value:
    """Within 1 unit in the last place, results below the normal range included."""
    high, low, zero = (s.constant(x.type, number) for number in (89.0, -104.0, 0.0))  # inf and 0 from there; NaN stays
    # Not scaled to 0: a processor takes a hundred cycles for what underflows, and a softmax has as many of these as it masks.
    vanishes = s.compare("ogt", low, x)
    x = s.select(s.compare("olt", high, x), high, x)
    return s.select(vanishes, zero, _exp_in_range(s, s.select(vanishes, zero, x)))


def _exp_in_range(s: Scalars, x: ir.Value) -> ir.Value:
    """exp(x) where it is no less than a fraction of the least number, and hardly above the largest."""
    p, shifted = _split(s, x)
    if _scales(s, x):
        return _scaled(s, p, shifted)
    i32 = like(x.type, s.b.i32)
    n = s.op("arith.subi", s.convert("arith.bitcast", shifted, s.b.i32), s.constant(i32, MAGIC_BITS))
    # 2**n may not be a number where p * 2**n is one: two factors.
    half = s.op("arith.shrsi", n, s.constant(i32, 1))
    for part in (half, s.op("arith.subi", n, half)):
        bits = s.op("arith.shli", s.op("arith.addi", part, s.constant(i32, 127)), s.constant(i32, 23))
        p = s.op("arith.mulf", p, s.convert("arith.bitcast", bits, s.b.f32))
    return p


def tanh(s: Scalars, x: ir.Value) -> ir.Value:
    """Within 2 units in the last place."""
    size = s.unary("math.absf", x)
    square = s.op("arith.mulf", x, x)
    small = s.fma(s.op("arith.mulf", horner(s, square, TANH), square), x, x)
    one, two = s.constant(x.type, 1.0), s.constant(x.type, 2.0)
    ten = s.constant(x.type, 10.0)  # tanh is 1 in f32 from there; NaN stays
    bounded = s.select(s.compare("olt", ten, size), ten, size)
    e = _exp_bounded(s, s.op("arith.addf", bounded, bounded))
    large = s.op("arith.subf", one, s.op("arith.divf", two, s.op("arith.addf", e, one)))
    value = s.select(s.compare("olt", size, s.constant(x.type, TANH_SMALL)), small, large)
    return s.op("math.copysign", value, x)  # of -0 as well


def erf(s: Scalars, x: ir.Value) -> ir.Value:
    """Within 2 units in the last place."""
    if has_tables(s, x):
        return erf_by_table(s, x)
    size = s.unary("math.absf", x)
    square = s.op("arith.mulf", x, x)
    small = s.fma(horner(s, square, ERF), x, x)
    most = s.constant(x.type, ERF_ONE)
    bounded = s.select(s.compare("olt", most, size), most, size)  # NaN stays
    exponent = s.fma(horner(s, bounded, ERF_TAIL), bounded, bounded)
    e = _exp_bounded(s, s.unary("arith.negf", exponent))
    large = s.op("math.copysign", s.op("arith.subf", s.constant(x.type, 1.0), e), x)
    return s.select(s.compare("olt", size, s.constant(x.type, ERF_SMALL)), small, large)


INLINE = {"math.exp": exp, "math.tanh": tanh, "math.erf": erf}

__all__ = ["INLINE"]

"""erf of f32 by a table: sixteen polynomials, one an interval, whose coefficients lie in one register of AVX-512 for each power.

A coefficient of every lane is then one permutation, and there is no second branch. The polynomials are minimax fits (Lawson's weighted least
squares on Chebyshev points) of the relative error of the result; `python -m benchmarks.polynomials` makes them again.
"""

from collections.abc import Sequence

from bascule.dialect.mlir import ir

from ..values.lanes import joined, pieces
from ..values.scalars import Scalars, like

LANES = 16  # of a register, and entries of a table
STEPS = 4.0  # intervals in a unit
LAST = 15.999999  # the largest number below 16: from there on erf is 1 in f32
# Powers 5 to 0, highest first, of r = 4 |x| - k where k = floor(4 |x|). In interval 0 it is erf(x) - x, of constant 0.
# The constants are erf(k / 4), rounded to f32; the other coefficients are fitted to them.
# fmt: off
ERF = (
    (0.00010346382, 4.6151625e-05, -2.8944498e-05, -7.5871176e-05, -5.2548057e-05, -3.596382e-05, -1.075189e-05, 3.3999713e-06,
     8.7109686e-07, -1.3334188e-06, 1.8684272e-05, -3.0497235e-06, 1.2221902e-05, -5.577184e-06, -1.41723385e-05, 2.806452e-06),
    (7.907827e-06, 0.0005306433, 0.0007573328, 0.0006273863, 0.00024236074, -2.6923724e-05, -0.00016581993, -0.00017314321,
     -0.00010534366, -4.8298854e-05, -6.810237e-05, 1.5245509e-07, -3.2783504e-05, 1.3374035e-05, 3.5307512e-05, -7.040808e-06),
    (-0.005880192, -0.004847146, -0.0023115086, 0.00039012654, 0.0021827326, 0.00261341, 0.0021555757, 0.0013939628, 0.0007282499,
     0.00031743804, 0.00016135957, 3.2274915e-05, 3.7621197e-05, -9.56536e-06, -3.0451905e-05, 6.242521e-06),
    (4.3751928e-07, -0.016559502, -0.027456278, -0.030128239, -0.0259508, -0.018475328, -0.01114433, -0.0057666805, -0.0025744406,
     -0.0009967152, -0.00035153618, -9.6965276e-05, -3.5176028e-05, -1.4297309e-06, 9.92994e-06, -2.3927173e-06),
    (0.032094784, 0.26500335, 0.21969514, 0.16073172, 0.10377762, 0.0591298, 0.029731818, 0.013193025, 0.0051656375, 0.0017846369,
     0.0005459817, 0.00014610052, 3.5949724e-05, 6.73547e-06, -3.942628e-08, 4.9380793e-07),
    (0.0, 0.2763264, 0.5204999, 0.71115565, 0.8427008, 0.92290014, 0.96610516, 0.9866717, 0.9953223, 0.9985373, 0.999593, 0.9998994,
     0.9999779, 0.9999957, 0.9999993, 0.9999999),
)
# fmt: on


def has_tables(s: Scalars, x: ir.Value) -> bool:
    return s.b.scales and isinstance(x.type, ir.VectorType) and x.type.shape[0] >= LANES


def erf(s: Scalars, x: ir.Value) -> ir.Value:
    """Within 1.3 units in the last place, and never decreasing. `x`: of whole registers."""
    return joined(s, [_erf(s, part) for part in pieces(s, x, LANES)])


def _erf(s: Scalars, x: ir.Value) -> ir.Value:
    size = s.unary("math.absf", x)
    scaled, most = s.op("arith.mulf", size, s.constant(x.type, STEPS)), s.constant(x.type, LAST)
    scaled = s.select(s.compare("olt", most, scaled), most, scaled)  # NaN stays
    floor = s.unary("math.floor", scaled)
    # The low bits of 2**23 + k are k; a permutation looks at four, whatever those of NaN are.
    number = s.convert("arith.bitcast", s.op("arith.addf", floor, s.constant(x.type, 2.0**23)), s.b.i32)
    r = s.op("arith.subf", scaled, floor)
    *powers, constant = ERF
    value = _looked_up(s, powers[0], number)
    for coefficients in powers[1:]:
        value = s.fma(value, r, _looked_up(s, coefficients, number))
    first = s.compare("olt", scaled, s.constant(x.type, 1.0))
    value = s.fma(value, r, s.select(first, size, _looked_up(s, constant, number)))
    return s.op("math.copysign", value, x)


def _looked_up(s: Scalars, entries: Sequence[float], number: ir.Value) -> ir.Value:
    """Entry `number` modulo 16 for each lane."""
    type_ = like(number.type, s.b.f32)

    def table() -> ir.Value:
        values = ir.DenseElementsAttr.get([ir.FloatAttr.get(s.b.f32, entry) for entry in entries], type_)
        return s.b.value("arith.constant", type_, [], {"value": values}, 0)

    return s.intrinsic("llvm.x86.avx512.permvar.sf.512", s.b.cached(0, ("table", entries), table), number)

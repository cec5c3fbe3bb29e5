"""Functions of f32 whose results are rounded to 16 bits or fewer: some roundings of f32 off, without branches.

The coefficients are minimax fits (Lawson's iteration, float64) of relative error below 3e-6 for erf and 2e-7 for tanh.
"""

from collections.abc import Callable, Sequence

from bascule.dialect.mlir import ir

from .builder import Builder

# The GPU's own instructions, of relative error below 2**-22, which flush denormals -> the operation that they approximate.
EXP2, RECIPROCAL = "ex2.approx.ftz.f32 $0, $1;", "rcp.approx.ftz.f32 $0, $1;"
INSTRUCTIONS = {EXP2: "math.exp2", RECIPROCAL: "reciprocal"}

# erf(x): x * P(x**2) below the bound; above it 1 - 2**-(t * Q(t)) with t = min(|x|, LAST), and the sign of x.
ERF_BOUND, ERF_LAST = 0.3, 4.1
ERF_NEAR = (1.1283785678071119, -0.37600672552974795, 0.10927793421850593)
ERF_FAR = (
    *(1.6281348506300146, 0.9168057226427098, 0.15281387198307714, -0.03416606576933135),
    *(0.00531155562710002, -0.0005011312093701481, 2.1330106410588634e-05),
)
# tanh(x): x * P(x**2) below the bound; above it 1 - 2 / (1 + e**(2 * x)).
TANH_BOUND = 0.2
TANH_NEAR = (1.0, -0.33329697960841426, 0.13038018888520553)
TWICE_LOG2_E = 2.885390081777927


def instruction(b: Builder, text: str, x: ir.Value) -> ir.Value:
    attributes: dict[str, ir.Attribute] = {
        "asm_string": ir.StringAttr.get(text),
        "constraints": ir.StringAttr.get("=f,f"),
        "packed_element": b.number(b.i32, 1),
        "pure": ir.BoolAttr.get(True),
    }
    return b.value("tt.elementwise_inline_asm", x.type, [x], attributes)


def _polynomial(b: Builder, x: ir.Value, coefficients: Sequence[float]) -> ir.Value:
    """Horner's scheme; the constant term first."""
    *rest, result = (b.constant(x.type, c) for c in coefficients)
    for c in reversed(rest):
        result = b.same("math.fma", result, x, c)
    return result


def _odd(b: Builder, x: ir.Value, coefficients: Sequence[float]) -> ir.Value:
    return b.same("arith.mulf", x, _polynomial(b, b.same("arith.mulf", x, x), coefficients))


def _beyond(b: Builder, x: ir.Value, bound: float, far: ir.Value, near: ir.Value) -> ir.Value:
    """`near` for NaN."""
    return b.select(b.compare("oge", b.same("math.absf", x), b.constant(x.type, bound)), far, near)


def erf(b: Builder, x: ir.Value) -> ir.Value:
    one, zero = b.constant(x.type, 1.0), b.constant(x.type, -0.0)
    t = b.same("arith.minnumf", b.same("math.absf", x), b.constant(x.type, ERF_LAST))
    power = b.same("arith.mulf", t, _polynomial(b, t, [-c for c in ERF_FAR]))
    size = b.same("arith.subf", one, instruction(b, EXP2, power))
    negative = b.compare("olt", x, zero)
    far = b.select(negative, b.same("arith.subf", zero, size), size)
    return _beyond(b, x, ERF_BOUND, far, _odd(b, x, ERF_NEAR))


def tanh(b: Builder, x: ir.Value) -> ir.Value:
    one = b.constant(x.type, 1.0)
    power = instruction(b, EXP2, b.same("arith.mulf", x, b.constant(x.type, TWICE_LOG2_E)))
    inverse = instruction(b, RECIPROCAL, b.same("arith.addf", power, one))
    far = b.same("math.fma", inverse, b.constant(x.type, -2.0), one)
    return _beyond(b, x, TANH_BOUND, far, _odd(b, x, TANH_NEAR))


def _same(name: str) -> Callable[..., ir.Value]:
    return lambda b, *operands: b.same(name, *operands)


# Of f32 values; Triton's own operations of these names are approximate.
APPROXIMATE: dict[str, Callable[..., ir.Value]] = {
    **{name: _same(name) for name in ("arith.divf", "math.sqrt", "math.exp", "math.exp2")},
    "math.erf": erf,
    "math.tanh": tanh,
}

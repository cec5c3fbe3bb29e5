"""Functions of f32 whose results are rounded to 16 bits or fewer: some roundings of f32 off, without branches.

The coefficients are minimax fits (Lawson's iteration, float64) of relative error below 3e-6 for erf, 5e-6 for 1 + erf and 2e-7 for tanh;
`python -m benchmarks.polynomials` makes them again.
"""

from collections.abc import Callable, Sequence
from math import inf

from bascule.dialect.mlir import ir

from .builder import Builder, asm

# The GPU's own instructions, of relative error below 2**-22, which flush denormals -> the operation that they approximate.
EXP2, RECIPROCAL = "ex2.approx.ftz.f32 $0, $1;", "rcp.approx.ftz.f32 $0, $1;"
INSTRUCTIONS = {EXP2: "math.exp2", RECIPROCAL: "reciprocal"}
TO_TF32 = "cvt.rna.tf32.f32 $0, $1;"  # to the nearest number of 10 bits of fraction, ties away from 0

# erf(x): x * P(x**2) below the bound; above it 1 - 2**-(t * Q(t)) with t = min(|x|, LAST), and the sign of x.
# Q is fitted for the larger of the relative errors of erf(t) and 1 - erf(t), which a gelu reads.
ERF_BOUND, ERF_LAST = 0.3, 4.1
ERF_NEAR = (1.1283785678071119, -0.37600672552974795, 0.10927793421850593)
ERF_FAR = (
    *(1.6281348506300146, 0.9168057226427098, 0.15281387198307714, -0.03416606576933135),
    *(0.00531155562710002, -0.0005011312093701481, 2.1330106410588634e-05),
)
# 1 - erf(t) of t >= 0: 2**-(t * Q(t)), fitted up to ERF_LAST, where 6e-9 are left; beyond it the result goes on down to 0.
ERFC = (
    *(1.6280616521835327, 0.9170914888381958, 0.15240946412086487, -0.0338917002081871),
    *(0.005215253680944443, -0.0004842755733989179, 2.0166708054603077e-05),
)
# tanh(x): x * P(x**2) below the bound; above it 1 - 2 / (1 + e**(2 * x)).
TANH_BOUND = 0.2
TANH_NEAR = (1.0, -0.33329697960841426, 0.13038018888520553)
NORMAL = 2.0**-126, 2.0**127  # numbers of f32, their sizes
LOG2_E, TWICE_LOG2_E = 1.4426950408889634, 2.885390081777927


def instruction(b: Builder, text: str, x: ir.Value) -> ir.Value:
    return b.value("tt.elementwise_inline_asm", x.type, [x], asm(text, "=f,f"))


def polynomial(b: Builder, x: ir.Value, coefficients: Sequence[float]) -> ir.Value:
    """Horner's scheme; the constant term first."""
    *rest, result = (b.constant(x.type, c) for c in coefficients)
    for c in reversed(rest):
        result = b.same("math.fma", result, x, c)
    return result


def _odd(b: Builder, x: ir.Value, coefficients: Sequence[float]) -> ir.Value:
    return b.same("arith.mulf", x, polynomial(b, b.same("arith.mulf", x, x), coefficients))


def _beyond(b: Builder, x: ir.Value, bound: float, far: ir.Value, near: ir.Value) -> ir.Value:
    """`near` for NaN."""
    return b.select(b.compare("oge", b.same("math.absf", x), b.constant(x.type, bound)), far, near)


def exp2(b: Builder, x: ir.Value) -> ir.Value:
    """Without what a GPU does apart for results below 2**-126, which are 0."""
    return instruction(b, EXP2, x) if isinstance(x.type, ir.RankedTensorType) else b.same("math.exp2", x)


def exp(b: Builder, x: ir.Value) -> ir.Value:
    """The same; of x <= 0 the error is 2 ulp and |x| exp(x) of them."""
    return exp2(b, b.same("arith.mulf", x, b.constant(x.type, LOG2_E)))


def over_one_and_more(b: Builder, x: ir.Value, y: ir.Value) -> ir.Value:
    """x / y of y >= 1, for numerators of which nothing is to be seen where y is above 2**126: 0 there."""
    if not isinstance(x.type, ir.RankedTensorType):
        return b.same("arith.divf", x, y)
    return b.same("arith.mulf", x, instruction(b, RECIPROCAL, y))


def is_logistic(division: ir.Operation) -> bool:
    """Whether a division is c / (1 + exp(z)) with a constant c up to 1, or x / (1 + exp(-x)): next to nothing is left of either where the
    denominator is above 2**126."""
    x, y = division.operands
    terms = list(y.owner.operands) if is_op(y, "arith.addf") else []
    powers = [term.owner.operands[0] for term in terms if is_op(term, "math.exp")]
    if not powers or not any(number_of(term) == 1.0 for term in terms):
        return False
    number = number_of(x)
    return _negates(powers[0], x) if number is None else abs(number) <= 1


def scaled_twice(op: ir.Operation) -> tuple[ir.Value, float] | None:
    """The x and c1 * c2 of an `op` (x * c1) * c2, which overflow for the same x; None for another op."""
    if op.name != "arith.mulf" or not is_op(op.operands[0], "arith.mulf"):
        return None
    x, inner = op.operands[0].owner.operands
    one, other = number_of(inner), number_of(op.operands[1])
    if one is None or other is None or abs(one) > 1 > abs(other) or not NORMAL[0] <= abs(one * other) <= NORMAL[1]:
        return None
    return x, one * other


def scaled_by(b: Builder, x: ir.Value) -> tuple[ir.Value, float | None]:
    """The tile that `x` is a positive multiple of, and which one; `x` and None where it is not known to be one."""
    if not is_op(x, "arith.mulf"):
        return x, None
    u, factor = x.owner.operands
    attribute = factor.owner.attributes["value"] if is_op(factor, "arith.constant") else None
    if not isinstance(attribute, ir.DenseElementsAttr):
        return x, None
    number = attribute.get_splat_value().value
    return (u, number) if 0 < number < inf else (x, None)


def scaled_or_hidden(x: ir.Value, y: ir.Value) -> tuple[list[ir.Value], float] | None:
    """Of a choice between u * c and -inf, in either order, what is chosen before it is multiplied, and c > 0; None for another choice."""
    for one, other in ((x, y), (y, x)):
        if is_op(one, "arith.mulf") and number_of(other) == -inf:
            u, factor = one.owner.operands[0], number_of(one.owner.operands[1])
            if factor is not None and 0 < factor < inf:
                return [u if side == one else side for side in (x, y)], factor
    return None


def is_op(value: ir.Value, name: str) -> bool:
    owner = value.owner
    return not isinstance(owner, ir.Block) and owner.name == name


def number_of(value: ir.Value) -> float | None:
    return value.owner.attributes["value"].value if is_op(value, "arith.constant") else None


def _negates(value: ir.Value, x: ir.Value) -> bool:
    if is_op(value, "arith.subf"):
        return number_of(value.owner.operands[0]) == 0.0 and value.owner.operands[1] == x
    return is_op(value, "arith.negf") and value.owner.operands[0] == x


def erf(b: Builder, x: ir.Value) -> ir.Value:
    one, zero = b.constant(x.type, 1.0), b.constant(x.type, -0.0)
    t = b.same("arith.minnumf", b.same("math.absf", x), b.constant(x.type, ERF_LAST))
    power = b.same("arith.mulf", t, polynomial(b, t, [-c for c in ERF_FAR]))
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
    **{name: _same(name) for name in ("arith.divf", "math.sqrt")},
    "math.exp": exp,
    "math.exp2": exp2,
    "math.erf": erf,
    "math.tanh": tanh,
}

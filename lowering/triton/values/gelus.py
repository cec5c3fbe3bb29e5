"""c * (1 + f(k * x)) and c * y * (1 + f(k * x)) of f = erf and tanh: gelus, what their gradients read, distribution functions.

Constants go into coefficients. Nothing cancels where x is negative, as it does where f is rounded first: with r = 1 - erf(|k * x|), the first is
r or 2 - r of erf, and 2 / (1 + e**(-2 * k * x)) of tanh.
"""

from dataclasses import dataclass
from itertools import permutations
from math import log2, prod

from bascule.dialect.mlir import ir

from .approximations import ERFC, EXP2, NORMAL, RECIPROCAL, TWICE_LOG2_E, instruction, is_op, number_of, polynomial
from .builder import Builder

FUNCTIONS = ("math.erf", "math.tanh")
MOST = 2.0**13  # of k, and of 1 / k: whose powers are numbers of f32


@dataclass(frozen=True)
class OneAnd:
    """c * y * (1 + f(k * x)) with c > 0 and k > 0, f by the name of its op; without y where it is None."""

    function: str
    c: float
    y: ir.Value | None
    k: float
    x: ir.Value

    @property
    def operands(self) -> list[ir.Value]:
        return [self.x] if self.y is None else [self.x, self.y]

    def computed(self, b: Builder, x: ir.Value, y: ir.Value | None = None) -> ir.Value:
        """Of the values of `operands`."""
        if self.function == "math.erf":
            result, factor = self._erf(b, x), 1.0
        else:
            result, factor = self._tanh(b, x), 2 * self.c
        if y is not None:
            result = b.same("arith.mulf", y, result)
        return result if factor == 1 else b.same("arith.mulf", result, b.constant(x.type, factor))

    def _erf(self, b: Builder, x: ir.Value) -> ir.Value:
        """c * (1 + erf(k * x))."""
        t = b.same("math.absf", x)
        powers = (-each * self.k**n for n, each in enumerate(ERFC, 1))
        rest = instruction(b, EXP2, polynomial(b, t, [log2(self.c), *powers]))
        negative = b.compare("olt", x, b.constant(x.type, -0.0))
        return b.select(negative, rest, b.same("arith.subf", b.constant(x.type, 2 * self.c), rest))

    def _tanh(self, b: Builder, x: ir.Value) -> ir.Value:
        """(1 + tanh(k * x)) / 2."""
        power = instruction(b, EXP2, b.same("arith.mulf", x, b.constant(x.type, -TWICE_LOG2_E * self.k)))
        return instruction(b, RECIPROCAL, b.same("arith.addf", power, b.constant(x.type, 1.0)))


def one_and(op: ir.Operation) -> OneAnd | None:
    """`op` as one of these, whose factors, and their own, may be constants in any order; None for something else, and where others read a part,
    which is computed once."""
    if op.name not in ("arith.mulf", "arith.addf"):
        return None
    c, product = scaled(op.results[0])
    sides = list(product.owner.operands) if is_op(product, "arith.mulf") else [product]
    factors = [scaled(side) for side in sides]
    c *= prod(number for number, _ in factors)
    found = [(made, side, f) for side, (_, f) in zip(sides, factors) if (made := _added_to_one(f)) is not None]
    if len(found) != 1 or not NORMAL[0] <= c <= NORMAL[1]:
        return None
    ((function, side, total),) = found
    if any(_is_shared(value) for value in (product, side, total) if value != op.results[0]):
        return None
    k, x = scaled(function.operands[0])
    if not 1 / MOST <= k <= MOST:
        k, x = 1.0, function.operands[0]
    y = next((factor for _, factor in factors if factor != total), None)
    return OneAnd(function.name, c, y, k, x)


def scaled(value: ir.Value) -> tuple[float, ir.Value]:
    """A value as a number times another one; nothing between the two is read by others."""
    number = 1.0
    while (parts := _constant_factor(value)) is not None:
        number *= parts[0]
        value = parts[1]
        if _is_shared(value):
            break
    return number, value


def _constant_factor(value: ir.Value) -> tuple[float, ir.Value] | None:
    """The constant of a product or a quotient, as a factor, and the other one."""
    if is_op(value, "arith.divf"):
        x, by = value.owner.operands
        constant = number_of(by)
        return (1 / constant, x) if constant else None
    for x, by in permutations(value.owner.operands) if is_op(value, "arith.mulf") else ():
        if (constant := number_of(by)) is not None:
            return constant, x
    return None


def _is_shared(value: ir.Value) -> bool:
    return len(list(value.uses)) > 1


def _added_to_one(value: ir.Value) -> ir.Operation | None:
    """The operation f(x) of 1 + f(x), in either order."""
    for one, other in permutations(value.owner.operands) if is_op(value, "arith.addf") else ():
        if number_of(one) == 1.0 and any(is_op(other, name) for name in FUNCTIONS):
            return other.owner
    return None

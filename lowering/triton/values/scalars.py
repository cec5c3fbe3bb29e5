"""Scalar operations at tensor types: those that Triton takes as they are, those of libdevice, and a rule each for the rest.

A rule gets values spread to one shape and gives one or more values of that shape; element types are the operation's own.
16-bit floats are computed in f32 and rounded where the IR has an operation on them.
"""

from collections.abc import Callable

from bascule.dialect.mlir import ir

from .approximations import APPROXIMATE
from .builder import Builder, element, like
from .float8 import FLOAT8, to_float8, widen_float8
from .libdevice import LIBDEVICE
from .packed_values import unknown

NARROW = (ir.F16Type, ir.BF16Type, *FLOAT8)

SAME = {
    *("arith.addi", "arith.subi", "arith.muli", "arith.divsi", "arith.divui", "arith.remsi", "arith.remui"),
    *("arith.andi", "arith.ori", "arith.xori", "arith.shli", "arith.shrsi", "arith.shrui"),
    *("arith.maxsi", "arith.maxui", "arith.minsi", "arith.minui"),
    *("arith.addf", "arith.subf", "arith.mulf", "arith.maxnumf", "arith.minnumf"),
    *("arith.extsi", "arith.extui", "arith.trunci"),
    *("arith.cmpi", "arith.cmpf", "arith.select", "math.absf", "math.absi", "math.ceil", "math.floor", "math.fma"),
}

Rule = Callable[..., ir.Value]  # (builder, result's element type, *operands)

TINY, LARGE = 2.0**-64, 2.0**64


def reciprocal(b: Builder, y: ir.Value) -> tuple[ir.Value, ir.Value]:
    """`(k, r)` with `x / y` about `(x * k) * r` for f32; k is a power of two that keeps the reciprocal finite."""
    one = b.constant(y.type, 1.0)
    tiny = b.compare("olt", b.same("math.absf", y), b.constant(y.type, TINY))
    k = b.select(tiny, b.constant(y.type, LARGE), one)
    return k, b.same("tt.precise_divf", one, b.same("arith.mulf", y, k))


def _divide(b: Builder, to: ir.Type, x: ir.Value, y: ir.Value) -> ir.Value:
    # Of f32, Triton's arith.divf is an approximation.
    return b.same("tt.precise_divf" if to == b.f32 else "arith.divf", x, y)


def _sqrt(b: Builder, to: ir.Type, x: ir.Value) -> ir.Value:
    return b.same("tt.precise_sqrt" if to == b.f32 else "math.sqrt", x)


def _negate(b: Builder, to: ir.Type, x: ir.Value) -> ir.Value:
    return b.same("arith.subf", b.constant(x.type, -0.0), x)


def extreme(b: Builder, x: ir.Value, y: ir.Value, largest: bool) -> ir.Value:
    """The larger (smaller) of two floats, NaN if either is one. f64 has no instruction for that."""
    if element(x.type) == b.f32:
        return b.same("arith.maximumf" if largest else "arith.minimumf", x, y)
    chosen = b.select(b.compare("ogt" if largest else "olt", x, y), x, y)
    return b.select(b.is_nan(x), x, chosen)  # a NaN in y: the comparison fails, and y is chosen


def _floor_division(b: Builder, to: ir.Type, x: ir.Value, y: ir.Value) -> ir.Value:
    return divide_floor(b, x, y)[0]


def divide_floor(b: Builder, x: ir.Value, y: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Quotient rounded down, and the remainder of the divisor's sign."""
    zero = b.constant(x.type, 0)
    quotient, rest = b.same("arith.divsi", x, y), b.same("arith.remsi", x, y)
    signs = b.same("arith.xori", b.compare("slt", rest, zero), b.compare("slt", y, zero))
    wrong = b.same("arith.andi", b.compare("ne", rest, zero), signs)
    lower = b.same("arith.subi", quotient, b.constant(x.type, 1))
    return b.select(wrong, lower, quotient), b.select(wrong, b.same("arith.addi", rest, y), rest)


def _ceil_division(b: Builder, to: ir.Type, x: ir.Value, y: ir.Value) -> ir.Value:
    zero = b.constant(x.type, 0)
    return b.same("arith.subi", zero, divide_floor(b, b.same("arith.subi", zero, x), y)[0])


def _power(b: Builder, to: ir.Type, x: ir.Value, exponent: ir.Value) -> ir.Value:
    """By repeated squaring, a bit of the exponent a step; a negative one leaves of 1 / x**-n what is whole: 0, unless x is 1 or -1."""
    zero, one = b.constant(x.type, 0), b.constant(x.type, 1)

    def step(_: ir.Value, values: list[ir.Value]) -> list[ir.Value]:
        product, square, left = values
        odd = b.compare("ne", b.same("arith.andi", left, b.constant(x.type, 1)), b.constant(x.type, 0))
        product = b.select(odd, b.same("arith.muli", product, square), product)
        return [product, b.same("arith.muli", square, square), b.same("arith.shrui", left, b.constant(x.type, 1))]

    bounds = b.constant(b.i32, 0), b.constant(b.i32, to.width - 1), b.constant(b.i32, 1)
    power = b.loop(bounds, [one, x, exponent], step)[0]
    odd = b.compare("ne", b.same("arith.andi", exponent, one), zero)
    minus = b.constant(x.type, -1)
    inverse = b.select(b.compare("eq", x, minus), b.select(odd, minus, one), zero)
    inverse = b.select(b.compare("eq", x, one), one, inverse)
    return b.select(b.compare("slt", exponent, zero), inverse, power)


def widen(b: Builder, x: ir.Value) -> ir.Value:
    scalar = element(x.type)
    if isinstance(scalar, FLOAT8):
        return widen_float8(b, x)
    return b.convert("arith.extf", x, b.f32) if isinstance(scalar, NARROW) else x


def to_float(b: Builder, to: ir.Type, x: ir.Value) -> ir.Value:
    """A float of one width as one of another; between f64 and 16 bits through f32, as PyTorch does."""
    if element(x.type) == to:
        return x
    x = widen(b, x)
    if isinstance(to, NARROW) and element(x.type) != b.f32:
        x = b.convert("arith.truncf", x, b.f32)
    if element(x.type) == to:
        return x
    if isinstance(to, FLOAT8):
        return to_float8(b, to, x)
    return b.convert("arith.extf" if to.width > element(x.type).width else "arith.truncf", x, to)


def _from_integer(name: str) -> Rule:
    def rule(b: Builder, to: ir.Type, x: ir.Value) -> ir.Value:
        wide = b.f32 if isinstance(to, NARROW) else to
        return to_float(b, to, b.convert(name, x, wide))

    return rule


def _to_integer(name: str) -> Rule:
    return lambda b, to, x: b.convert(name, unknown(b, widen(b, x)), to)


def to_index(b: Builder, to: ir.Type, x: ir.Value) -> ir.Value:
    """Signed integers of any width, indices among them."""
    have = element(x.type)
    if have == to:
        return x
    return b.convert("arith.extsi" if to.width > have.width else "arith.trunci", x, to)


def _to_index_unsigned(b: Builder, to: ir.Type, x: ir.Value) -> ir.Value:
    have = element(x.type)
    if have == to:
        return x
    return b.convert("arith.extui" if to.width > have.width else "arith.trunci", x, to)


def _infinite(b: Builder, x: ir.Value, predicate: str) -> ir.Value:
    return b.compare(predicate, b.same("math.absf", x), b.constant(x.type, float("inf")))


def _clamp(b: Builder, to: ir.Type, x: ir.Value, low: ir.Value, high: ir.Value) -> ir.Value:
    return extreme(b, extreme(b, x, low, True), high, False)


RULES: dict[str, Rule] = {
    "arith.divf": _divide,
    "arith.negf": _negate,
    "arith.maximumf": lambda b, to, x, y: extreme(b, x, y, True),
    "arith.minimumf": lambda b, to, x, y: extreme(b, x, y, False),
    "arith.floordivsi": _floor_division,
    "arith.ceildivsi": _ceil_division,
    "arith.extf": to_float,
    "arith.truncf": to_float,
    "arith.sitofp": _from_integer("arith.sitofp"),
    "arith.uitofp": _from_integer("arith.uitofp"),
    "arith.fptosi": _to_integer("arith.fptosi"),
    "arith.fptoui": _to_integer("arith.fptoui"),
    "arith.index_cast": to_index,
    "arith.index_castui": _to_index_unsigned,
    "arith.bitcast": lambda b, to, x: b.convert("tt.bitcast", x, to),
    "builtin.unrealized_conversion_cast": lambda b, to, x: x,  # ui8 read as i8: the same bits
    "math.ipowi": _power,
    "math.sqrt": _sqrt,
    "math.clampf": _clamp,
    "math.isnan": lambda b, to, x: b.is_nan(x),
    "math.isinf": lambda b, to, x: _infinite(b, x, "oeq"),
    "math.isfinite": lambda b, to, x: _infinite(b, x, "olt"),
}

CONVERSIONS = {name for name in RULES if name.startswith("arith.") and name[6:].startswith(("ext", "trunc", "bit"))}


def call(b: Builder, name: str, operands: list[ir.Value]) -> ir.Value:
    """A function of libdevice, of f32 or f64 values."""
    symbol = LIBDEVICE[name] + ("f" if element(operands[0].type) == b.f32 else "")
    attributes: dict[str, ir.Attribute] = {
        "libname": ir.StringAttr.get(""),
        "libpath": ir.StringAttr.get(""),
        "pure": ir.BoolAttr.get(True),
        "symbol": ir.StringAttr.get(symbol),
    }
    return b.value("tt.extern_elementwise", operands[0].type, operands, attributes)


def supports(name: str) -> bool:
    return name in SAME or name in RULES or name in LIBDEVICE or name == "arith.mului_extended"


def emit(
    b: Builder, op: ir.Operation, results: list[ir.Type], operands: list[ir.Value], *, exact: bool = True
) -> list[ir.Value]:
    """The results of the scalar operation `op` at `operands`, which have one shape; `results` are element types.

    Not `exact`: the last bits of f32 do not matter.
    """
    if op.name == "arith.mului_extended":
        x, y = operands
        return [b.same("arith.muli", x, y), b.same("tt.mulhiui", x, y)]
    (to,) = results
    if op.name not in CONVERSIONS and op.name not in ("arith.select", "builtin.unrealized_conversion_cast"):
        operands = [widen(b, x) for x in operands]
    inner = b.f32 if isinstance(to, NARROW) and op.name not in ("arith.select", *CONVERSIONS) else to
    if not exact and op.name in APPROXIMATE and element(operands[0].type) == b.f32:
        value = APPROXIMATE[op.name](b, *operands)
    elif op.name in RULES:
        value = RULES[op.name](b, inner, *operands)
    elif op.name in LIBDEVICE:
        value = call(b, op.name, operands)
    else:
        kept = {"predicate": op.attributes["predicate"]} if "predicate" in op.attributes else None
        value = b.value(op.name, like(operands[-1].type, inner), operands, kept)
    return [to_float(b, to, value) if inner != to else value]

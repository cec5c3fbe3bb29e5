"""Scalar bodies of random programs: operators that keep numbers small, so that errors stay what rounding makes them."""

from collections.abc import Callable

from bascule.dialect.mlir import arith, ir, math

Body = Callable[..., ir.Value]


def constant(value: float | int, type_: ir.Type) -> ir.Value:
    if isinstance(type_, ir.FloatType):
        return arith.ConstantOp(type_, ir.FloatAttr.get(type_, float(value))).result
    return arith.ConstantOp(type_, ir.IntegerAttr.get(type_, int(value))).result


def _halved(x: ir.Value) -> ir.Value:
    return arith.mulf(x, constant(0.5, x.type))


FLOAT_UNARY: dict[str, Body] = {
    "sin": math.sin,
    "tanh": math.tanh,
    "absf": math.absf,
    "negf": arith.negf,
    "half": _halved,
    "exp(-|x|)": lambda x: math.exp(arith.negf(math.absf(x))),
}
FLOAT_BINARY: dict[str, Body] = {
    "addf": lambda a, b: _halved(arith.addf(a, b)),
    "subf": lambda a, b: _halved(arith.subf(a, b)),
    "mulf": lambda a, b: arith.mulf(math.tanh(a), b),
    "maximumf": arith.maximumf,
    "minimumf": arith.minimumf,
}
INTEGER_UNARY: dict[str, Body] = {
    "absi": math.absi,
    "negate": lambda x: arith.subi(constant(0, x.type), x),
    "odd": lambda x: arith.andi(x, constant(1, x.type)),
}
INTEGER_BINARY: dict[str, Body] = {
    "addi": arith.addi,
    "muli": arith.muli,
    "maxsi": arith.maxsi,
    "xori": arith.xori,
    "shrsi": lambda a, b: arith.shrsi(a, arith.andi(b, constant(7, b.type))),
}
BOOLEAN_UNARY: dict[str, Body] = {"not": lambda x: arith.xori(x, constant(1, x.type))}
BOOLEAN_BINARY: dict[str, Body] = {"andi": arith.andi, "ori": arith.ori, "xori": arith.xori}

UNARY = {"f32": FLOAT_UNARY, "bf16": FLOAT_UNARY, "i64": INTEGER_UNARY, "i1": BOOLEAN_UNARY}
BINARY = {"f32": FLOAT_BINARY, "bf16": FLOAT_BINARY, "i64": INTEGER_BINARY, "i1": BOOLEAN_BINARY}
REDUCTIONS = {
    "f32": ("sum", "max", "min", "argmax", "argmin", "welford", "softmax"),
    "bf16": ("sum", "max", "min"),
    "i64": ("sum", "max", "min", "argmax", "xor"),
    "i1": ("any", "all"),
}
SCANS = {"f32": ("sum", "max", "min", "argmax"), "bf16": ("max",), "i64": ("sum", "max"), "i1": ()}


def widened(x: ir.Value) -> ir.Value:
    """bf16 as f32, the type it is computed in."""
    return arith.extf(ir.F32Type.get(), x) if isinstance(x.type, ir.BF16Type) else x


def narrowed(x: ir.Value, element: ir.Type) -> ir.Value:
    """`x` as an element to store: f32 rounded to bf16."""
    return arith.truncf(element, x) if isinstance(element, ir.BF16Type) and x.type != element else x


def converted(x: ir.Value, element: ir.Type) -> ir.Value:
    """`x` (f32, i64 or i1) as a scalar that is stored as `element`."""
    one_bit, to_float = ir.IntegerType.get_signless(1), isinstance(element, ir.FloatType)
    f32, i64 = ir.F32Type.get(), ir.IntegerType.get_signless(64)
    if to_float:
        if x.type == f32:
            return x
        return arith.uitofp(f32, x) if x.type == one_bit else arith.sitofp(f32, arith.andi(x, constant(15, x.type)))
    if element == one_bit:
        if x.type == one_bit:
            return x
        zero = constant(0, x.type)
        return arith.cmpf(4, x, zero) if x.type == f32 else arith.cmpi(1, x, zero)
    if x.type == i64:
        return x
    return arith.extui(i64, x) if x.type == one_bit else arith.fptosi(i64, x)

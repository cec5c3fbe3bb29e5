"""The pass `expand-random`: random numbers become integer arithmetic."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ..mlir import ir
from .base import Pass

ROUNDS = 10
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)  # the golden ratio and sqrt(3) - 1, as fractions of 2**32


@dataclass(frozen=True)
class ExpandRandom(Pass):
    """Replaces `bascule.random` by Philox4x32-10 in `arith` (Salmon, Moraes, Dror, Shaw: "Parallel random numbers", SC'11).

    One op is one call of the generator, which gives four words of 32 bits:

        key      = (low word of seed, high word of seed)
        counter  = (low word of offset, high word of offset, 0, 0)

        uniform  f32: (word 0 >> 8) / 2**24                          f64: (word 1, word 0) >> 11, / 2**53
        normal   f32: Box-Muller of word 0 and word 1                f64: of (word 1, word 0) and (word 3, word 2)
        bits     i32: word 0                                         i64: (word 1, word 0), word 1 the high half

    So the words of one seed and offset are those of `triton.language.philox(seed, offset)`, wherever the op is computed. Takes the
    tensor or the kernel stage and leaves it without `bascule.random`.
    """

    name: ClassVar[str] = "expand-random"

    def run(self, module: ir.Module) -> None:
        ops: list[ir.Operation] = []

        def collect(op: ir.Operation) -> ir.WalkResult:
            if op.name == "bascule.random":
                ops.append(op.operation)
            return ir.WalkResult.ADVANCE

        module.operation.walk(collect)
        for op in ops:
            with ir.InsertionPoint(op), op.location:
                value = _expand(op)
            op.results[0].replace_all_uses_with(value)
            op.erase()


def _expand(op: ir.Operation) -> ir.Value:
    seed, offset = op.operands
    zero = _integer(0, 32)
    words = philox([*_halves(offset), zero, zero], _halves(seed))
    type_ = op.results[0].type
    wide = isinstance(type_, ir.F64Type) or type_ == _int(64)
    numbers = [_joined(words[1], words[0]), _joined(words[3], words[2])] if wide else words
    match op.attributes["distribution"].value:
        case "bits":
            return numbers[0]
        case "uniform":
            return _uniform(numbers[0], type_)
        case "normal":
            return _normal(numbers[0], numbers[1], type_)
    raise AssertionError("the verifier knows the distributions")


def philox(counter: Sequence[ir.Value], key: Sequence[ir.Value]) -> list[ir.Value]:
    """Four i32 words from a counter of four and a key of two, by Philox4x32-10; built at the insertion point."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    m0, m1 = (_integer(m, 32) for m in MULTIPLIERS)
    step0, step1 = (_integer(s, 32) for s in KEY_STEPS)
    for round_ in range(ROUNDS):
        if round_:
            k0, k1 = _op("arith.addi", k0, step0), _op("arith.addi", k1, step1)
        low0, high0 = _product(c0, m0)
        low1, high1 = _product(c2, m1)
        c0, c2 = _xor(high1, c1, k0), _xor(high0, c3, k1)
        c1, c3 = low1, low0
    return [c0, c1, c2, c3]


def _uniform(bits: ir.Value, type_: ir.Type) -> ir.Value:
    """[0, 1) from the upper bits, as many as the type holds exactly."""
    width, digits = bits.type.width, 53 if isinstance(type_, ir.F64Type) else 24
    upper = _op("arith.shrui", bits, _integer(width - digits, width))
    return _op("arith.mulf", _convert("arith.sitofp", upper, type_), _float(2.0**-digits, type_))


def _normal(bits: ir.Value, turn: ir.Value, type_: ir.Type) -> ir.Value:
    """Box and Muller's sqrt(-2 log u) * cos(2 pi v), with u in (0, 1] as fine as the bits are and v in [0, 1)."""
    width = bits.type.width
    whole = _convert("arith.sitofp", _op("arith.shrui", bits, _integer(1, width)), type_)  # below 2**(width - 1)
    u = _op("arith.mulf", _op("arith.addf", whole, _float(1.0, type_)), _float(2.0 ** (1 - width), type_))
    log = _op("math.log", u)
    radius = _op("math.sqrt", _op("arith.mulf", log, _float(-2.0, type_)))
    angle = _op("arith.mulf", _uniform(turn, type_), _float(2.0 * math.pi, type_))
    return _op("arith.mulf", radius, _op("math.cos", angle))


# -- building -----------------------------------------------------------------------------------------------------------


def _int(width: int) -> ir.IntegerType:
    return ir.IntegerType.get_signless(width)


def _op(name: str, *operands: ir.Value) -> ir.Value:
    return ir.Operation.create(name, results=[operands[0].type], operands=list(operands)).result


def _xor(a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    return _op("arith.xori", _op("arith.xori", a, b), c)


def _product(a: ir.Value, b: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The low and the high word of an unsigned product."""
    low, high = ir.Operation.create("arith.mului_extended", results=[a.type, a.type], operands=[a, b]).results
    return low, high


def _convert(name: str, value: ir.Value, type_: ir.Type) -> ir.Value:
    return ir.Operation.create(name, results=[type_], operands=[value]).result


def _constant(attribute: ir.Attribute, type_: ir.Type) -> ir.Value:
    return ir.Operation.create("arith.constant", results=[type_], attributes={"value": attribute}).result


def _integer(value: int, width: int) -> ir.Value:
    half = 1 << (width - 1)
    return _constant(ir.IntegerAttr.get(_int(width), (value + half) % (2 * half) - half), _int(width))


def _float(value: float, type_: ir.Type) -> ir.Value:
    return _constant(ir.FloatAttr.get(type_, value), type_)


def _halves(value: ir.Value) -> list[ir.Value]:
    """The low and the high word of an i64."""
    high = _op("arith.shrui", value, _integer(32, 64))
    return [_convert("arith.trunci", value, _int(32)), _convert("arith.trunci", high, _int(32))]


def _joined(high: ir.Value, low: ir.Value) -> ir.Value:
    high, low = (_convert("arith.extui", word, _int(64)) for word in (high, low))
    return _op("arith.ori", _op("arith.shli", high, _integer(32, 64)), low)

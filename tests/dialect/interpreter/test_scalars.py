"""The reference interpreter on scalar ops: against Python's integers, and what it refuses."""

import inspect
import itertools
import math
import re
from fractions import Fraction

import pytest
import torch
from bascule.dialect import mlir
from bascule.dialect.interpreter import InterpreterError, interpret
from bascule.dialect.interpreter.frame import RULES
from bascule.dialect.ir import context
from bascule.dialect.mlir import ir


def parse(text: str) -> ir.Module:
    return ir.Module.parse(text, context())


def run(text: str, *inputs, function: str | None = None) -> list[torch.Tensor]:
    return interpret(parse(text), list(inputs), function)


def over_scalars(op: str, operands: list[str], result: str, properties: str = "") -> str:
    """A function that applies the op, in generic form, to each element of its arguments."""
    arguments = ", ".join(
        f"%x{i}: tensor<?x{t}, #bascule.layout<affine_map<(d0) -> (d0)>>>" for i, t in enumerate(operands)
    )
    shapes = arguments.replace(">>>", ">>> {bascule.shape = affine_map<()[s0] -> (s0)>}")
    reads = "\n".join(
        f"%e{i} = tensor.extract %x{i}[%i] : tensor<?x{t}, #bascule.layout<affine_map<(d0) -> (d0)>>>"
        for i, t in enumerate(operands)
    )
    names, types = ", ".join(f"%e{i}" for i in range(len(operands))), ", ".join(operands)
    type_ = f"tensor<?x{result}, #bascule.layout<affine_map<(d0) -> (d0)>>>"
    return f"""
    func.func @main(%n: index, {shapes}) -> {type_} attributes {{bascule.graph, bascule.shapes = [affine_map<()[s0] -> (s0)>]}} {{
      %0 = "bascule.compute"() ({{
      ^bb0(%i: index):
        {reads}
        %r = "{op}"({names}) {properties} : ({types}) -> {result}
        "bascule.yield"(%r) : ({result}) -> ()
      }}) {{ranges = affine_map<()[s0] -> (s0)>}} : () -> {type_}
      return %0 : {type_}
    }}"""


def test_every_scalar_op_of_arith_and_math_has_a_rule():
    known = set()
    for dialect in (mlir.arith, mlir.math):
        module = inspect.getmodule(dialect.ConstantOp.__mro__[1] if dialect is mlir.arith else dialect.ExpOp)
        known |= set(re.findall(r'OPERATION_NAME = "(.*?)"', inspect.getsource(module)))
    assert len(known) > 90
    assert known - set(RULES) == set()


WIDTHS = {"i1": 1, "i8": 8, "i64": 64}


def samples(width: int) -> list[int]:
    """Signed numbers of `width` bits: the extremes, and some between."""
    low, high = -(2 ** (width - 1)), 2 ** (width - 1) - 1
    return (
        sorted({low, low + 1, -7, -2, -1, 0, 1, 2, 3, 5, high - 1, high} & set(range(low, high + 1)))
        if width < 64
        else [low, low + 1, -(2**40) + 7, -2, -1, 0, 1, 3, 2**33 + 5, high - 1, high]
    )


def trunc_div(a, b):
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def u(x, width):
    return x % 2**width


# op -> (of signed a, b and of width); None where the result is undefined
INTEGER_OPS = {
    "arith.addi": lambda a, b, w: a + b,
    "arith.subi": lambda a, b, w: a - b,
    "arith.muli": lambda a, b, w: a * b,
    "arith.andi": lambda a, b, w: a & b,
    "arith.xori": lambda a, b, w: a ^ b,
    "arith.maxsi": lambda a, b, w: max(a, b),
    "arith.minsi": lambda a, b, w: min(a, b),
    "arith.maxui": lambda a, b, w: max(u(a, w), u(b, w)),
    "arith.minui": lambda a, b, w: min(u(a, w), u(b, w)),
    "arith.divsi": lambda a, b, w: trunc_div(a, b) if b else None,
    "arith.remsi": lambda a, b, w: a - b * trunc_div(a, b) if b else None,
    "arith.floordivsi": lambda a, b, w: a // b if b else None,
    "arith.ceildivsi": lambda a, b, w: -(-a // b) if b else None,
    "arith.divui": lambda a, b, w: u(a, w) // u(b, w) if b else None,
    "arith.remui": lambda a, b, w: u(a, w) % u(b, w) if b else None,
    "arith.ceildivui": lambda a, b, w: -(-u(a, w) // u(b, w)) if b else None,
    "arith.shli": lambda a, b, w: a << u(b, w) if u(b, w) < w else None,
    "arith.shrsi": lambda a, b, w: a >> u(b, w) if u(b, w) < w else None,
    "arith.shrui": lambda a, b, w: u(a, w) >> u(b, w) if u(b, w) < w else None,
}


def to_tensor(values: list[int], type_: str) -> torch.Tensor:
    if type_ == "i1":
        return torch.tensor([bool(v & 1) for v in values])
    width = WIDTHS[type_]
    wrapped = [(v + 2 ** (width - 1)) % 2**width - 2 ** (width - 1) for v in values]
    return torch.tensor(wrapped, dtype={8: torch.int8, 64: torch.int64}[width])


@pytest.mark.parametrize("type_", WIDTHS)
@pytest.mark.parametrize("op", INTEGER_OPS)
def test_integer_arithmetic_is_that_of_two_complement(op, type_):
    width = WIDTHS[type_]
    cases = []
    for a, b in itertools.product(samples(width), repeat=2):
        overflow = op in ("arith.divsi", "arith.remsi", "arith.floordivsi", "arith.ceildivsi") and b == -1
        want = INTEGER_OPS[op](a, b, width)
        if want is not None and not (overflow and a == -(2 ** (width - 1)) and width > 1):
            cases.append((a, b, want))
    a, b, want = (to_tensor(list(column), type_) for column in zip(*cases))
    (got,) = run(over_scalars(op, [type_, type_], type_), len(a), a, b)
    assert got.tolist() == want.tolist()


@pytest.mark.parametrize("type_", ["i8", "i64"])
@pytest.mark.parametrize("op", ["arith.mulsi_extended", "arith.mului_extended"])
def test_extended_products_have_both_halves(op, type_):
    width = WIDTHS[type_]
    a, b = zip(*itertools.product(samples(width), repeat=2))
    text = (
        over_scalars(op, [type_, type_], type_)
        .replace("%r =", "%l, %r =")
        .replace(f"-> {type_}\n", f"-> ({type_}, {type_})\n", 1)
    )
    (high,) = run(text, len(a), to_tensor(a, type_), to_tensor(b, type_))
    read = (lambda x: x) if op == "arith.mulsi_extended" else (lambda x: u(x, width))
    assert high.tolist() == to_tensor([(read(x) * read(y)) >> width for x, y in zip(a, b)], type_).tolist()


@pytest.mark.parametrize(
    "predicate, compare", list(enumerate(["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"]))
)
def test_integer_comparison(predicate, compare):
    a, b = zip(*itertools.product(samples(64), repeat=2))
    python = {"eq": "__eq__", "ne": "__ne__", "lt": "__lt__", "le": "__le__", "gt": "__gt__", "ge": "__ge__"}[
        compare[-2:]
    ]
    read = (lambda x: u(x, 64)) if compare[0] == "u" else (lambda x: x)
    text = over_scalars("arith.cmpi", ["i64", "i64"], "i1", f"{{predicate = {predicate} : i64}}")
    (got,) = run(text, len(a), torch.tensor(a), torch.tensor(b))
    assert got.tolist() == [getattr(read(x), python)(read(y)) for x, y in zip(a, b)]


def test_float_comparison_with_nan():
    a = torch.tensor([1.0, 2.0, 2.0, math.nan])
    b = torch.tensor([2.0, 2.0, 1.0, 1.0])
    want = {2: [0, 0, 1, 0], 6: [1, 0, 1, 0], 7: [1, 1, 1, 0], 8: [0, 1, 0, 1], 13: [1, 0, 1, 1], 14: [0, 0, 0, 1]}
    for predicate, expected in want.items():
        text = over_scalars("arith.cmpf", ["f32", "f32"], "i1", f"{{predicate = {predicate} : i64}}")
        assert run(text, 4, a, b)[0].int().tolist() == expected, predicate


def test_a_fused_multiplication_of_f64_rounds_once():
    a, b = torch.randn(2, 500, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    c = torch.cat([-(a * b)[:250], a[250:] + b[250:]])
    (got,) = run(over_scalars("math.fma", ["f64"] * 3, "f64", "{fastmath = #arith.fastmath<none>}"), 500, a, b, c)
    exact = [float(Fraction(x) * Fraction(y) + Fraction(z)) for x, y, z in zip(a.tolist(), b.tolist(), c.tolist())]
    torch.testing.assert_close(got, torch.tensor(exact, dtype=torch.float64), rtol=2.3e-16, atol=0)
    ends = torch.tensor([1e300, math.inf, math.nan, 2.0], dtype=torch.float64)
    (got,) = run(
        over_scalars("math.fma", ["f64"] * 3, "f64", "{fastmath = #arith.fastmath<none>}"), 4, ends, ends, ends
    )
    torch.testing.assert_close(got, torch.addcmul(ends, ends, ends), equal_nan=True)


def test_conversions_between_integers_and_floats():
    x = torch.tensor([-1, 2**63 - 1, -(2**63), 2**53 + 1])
    (got,) = run(over_scalars("arith.uitofp", ["i64"], "f64"), 4, x)
    assert got.tolist() == [float(v % 2**64) for v in x.tolist()]
    (back,) = run(
        over_scalars("arith.fptoui", ["f64"], "i64"),
        3,
        torch.tensor([2.0**63, 1.9, 2.0**64 - 2048], dtype=torch.float64),
    )
    assert back.tolist() == [-(2**63), 1, -2048]
    assert run(over_scalars("arith.sitofp", ["i1"], "f32"), 2, torch.tensor([True, False]))[0].tolist() == [-1, 0]


@pytest.mark.parametrize(
    "op, function",
    [
        ("math.ctpop", lambda x: bin(x).count("1")),
        ("math.ctlz", lambda x: 64 - x.bit_length()),
        ("math.cttz", lambda x: (x & -x).bit_length() - 1 if x else 64),
    ],
)
def test_bit_counts(op, function):
    x = torch.tensor([0, 1, 6, -1, -(2**63), 2**40])
    assert run(over_scalars(op, ["i64"], "i64"), 6, x)[0].tolist() == [function(v % 2**64) for v in x.tolist()]


def test_division_by_zero_is_refused():
    with pytest.raises(InterpreterError, match="divides by zero"):
        run(over_scalars("arith.divsi", ["i64", "i64"], "i64"), 2, torch.tensor([1, 2]), torch.tensor([1, 0]))
    with pytest.raises(InterpreterError, match="overflows"):
        run(over_scalars("arith.divsi", ["i8", "i8"], "i8"), 1, to_tensor([-128], "i8"), to_tensor([-1], "i8"))

"""Sizes of symbols as affine expressions, and where symbols are found."""

import pytest
import sympy
import torch
from bascule.dialect.errors import UnsupportedError
from bascule.dialect.interpreter.maps import evaluate
from bascule.dialect.ir import context
from bascule.dialect.ir.computed_symbols import computed_value
from bascule.dialect.ir.symbol_sources import Source
from bascule.dialect.mlir import ir
from bascule.frontend.importer.symbol_sources import symbol_sources
from bascule.frontend.importer.symbols import Symbols
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
from torch.utils._sympy.functions import (
    CeilDiv,
    CeilToInt,
    FloorDiv,
    FloorToInt,
    IntTrueDiv,
    Max,
    Min,
    Mod,
    ModularIndexing,
    PowByNatural,
    PythonMod,
    RoundToInt,
    ToFloat,
    TruncToInt,
    Where,
)


@pytest.fixture(autouse=True)
def in_context():
    with context():
        yield


def fake(*shape: int) -> torch.Tensor:
    """A fake tensor with a symbol for every size (of 2 and more)."""
    mode = FakeTensorMode(shape_env=ShapeEnv())
    dims = StatelessSymbolicContext([DimDynamic.DYNAMIC] * len(shape))
    return mode.from_tensor(torch.empty(shape), symbolic_context=dims)


def symbols_of(tensor: torch.Tensor) -> tuple[Symbols, list[sympy.Symbol]]:
    return Symbols([tensor]), [size.node.expr for size in tensor.shape]


def strided(*strides: sympy.Expr, of: torch.Tensor) -> list[torch.SymInt]:
    environment = of.shape[0].node.shape_env
    return [environment.create_symintnode(stride, hint=1) for stride in strides]


def test_factors_of_strides_are_sizes():
    """Where PyTorch made them of sizes: what a user wrote so is no size, or another, and stays, as what is divided by it does."""
    tensor = fake(6, 4)
    s, t = (size.node.expr for size in tensor.shape)
    few = FloorDiv(s, 5)
    symbols = Symbols([tensor], [tensor.new_empty(tensor.shape[0] // 5, tensor.shape[1])])
    given = strided(
        Max(1, few) * t,
        Max(1, few * t) * 2,
        Max(1, few) * t + Max(1, few),
        FloorDiv(t, Max(1, few)),
        Max(1, s - 3),
        of=tensor,
    )
    found = [symbols.stride(stride) for stride in given]
    assert len(symbols.computed) == 2  # only what is none: a divisor, and a number that no tensor has as a size
    assert [value(symbols, stride, [2, 7]) for stride in found] == [0, 0, 0, 7, 1]
    both = [tensor.new_empty(torch.sym_max(1, tensor.shape[0] // 5)), tensor.new_empty(tensor.shape[0] // 5)]
    written = Symbols([tensor], both)
    assert value(written, written.stride(given[0]), [2, 7]) == 7


def test_expressions():
    symbols, (s, t) = symbols_of(fake(6, 4))
    cases = {
        s + t * 2 - 1: "s0 + s1 * 2 - 1",
        s * t: "s0 * s1",
        s**2: "s0 * s0",
        FloorDiv(s, 2): "s0 floordiv 2",
        Mod(s + 1, 3): "(s0 + 1) mod 3",
        ModularIndexing(s, 2, 3): "(s0 floordiv 2) mod 3",
        TruncToInt(IntTrueDiv(s, 2)): "s0 floordiv 2",
        FloorToInt(sympy.Float(1.5) * ToFloat(s)): "(s0 * 3) floordiv 2",
    }
    for found, text in cases.items():
        assert str(symbols.affine(found)) == text


def value(symbols: Symbols, size: ir.AffineExpr, known: list[int]) -> int:
    """The value of an expression, where the symbols that inputs give are `known`."""
    values = list(known)
    for tree in symbols.computed:
        values.append(computed_value(tree, lambda e: evaluate(e, (), values)))
    return evaluate(size, (), values)


def test_what_is_no_affine_expression_is_computed():
    symbols, (s, t) = symbols_of(fake(6, 4))
    found = Max(s + 1, 2 * t)
    assert str(symbols.affine(found)) == "s2"
    assert symbols.names[2:] == ["c0"]
    text = str(symbols.attribute()[2])
    assert text.startswith('{kind = "computed", value = ["max", ')
    assert "affine_map<()[s0] -> (s0 + 1)>" in text and "affine_map<()[s0, s1] -> (s1 * 2)>" in text
    assert str(symbols.affine(2 * found + 1)) == "s2 * 2 + 1"  # the same symbol


def test_computed_symbols_have_the_values_that_sympy_has():
    symbols, (s, t) = symbols_of(fake(6, 4))
    cases = [
        Max(s, t),
        Min(s - t, 3),
        Min(t - s, -3) * 2 + Max(s, t, 3),
        FloorToInt(sympy.Float(1.7) * ToFloat(s)),
        CeilToInt(sympy.Float(0.3) * ToFloat(t)),
        RoundToInt(ToFloat(s) * sympy.Float(0.7)),
        PowByNatural(s, t),
        Where(s > t, s - 1, t + 2),
        FloorDiv(s, Min(t - s, -1)),
        CeilDiv(s, Min(t - s, -1)),
        PythonMod(s, Min(t - s, -1)),
        RoundToInt(IntTrueDiv(s - t, 2) + 1),
    ]
    sizes = [symbols.affine(found) for found in cases]
    for known in ((6, 4), (4, 6), (5, 5), (2, 31)):
        given = dict(zip((s, t), known))
        for found, size in zip(cases, sizes):
            assert value(symbols, size, list(known)) == int(found.xreplace(given)), found


def test_conditions_are_zero_or_one():
    symbols, (s, t) = symbols_of(fake(6, 4))
    conditions = [
        sympy.Eq(s, t),
        sympy.Ne(s, t),
        s < t,
        s <= t,
        s > t,
        s >= t,
        sympy.And(s > 4, t > 4),
        sympy.Not(sympy.Or(s > 4, t > 4)),
    ]
    sizes = [symbols.affine(condition) for condition in conditions]
    for known in ((6, 4), (4, 6), (5, 5), (2, 2)):
        given = dict(zip((s, t), known))
        assert [value(symbols, e, list(known)) for e in sizes] == [int(bool(c.subs(given))) for c in conditions]


def test_symbols_that_may_be_negative_are_differences():
    environment = ShapeEnv()
    number = environment.create_unbacked_symint()
    symbols = Symbols([number])
    size = symbols.affine(number)
    assert [value(symbols, size, [n]) for n in (-3, 0, 5)] == [-3, 0, 5]
    above, below = (ir.AffineExpr.get_symbol(i) for i in (1, 2))
    assert size == above - below
    assert [value(symbols, above, [n]) for n in (-3, 0, 5)] == [0, 0, 5]
    assert [value(symbols, below, [n]) for n in (-3, 0, 5)] == [3, 0, 0]


def test_what_is_only_known_later_is_refused():
    symbols, _ = symbols_of(fake(6, 4))
    with pytest.raises(UnsupportedError, match="only known when the graph runs"):
        symbols.affine(sympy.Symbol("u0", integer=True))


def test_sources():
    tensor = fake(6, 4)
    symbols = Symbols([7, tensor, tensor.shape[1]])
    _, (s, t) = symbols_of(tensor)
    assert symbols.sources == {t: Source(2, "value"), s: Source(1, "size", 0)}
    assert symbols.names == [str(t), str(s)]


def test_a_symbol_is_solved_for():
    tensor = fake(6, 4)
    doubled = torch.cat([tensor, tensor])
    (s, t) = (size.node.expr for size in tensor.shape)
    assert Symbols([doubled]).sources == {s: Source(0, "size", 0, scale=2), t: Source(0, "size", 1)}


def test_an_input_that_gives_an_expression():
    tensor = fake(6, 4)
    s, t = (size.node.expr for size in tensor.shape)
    with pytest.raises(UnsupportedError, match="no input gives the value of the symbol"):
        symbol_sources([tensor.reshape(-1)])
    symbols = Symbols([tensor.reshape(-1)])
    assert symbols.sources == {s * t: Source(0, "size", 0)}
    assert str(symbols.affine(s * t + 1)) == "s0 + 1"
    with pytest.raises(UnsupportedError, match="is not given by any input"):
        symbols.affine(s)


@pytest.mark.parametrize("written", ["int(a * n)", "int(n / 2)"])
def test_an_integer_of_a_negative_number_is_rounded_towards_zero(written):
    torch._dynamo.reset()
    function = eval(f"lambda x, n, a: x.roll({written}, 1)")
    x = torch.arange(16.0).view(1, 16)
    with torch._dynamo.config.patch(specialize_float=False):
        compiled = torch.compile(function, backend="bascule", dynamic=True, options={"on_error": "raise"})
        for n, a in [(3, 1.75), (5, -2.5), (-7, 0.5), (-5, -0.75)]:
            assert torch.equal(compiled(x, n, a), function(x, n, a))

"""Sizes of symbols as affine expressions, and where symbols are found."""

import pytest
import sympy
import torch
from bascule.dialect.errors import UnsupportedError
from bascule.dialect.ir import context
from bascule.frontend.symbols import Source, Symbols
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
from torch.utils._sympy.functions import (
    FloorDiv,
    FloorToInt,
    IntTrueDiv,
    Max,
    Mod,
    ModularIndexing,
    ToFloat,
    TruncToInt,
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


def test_what_is_no_affine_expression_is_refused():
    symbols, (s, t) = symbols_of(fake(6, 4))
    for found in (Max(s, t), s**t, sympy.Symbol("u0", integer=True)):
        with pytest.raises(UnsupportedError):
            symbols.affine(found)


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


def test_a_symbol_that_no_input_gives():
    tensor = fake(6, 4)
    with pytest.raises(UnsupportedError, match="no input gives the value of the symbol"):
        Symbols([tensor.reshape(-1)])

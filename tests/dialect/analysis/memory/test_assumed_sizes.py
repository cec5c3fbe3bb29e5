"""Numbers in place of symbols: some divide by zero."""

import pytest
from bascule.dialect.analysis.memory.assumed_sizes import assumed, number_of
from bascule.dialect.ir import context
from bascule.dialect.ir.shapes import expr
from bascule.dialect.mlir import ir


@pytest.fixture
def symbols():
    with context():
        yield ir.AffineExpr.get_symbol(0), ir.AffineExpr.get_symbol(1)


def quotient(a, b):
    return ir.AffineExpr.get_floor_div(a, b)


@pytest.mark.parametrize("least", [1, 2, 63, 65, 80, 1000, 4097, 100000])
def test_a_divisor_that_is_a_quotient(symbols, least):
    s, _ = symbols
    assert assumed(quotient(s * 2, quotient(s, expr(least)))) > 0


@pytest.mark.parametrize("number", [1, 8, 64, 4096])
def test_a_divisor_that_is_a_difference(symbols, number):
    s, _ = symbols
    assert assumed(quotient(s * s, s - number)) != 0


def test_as_few_as_there_are_give_nothing(symbols):
    s, t = symbols
    assert assumed(quotient(s, s - t)) == 0 == assumed(quotient(s, s - 64), (64,))
    assert number_of(quotient(s, s - t), lambda position: 5 - position) == 5

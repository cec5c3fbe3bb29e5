"""Maps in simplest terms under the extents of their dims."""

from itertools import product

import pytest
from bascule.dialect.analysis.affine.simplification import Simplifier, compose
from bascule.dialect.mlir import ir


def map_of(text: str) -> ir.AffineMap:
    return ir.AffineMapAttr(ir.Attribute.parse(f"affine_map<{text}>")).value


def extent(text: str | None) -> ir.AffineExpr | None:
    return None if text is None else map_of(f"()[s0] -> ({text})").results[0]


@pytest.mark.parametrize(
    "text, extents, simplest",
    [
        ("d0 floordiv 7 + d1", ("7", None), "d1"),
        ("d0 floordiv 7 + d1", ("8", None), "d0 floordiv 7 + d1"),
        ("d0 * 5 + d1", ("1", None), "d1"),  # the index of one iteration is 0
        ("(d0 * s0 + d1) floordiv s0", (None, "s0"), "d0"),
        ("(d0 * s0 + d1) mod s0", (None, "s0"), "d1"),
        ("(d0 * s0 + d1) mod s0", (None, "s0 + 1"), "d1 mod s0"),
        ("(d0 * 6 + d1) floordiv 12", ("31", "5"), "d0 floordiv 2"),
        ("(d0 + d1) ceildiv 17", ("1", "18"), "(d1 + 16) floordiv 17"),
    ],
)
def test_simplest_terms(text, extents, simplest):
    map_ = map_of(f"(d0, d1)[s0] -> ({text})")
    assert Simplifier()(map_, [extent(size) for size in extents]) == map_of(f"(d0, d1)[s0] -> ({simplest})")


@pytest.mark.parametrize(
    "text, simplest",
    [
        ("(d0 mod (((-s0) floordiv 4) * -4)) floordiv 4", "(d0 mod (((-s0) floordiv 4) * -4)) floordiv 4"),
        ("(d0 mod (((-s0) floordiv 4) * -4)) mod 4", "d0 mod 4"),
        ("(d0 mod 4) floordiv (((-s0) floordiv 4) * -4)", "0"),  # 4 at least: it divides
        ("(d0 * ((-s0) floordiv 4) * -4 + d1 mod 4) floordiv (((-s0) floordiv 4) * -4)", "d0"),
    ],
)
def test_sizes_rounded_up_are_written_with_quotients_below_zero(text, simplest):
    """`-4 * ((-s0) floordiv 4)` is s0 rounded up to a multiple of 4: the quotient is never positive."""
    found, wanted = (map_of(f"(d0, d1)[s0] -> ({each})") for each in (text, simplest))
    simplified = Simplifier()(found, [None, None])
    for d0, d1, s0 in product(range(0, 30, 3), range(5), range(1, 14, 3)):
        assert value(simplified.results[0], (d0, d1), s0) == value(found.results[0], (d0, d1), s0)
    assert len(str(simplified)) <= len(str(wanted))


def value(e: ir.AffineExpr, dims: tuple[int, ...], symbol: int) -> int:
    """`e` where its dims and its one symbol are these numbers."""
    numbers = [ir.AffineExpr.get_constant(number) for number in (*dims, symbol)]
    point = ir.AffineMap.get(0, 0, numbers[:-1])
    at_dims = e.compose(point)
    return eval(str(at_dims).replace("floordiv", "//").replace("mod", "%"), {"s0": symbol})


def test_extents_of_one_call_are_not_those_of_the_next():
    simplify, map_ = Simplifier(), map_of("(d0) -> (d0 mod 8)")
    found = [str(simplify(map_, [size]).results[0]) for size in (8, 9, 0, None, 8)]
    assert found == ["d0", "d0 mod 8", "d0", "d0 mod 8", "d0"]


def test_maps_are_equal_within_extents():
    equal = Simplifier().equal
    one, other = map_of("(d0) -> (d0 floordiv 13, d0 mod 13)"), map_of("(d0) -> (0, d0)")
    assert [equal(one, other, [size]) for size in (12, 13, 14, None)] == [True, True, False, False]
    assert equal(map_of("(d0) -> ((d0 floordiv 13) * 13 + d0 mod 13)"), map_of("(d0) -> (d0)"), [None])


def test_symbols_of_both_maps_are_the_same():
    outer, inner = map_of("(d0, d1)[s0, s1] -> (d0 * s1 + d1)"), map_of("(d0)[s0] -> (d0 + s0, 3)")
    assert compose(outer, inner) == map_of("(d0)[s0, s1] -> ((d0 + s0) * s1 + 3)")

"""Maps in simplest terms under the extents of their dims."""

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

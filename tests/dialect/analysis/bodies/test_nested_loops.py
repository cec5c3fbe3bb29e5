"""Loops directly inside of others."""

from bascule.dialect.analysis.bodies.body_tree import sizes_of
from bascule.dialect.analysis.bodies.nested_loops import inner_loops, iterations

from tests.dialect.analysis.small_kernels import load, loop, store

INNER = loop("s", "k", "3", load("a", "x", "j", "k"), "%a")
BODY = loop("", "j", "s0", INNER + store("s", "x", "i", "j")) + loop("", "n", "2", load("b", "x", "i", "n"))


def test_loops_are_found_one_level_at_a_time(kernel):
    op = kernel({"x": "memref<4x4xf32>"}, {"i": "4"}, BODY)
    first, second = inner_loops(op)
    assert [loop.name for loop in inner_loops(first)] == ["bascule.reduce"]
    assert inner_loops(second) == []
    assert [iterations(sizes_of(loop)) for loop in (first, second)] == [None, 2]

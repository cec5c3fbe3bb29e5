"""Reductions over the same ranges become one loop where neither needs the other."""

import pytest
from bascule.dialect.scheduling.cpu.joined_reductions import join_siblings

from tests.dialect.small_kernels import body_of, kernel, load, mlir, reduce, store

__all__ = ["mlir"]

X, Y = "memref<5x129xf32>", "memref<5xf32>"
SUM = reduce("%s", "%k", "129", load("%a", "%x", "%i, %k", X), "%a")
LARGEST = reduce("%t", "%k", "129", load("%a", "%x", "%i, %k", X), "%a", kind="max")
ENDS = store("%s", "%u", "%i", Y), store("%t", "%v", "%i", Y)


def two(second: str, between: str = ""):
    arguments = f"%x: {X}, %u: {Y}, %v: {Y}"
    return body_of(kernel(arguments, "%i", "5", SUM, between, second, *ENDS))


def test_siblings_are_one_loop():
    body = two(LARGEST)
    first, second = body.loops
    assert join_siblings(body) == {second: first}
    assert [node.name for node in body.block.nodes] == ["bascule.reduce", "bascule.store", "bascule.store"]
    assert (first.kinds, len(first.results), len(first.blocks[0].nodes)) == (["sum", "max"], 2, 2)
    inside = {index for node in first.blocks[0].nodes for index in node.address}
    assert inside == {*body.block.arguments, *first.indices}  # both read at the first one's index


@pytest.mark.parametrize(
    "second",
    [
        LARGEST.replace("(129)", "(128)"),
        LARGEST.replace('"bascule.yield"(%a)', '%b = arith.mulf %a, %s : f32\n"bascule.yield"(%b)'),
    ],
    ids=["other ranges", "needs the first"],
)
def test_reductions_that_stay_apart(second):
    body = two(second)
    assert join_siblings(body) == {}
    assert [node.name for node in body.block.nodes[:2]] == ["bascule.reduce", "bascule.reduce"]


def test_a_store_between_stays_behind():
    body = two(LARGEST, store("%s", "%u", "%i", Y))
    first, second = body.loops
    assert join_siblings(body) == {second: first}
    assert [node.name for node in body.block.nodes] == ["bascule.reduce", *["bascule.store"] * 3]


def test_only_what_is_chosen_is_joined():
    body = two(LARGEST)
    assert join_siblings(body, {}) == {}
    first, second = body.loops
    assert join_siblings(body, {second: first}) == {second: first}


def test_what_the_second_needs_goes_before_the_first():
    scale = load("%c", "%u", "%i", Y)
    second = LARGEST.replace('"bascule.yield"(%a)', '%b = arith.mulf %a, %c : f32\n"bascule.yield"(%b)')
    body = two(second, scale)
    first, other = body.loops
    assert join_siblings(body) == {other: first}
    assert [node.name for node in body.block.nodes][:2] == ["memref.load", "bascule.reduce"]

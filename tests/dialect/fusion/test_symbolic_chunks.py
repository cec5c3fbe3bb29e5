"""Chunks of ranges that are not known: each element is in one of them, whatever the sizes are."""

from collections import Counter
from itertools import product

import pytest
from bascule.dialect.fusion.symbolic_chunks import ALIGNED, cut_unknown
from bascule.dialect.interpreter.maps import evaluate
from bascule.dialect.ir.shapes import expr
from bascule.dialect.mlir import ir

from tests.dialect.small_kernels import mlir

__all__ = ["mlir"]


def ranges_of(*sizes):
    """Numbers, and texts of expressions of symbols."""
    text = ", ".join(map(str, sizes))
    return list(ir.Attribute.parse(f"affine_map<()[s0, s1] -> ({text})>").value.results)


CASES = {
    "one": ("s0",),
    "of two, the first": ("s0", 3),
    "of two, the second": (2, "s1"),
    "both": ("s0", "s1"),
    "a number between": ("s0", 2, "s1"),
    "a sum": ("s0 * 2 + 1", 3),
}


@pytest.mark.parametrize("pieces", [2, 7, 40])
@pytest.mark.parametrize("seen", [1, 5, 30])
@pytest.mark.parametrize("case", CASES)
def test_each_element_is_in_one_chunk(mlir, case, seen, pieces):
    sizes = CASES[case]
    ranges = ranges_of(*sizes)
    chunks = cut_unknown(ranges, [seen if isinstance(size, str) else size for size in sizes], pieces)
    if chunks is None:
        assert seen == 1 or pieces == 1
        return
    assert 1 < len([*product(*map(range, chunks.outer))]) <= 2 * pieces
    for values in ((1, 1), (4, 9), (seen, seen), (29, 3)):
        extents = [evaluate(expr(size), (), values) for size in ranges]
        inner = [evaluate(expr(size), (), values) for size in chunks.inner]
        found = Counter[tuple[int, ...]]()
        for at in product(*map(range, (*chunks.outer, *inner))):
            place = tuple(evaluate(one, at, values) for one in chunks.places())
            if all(place[number] < extents[number] for number in chunks.short):
                found[place] += 1
        assert found == Counter(product(*map(range, extents)))


def test_pieces_along_memory_are_whole_lines(mlir):
    chunks = cut_unknown(ranges_of("s0"), [1 << 20], 64)
    (piece,) = chunks.inner
    for size in (1, 1000, 1 << 20, (1 << 20) + 1):
        length = evaluate(expr(piece), (), (size, 0))
        assert length % ALIGNED == 0 and 64 * length >= size

"""How the ranges of a reduction are cut: into equal chunks near the number wanted, or with a short last one."""

from math import prod
from random import Random

import pytest
from bascule.dialect.fusion.chunk_sizes import CHUNKS, FINEST, Chunks, cut

from tests.dialect.small_kernels import compute, extract, graph, mlir, top_ops

__all__ = ["mlir"]


@pytest.mark.parametrize(
    "sizes, pieces, chunks",
    [
        ((1000,), 8, Chunks((1000,), 0, 8, 125)),
        ((1000,), 7, Chunks((1000,), 0, 8, 125)),  # the next that divides
        ((4, 6), 8, Chunks((4, 6), 1, 2, 3)),  # two of each of four rows
        ((4, 7), 8, Chunks((4, 7), 1, 7, 1)),
        ((4, 11), 8, Chunks((4, 11), 0, 4, 1)),  # four rather than 44
        ((32, 23, 29), 76, Chunks((32, 23, 29), 0, 32, 1)),
        ((3, 23, 29), 40, Chunks((3, 23, 29), 1, 23, 1)),
        ((3, 34, 29), 9, Chunks((3, 34, 29), 1, 2, 17)),
        ((1, 1009), 8, None),
        ((1009,), 8, None),  # a prime
        ((5,), 1, None),
        ((5,), 6, None),
        ((0,), 2, None),
    ],
)
def test_equal_chunks(sizes, pieces, chunks):
    assert cut(sizes, pieces, fills=0) == chunks


def test_a_short_last_chunk():
    chunks = cut((1009,), 8, fills=1)
    assert chunks == Chunks((1009,), 0, 9, 126)  # eight of 126, one of 1
    assert not chunks.exact
    assert cut((4, 1009), 8, fills=2) == Chunks((4, 1009), 1, 3, 504)  # two of 504 and one of 1, four times
    assert cut((4, 1009), 8, fills=1) == Chunks((4, 1009), 0, 4, 1)  # only the first range is filled


def test_any_long_ranges_are_cut():
    random = Random(11)
    for _ in range(2000):
        sizes = [random.choice([1, random.randint(2, 60), random.choice([61, 127, 1009])]) for _ in range(4)]
        pieces = random.randint(2, 300)
        if prod(sizes) < 8 * pieces:
            continue
        chunks = cut(sizes, pieces, fills=len(sizes))
        assert chunks is not None and pieces <= prod(chunks.outer) <= 2 * FINEST * pieces, (sizes, pieces, chunks)
        equal = cut(sizes, pieces, fills=0)
        if equal is None:  # the first is a prime, longer than that
            first = next(size for size in sizes if size > 1)
            assert all(first % divisor for divisor in range(2, pieces)), (sizes, pieces)
        else:
            assert equal.exact and 2 <= prod(equal.outer) <= 2 * FINEST * pieces, (sizes, pieces, equal)


def test_domains_of_chunks():
    chunks = Chunks((4, 6, 5), 1, 2, 3)
    assert (chunks.outer, chunks.inner, chunks.exact) == ([4, 2], [3, 5], True)


def test_the_attribute_of_a_compute():
    function = graph(
        "%x: tensor<7xf32>",
        "tensor<7xf32>",
        "%y",
        compute("%y", "%i", "7", extract("%a", "%x", "%i", "tensor<7xf32>"), "%a", "tensor<7xf32>"),
    )
    op = top_ops(function)[0]
    assert Chunks.of(op) is None
    op.attributes[CHUNKS] = Chunks((4, 6), 1, 2, 3).attribute()
    assert Chunks.of(op) == Chunks((4, 6), 1, 2, 3)

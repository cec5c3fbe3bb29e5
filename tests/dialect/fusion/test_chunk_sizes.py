"""How the ranges of a reduction are cut: into equal chunks near the number wanted, or with a short last one."""

import pytest
from bascule.dialect.fusion.chunk_sizes import CHUNKS, Chunks, cut

from tests.dialect.small_kernels import compute, extract, graph, mlir, top_ops

__all__ = ["mlir"]


@pytest.mark.parametrize(
    "sizes, pieces, chunks",
    [
        ((1000,), 8, Chunks((1000,), 0, 8, 125)),
        ((1000,), 7, Chunks((1000,), 0, 8, 125)),  # the next that divides
        ((4, 6), 8, Chunks((4, 6), 1, 2, 3)),  # two of each of four rows
        ((4, 7), 8, Chunks((4, 7), 1, 7, 1)),
        ((1009,), 8, None),  # a prime
        ((5,), 1, None),
        ((5,), 6, None),
        ((0,), 2, None),
    ],
)
def test_equal_chunks(sizes, pieces, chunks):
    assert cut(sizes, pieces, fills=False) == chunks


def test_a_short_last_chunk():
    chunks = cut((1009,), 8, fills=True)
    assert chunks == Chunks((1009,), 0, 9, 126)  # eight of 126, one of 1
    assert not chunks.exact
    assert cut((4, 11), 8, fills=True) is None  # eleven is more than four times the two that are wanted
    assert cut((4, 1009), 8, fills=True) is None  # only the first range is filled


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

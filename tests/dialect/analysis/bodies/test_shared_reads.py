"""Whether what a loop reads varies with an index."""

from bascule.dialect.analysis.bodies.body_tree import indices_of
from bascule.dialect.analysis.bodies.nested_loops import inner_loops
from bascule.dialect.analysis.bodies.shared_reads import reads_vary, shared_size

from tests.dialect.analysis.small_kernels import load, loop, store

BUFFERS = {"x": "memref<4x64xf32>", "y": "memref<4x32xf32>"}
SHARED = loop("s", "k", "64", load("a", "x", "i", "k"), "%a")
# Read at `k - j`.
MOVED = "\n      %at = affine.apply affine_map<(d0, d1) -> (d0 - d1 + 31)>(%k, %j)" + load("a", "x", "i", "at")


def test_reads_that_one_index_does_not_move(kernel):
    op = kernel(BUFFERS, {"i": "4", "j": "32"}, SHARED + store("s", "y", "i", "j"))
    (reduce,), (i, j) = inner_loops(op), indices_of(op)
    assert reads_vary(i, reduce)
    assert not reads_vary(j, reduce)
    assert shared_size(op, reduce) == 32


def test_reads_that_it_moves_by_way_of_an_index(kernel):
    op = kernel(BUFFERS, {"i": "4", "j": "32"}, loop("s", "k", "33", MOVED, "%a") + store("s", "y", "i", "j"))
    (reduce,), (_, j) = inner_loops(op), indices_of(op)
    assert reads_vary(j, reduce)
    assert shared_size(op, reduce) == 1

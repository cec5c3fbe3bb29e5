"""Partial sums of columns beside the rows they are computed from: where they join a kernel, and where not."""

import pytest
from bascule.dialect.analysis.affine.indexing import Indexing
from bascule.dialect.analysis.affine.simplification import Simplifier
from bascule.dialect.analysis.bodies.body_summary import PRODUCERS, Body
from bascule.dialect.fusion.chunk_sizes import CHUNKS, Chunks
from bascule.dialect.fusion.column_partials import join_partials
from bascule.dialect.fusion.kernel_groups import Grouping
from bascule.dialect.fusion.members import Member

from tests.dialect.small_kernels import compute, extract, graph, mlir, reduce, top_ops

__all__ = ["mlir"]

X, P = "tensor<91x127xf32>", "tensor<7x127xf32>"
BYTES = 91 * 127 * 4


def grouped(least: int, work: str = "arith.negf", source: str = "%x", busy: int = 0) -> Grouping:
    """y = a function of x at each of 91 x 127 elements, and the sums of the columns of x (or y) over 7 chunks of 13 rows."""
    rows = compute("%y", "%i, %j", "91, 127", extract("%a", "%x", "%i, %j", X) + f"\n%b = {work} %a : f32", "%b", X)
    place = "%p = affine.apply affine_map<(d0, d1) -> (d0 * 13 + d1)>(%c, %k)\n"
    sums = reduce("%s", "%k", "13", place + extract("%a", source, "%p, %j", X), "%a")
    partial = compute("%q", "%c, %j", "7, 127", sums, "%s", P)
    function = graph(f"%x: {X}", f"{X}, {P}", "%y, %q", rows, partial)
    top_ops(function)[1].attributes[CHUNKS] = Chunks((91,), 0, 7, 13).attribute()
    indexing, grouping = Indexing([], Simplifier()), Grouping(32, 600, busy)
    for number, op in enumerate(op for op in top_ops(function) if op.name in PRODUCERS):
        grouping.add(Member.of(number, Body(op), indexing))
    join_partials(grouping, indexing, least)
    return grouping


@pytest.mark.parametrize("least, joins", [(BYTES, True), (BYTES + 1, False)])
def test_partial_sums_join_the_rows_that_read_as_many_bytes(least, joins):
    rows, partial = grouped(least).groups
    assert (partial is None, rows.beside is not None) == (joins, joins)


def test_how_rows_and_columns_lie():
    rows, _ = grouped(1).groups
    beside = rows.beside
    assert (beside.chunks, beside.rows) == (Chunks((91,), 0, 7, 13), (0,))
    assert beside.columns == {1: 1}  # row 1 of the group is dim 1 of the partial results
    assert [group.number for group in beside.partials] == [1]


def test_what_is_costly_to_compute_again_stays_apart():
    assert grouped(1, source="%y").groups[1] is None
    rows, partial = grouped(1, "math.exp", "%y").groups
    assert rows.beside is None
    assert [refusal.reason for refusal in partial.remarks][-1] == "sums columns of what is costly to compute again"
    assert partial.remarks[-1].cost == BYTES


def test_a_gpu_computes_once_what_rows_and_columns_take():
    rows, partial = grouped(1, "math.exp", "%y", busy=132).groups
    assert partial is None and rows.beside is not None

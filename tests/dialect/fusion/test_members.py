"""Computes as members: which dims their reads are indexed by, whether they reduce rows or columns."""

from bascule.dialect.analysis.affine.indexing import Indexing
from bascule.dialect.analysis.affine.simplification import Simplifier
from bascule.dialect.analysis.bodies.body_summary import PRODUCERS, Body
from bascule.dialect.fusion.chunk_sizes import CHUNKS, Chunks
from bascule.dialect.fusion.members import Member, pairs
from bascule.dialect.ir.builders import symbols_of
from bascule.dialect.mlir import ir

from tests.dialect.small_kernels import compute, extract, graph, mlir, reduce, top_ops

__all__ = ["mlir"]

X = "tensor<7x13xf32>"


def member(function: ir.Operation) -> Member:
    op = next(op for op in top_ops(function) if op.name in PRODUCERS)
    return Member.of(0, Body(op), Indexing(symbols_of(function), Simplifier()))


def test_a_pointwise_member():
    y = "tensor<13x1x7xf32>"
    found = member(
        graph(f"%x: {X}", y, "%y", compute("%y", "%i, %j, %k", "13, 1, 7", extract("%a", "%x", "%k, %i", X), "%a", y))
    )
    assert [pattern for _, pattern in found.patterns] == [((2,), (0,))]
    assert (found.long_dims, found.row_dims, found.inner_dims) == ((0, 2), (0, 2), ())
    assert (found.fuses, found.reduces) == (True, False)


def sums(at: str, sizes: str, length: str, index: str, result: str) -> Member:
    total = reduce("%s", "%k", length, extract("%a", "%x", index, X), "%a")
    return member(graph(f"%x: {X}", result, "%y", compute("%y", at, sizes, total, "%s", result)))


def test_sums_of_rows_and_of_columns():
    rows = sums("%i", "7", "13", "%i, %k", "tensor<7xf32>")
    columns = sums("%i", "13", "7", "%k, %i", "tensor<13xf32>")
    assert [pattern for _, pattern in rows.patterns] == [((0,), (None,))]
    assert [pattern for _, pattern in columns.patterns] == [((None,), (0,))]
    # All 91 elements of a tensor of two dims, read with the reduction, and with the domain.
    assert (rows.columns, rows.reduces_columns()) == (-91, False)
    assert (columns.columns, columns.reduces_columns()) == (91, True)
    assert rows.operands == {rows.body.op.parent.regions[0].blocks[0].arguments[0]: 1}


def test_numbers_of_rows_decide_nothing_against_the_elements_of_their_rows():
    """The gradient of a layer norm's weight: of images it reads two statistics a place, whose memory runs with the sum."""
    x, statistic = "tensor<7x13x5xf32>", "tensor<7x13x1xf32>"
    zero = "%z = arith.constant 0 : index\n"
    reads = [extract(f"%{n}", f"%{n}s", "%k, %l, %z", statistic) for n in ("m", "r")]
    body = "\n".join(
        [
            zero,
            extract("%a", "%x", "%k, %l, %i", x),
            *reads,
            "%b = arith.subf %a, %m : f32",
            "%c = arith.mulf %b, %r : f32",
        ]
    )
    total = reduce("%s", "%k, %l", "7, 13", body, "%c")
    arguments = f"%x: {x}, %ms: {statistic}, %rs: {statistic}"
    found = member(graph(arguments, "tensor<5xf32>", "%y", compute("%y", "%i", "5", total, "%s", "tensor<5xf32>")))
    assert (found.columns, found.reduces_columns()) == (7 * 13 * (5 - 1 - 1), True)


def test_an_index_that_counts_through_two_dims():
    flat = "%p = affine.apply affine_map<(d0, d1) -> (d0 * 13 + d1)>(%i, %j)\n" + extract(
        "%a", "%x", "%p", "tensor<91xf32>"
    )
    found = member(graph("%x: tensor<91xf32>", X, "%y", compute("%y", "%i, %j", "7, 13", flat, "%a", X)))
    assert [pattern for _, pattern in found.patterns] == [((0, 1),)]


def test_a_chunk_and_the_place_in_it_are_one_dim():
    """Chunk c of 7 has 13 elements."""
    body = "%p = affine.apply affine_map<(d0, d1) -> (d0 * 13 + d1)>(%c, %k)\n" + extract(
        "%a", "%x", "%p", "tensor<91xf32>"
    )
    total = reduce("%s", "%k", "13", body, "%a")
    function = graph(
        "%x: tensor<91xf32>", "tensor<7xf32>", "%y", compute("%y", "%c", "7", total, "%s", "tensor<7xf32>")
    )
    assert [pattern for _, pattern in member(function).patterns] == [((0, None),)]
    top_ops(function)[0].attributes[CHUNKS] = Chunks((91,), 0, 7, 13).attribute()
    assert [pattern for _, pattern in member(function).patterns] == [((0,),)]


def test_pairs_of_patterns():
    assert list(pairs(((0,), (1, 2)), ((5,), (6, 7)))) == [(0, 5), (1, 6), (2, 7)]
    assert list(pairs(((0,), (1, 2)), ((5,), (6,)))) == [(0, 5), (None, 6)]
    assert list(pairs((), ())) == []

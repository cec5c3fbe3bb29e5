"""Computes as members: which dims their reads are indexed by, whether they reduce rows or columns."""

from bascule.dialect.analysis.affine.indexing import Indexing
from bascule.dialect.analysis.affine.simplification import Simplifier
from bascule.dialect.analysis.bodies.body_summary import PRODUCERS, Body
from bascule.dialect.fusion.chunk_sizes import CHUNKS, Chunks
from bascule.dialect.fusion.members import Digits, Member, Pattern, pairs
from bascule.dialect.ir.builders import symbols_of
from bascule.dialect.mlir import ir

from tests.dialect.small_kernels import compute, extract, graph, mlir, reduce, top_ops

__all__ = ["mlir"]

X = "tensor<7x13xf32>"


def dims_of(pattern: Pattern) -> tuple[tuple[int | None, ...], ...]:
    return tuple(digits.dims for digits in pattern)


def member(function: ir.Operation) -> Member:
    op = next(op for op in top_ops(function) if op.name in PRODUCERS)
    return Member.of(0, Body(op), Indexing(symbols_of(function), Simplifier()))


def test_a_pointwise_member():
    y = "tensor<13x1x7xf32>"
    found = member(
        graph(f"%x: {X}", y, "%y", compute("%y", "%i, %j, %k", "13, 1, 7", extract("%a", "%x", "%k, %i", X), "%a", y))
    )
    assert [dims_of(pattern) for _, pattern in found.patterns] == [((2,), (0,))]
    assert (found.long_dims, found.row_dims, found.inner_dims) == ((0, 2), (0, 2), ())
    assert (found.fuses, found.reduces) == (True, False)


def sums(at: str, sizes: str, length: str, index: str, result: str) -> Member:
    total = reduce("%s", "%k", length, extract("%a", "%x", index, X), "%a")
    return member(graph(f"%x: {X}", result, "%y", compute("%y", at, sizes, total, "%s", result)))


def test_sums_of_rows_and_of_columns():
    rows = sums("%i", "7", "13", "%i, %k", "tensor<7xf32>")
    columns = sums("%i", "13", "7", "%k, %i", "tensor<13xf32>")
    assert [dims_of(pattern) for _, pattern in rows.patterns] == [((0,), (None,))]
    assert [dims_of(pattern) for _, pattern in columns.patterns] == [((None,), (0,))]
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
    assert [dims_of(pattern) for _, pattern in found.patterns] == [((0, 1),)]


def test_a_chunk_and_the_place_in_it_are_one_dim():
    """Chunk c of 7 has 13 elements."""
    body = "%p = affine.apply affine_map<(d0, d1) -> (d0 * 13 + d1)>(%c, %k)\n" + extract(
        "%a", "%x", "%p", "tensor<91xf32>"
    )
    total = reduce("%s", "%k", "13", body, "%a")
    function = graph(
        "%x: tensor<91xf32>", "tensor<7xf32>", "%y", compute("%y", "%c", "7", total, "%s", "tensor<7xf32>")
    )
    assert [dims_of(pattern) for _, pattern in member(function).patterns] == [((0, None),)]
    top_ops(function)[0].attributes[CHUNKS] = Chunks((91,), 0, 7, 13).attribute()
    assert [dims_of(pattern) for _, pattern in member(function).patterns] == [((0,),)]


def test_pairs_of_patterns():
    def pattern(*dims: tuple[int, ...]) -> Pattern:
        return tuple(map(Digits, dims))

    assert list(pairs(pattern((0,), (1, 2)), pattern((5,), (6, 7)))) == [(0, 5), (1, 6), (2, 7)]
    assert list(pairs(pattern((0,), (1, 2)), pattern((5,), (6,)))) == [(0, 5), (None, 6)]
    assert list(pairs((), ())) == []


def test_an_index_of_tiles():
    """Rows of 12 hold two tiles of 2 x 3: the sum of each column of the tiles that begin the rows."""
    x = "tensor<2x12xf32>"
    quotient = "%q = affine.apply affine_map<(d0) -> (d0 floordiv 2)>(%k)"
    inside = "%p = affine.apply affine_map<(d0, d1) -> ((d0 mod 2) * 3 + d1)>(%k, %i)"
    total = reduce("%s", "%k", "4", "\n".join([quotient, inside, extract("%a", "%x", "%q, %p", x)]), "%a")
    found = member(graph(f"%x: {x}", "tensor<3xf32>", "%y", compute("%y", "%i", "3", total, "%s", "tensor<3xf32>")))
    ((row, column),) = [pattern for _, pattern in found.patterns]
    assert (row.dims, row.counted, set(column.dims), column.counted) == ((None,), (None,), {None, 0}, (None,))
    assert column.form and found.reduces_columns()
    # Only what has that form too is at the same places.
    assert list(pairs((column,), (Digits(column.dims),))) == [(None, dim) for dim in column.dims]
    assert list(pairs((column,), (column.renamed({0: 7}),))) == [(d, None if d is None else 7) for d in column.dims]


def test_elements_that_are_read_several_times_have_no_form():
    """Windows of 3 at steps of 2."""
    body = "%p = affine.apply affine_map<(d0, d1) -> (d0 * 2 + d1)>(%i, %k)\n" + extract(
        "%a", "%x", "%p", "tensor<9xf32>"
    )
    total = reduce("%s", "%k", "3", body, "%a")
    found = member(
        graph("%x: tensor<9xf32>", "tensor<4xf32>", "%y", compute("%y", "%i", "4", total, "%s", "tensor<4xf32>"))
    )
    assert [pattern for _, pattern in found.patterns] == [(Digits(),)]

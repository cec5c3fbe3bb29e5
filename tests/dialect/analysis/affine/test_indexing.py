"""Index values of a kernel as expressions of the indices of its loops."""

import pytest
from bascule.dialect.analysis.affine.indexing import Indexing, digits, digits_of
from bascule.dialect.mlir import ir

from tests.dialect.small_kernels import indexing_of, kernel, mlir

__all__ = ["mlir"]


def applied(map_: str, operands: str, name: str = "%p") -> str:
    return f"{name} = affine.apply affine_map<{map_}>{operands}"


def entered(*body: str, sizes: str = "7, 31") -> tuple[Indexing, list[ir.Value], list[ir.Value]]:
    """The indexing inside a kernel over %i, %j with symbols %n and %m; its indices, and the values of its body."""
    op = kernel("%n: index, %m: index", "%i, %j", sizes, *body)
    indexing, block = indexing_of(op), op.regions[0].blocks[0]
    indexing.enter(op)
    values = [result for view in block.operations for result in view.operation.results]
    return indexing, list(block.arguments), values


def test_an_apply_of_applies_is_one_expression():
    flat = applied("(d0, d1) -> (d0 * 31 + d1)", "(%i, %j)", "%f")
    parts = applied("(d0) -> (d0 floordiv 31)", "(%f)", "%q"), applied("(d0) -> (d0 mod 31)", "(%f)", "%r")
    indexing, (i, j), (_, q, r) = entered(flat, *parts)
    assert (indexing.resolve(q)[1], indexing.resolve(r)[1]) == ((i,), (j,))
    indexing, (i, j), (_, q, r) = entered(flat, *parts, sizes="7, 32")
    assert (str(indexing.resolve(q)[0]), indexing.resolve(q)[1]) == ("d0 + d1 floordiv 31", (i, j))


def test_an_index_of_one_iteration_is_zero():
    indexing, (i, j), (p,) = entered(applied("(d0, d1) -> (d0 * 5 + d1)", "(%i, %j)"), sizes="1, s0")
    assert indexing.resolve(i) == (ir.AffineExpr.get_constant(0), ())
    assert indexing.resolve(p) == (ir.AffineExpr.get_dim(0), (j,))


def test_symbols_of_an_apply_are_those_of_the_function():
    indexing, (i, _), (p,) = entered(applied("(d0)[s0] -> (d0 * s0)", "(%i)[%m]"))
    expression, values = indexing.resolve(p)
    assert (str(expression), values) == ("d0 * s1", (i,))
    assert not indexing.is_simplest(p.owner)  # its s0 is the function's s1
    indexing, (i, _), (p,) = entered(applied("(d0)[s0, s1] -> (d0 * s1)", "(%i)[%n, %m]"))
    assert indexing.is_simplest(p.owner)


def test_a_base_value_is_built_without_an_op():
    indexing, (i, j), (p,) = entered(applied("(d0) -> (d0 * 3)", "(%i)"))
    block = i.owner
    with ir.InsertionPoint.at_block_begin(block):
        assert indexing.build((ir.AffineExpr.get_dim(1), (i, j))) == j
        assert len(list(block.operations)) == 2  # the apply and the yield
        seven = indexing.build((ir.AffineExpr.get_constant(7), ()))
        again = indexing.build(indexing.resolve(p))
    assert (seven.owner.name, again.owner.name) == ("arith.constant", "affine.apply")
    assert indexing.resolve(again) == indexing.resolve(p)


@pytest.mark.parametrize(
    "sizes, result, found",
    [
        ("7, 31", "d0 * 31 + d1", "ij"),
        ("s0, 31", "d0 * 31 + d1", "ij"),  # the slowest may be of any size
        ("7, s0", "d0 * 31 + d1", None),
        ("7, 31", "d0 * 32 + d1", None),  # a gap
        ("7, 31", "d0 + d1 * 7", "ji"),
        ("7, 31", "d0 * 31 + d1 + 1", None),
        ("7, 31", "11", None),
    ],
)
def test_digits(sizes, result, found):
    indexing, indices, (p,) = entered(applied(f"(d0, d1) -> ({result})", "(%i, %j)"), sizes=sizes)
    named = dict(zip("ij", indices))
    assert digits(indexing.resolve(p), indexing) == (found and tuple(named[name] for name in found))


def test_a_quotient_and_a_remainder_have_the_digits_of_their_index():
    flat = applied("(d0, d1) -> (d0 * 31 + d1)", "(%i, %j)", "%f")
    parts = applied("(d0) -> (d0 floordiv 13)", "(%f)", "%q"), applied("(d0) -> (d0 mod 13)", "(%f)", "%r")
    indexing, (i, j), (_, q, r) = entered(flat, *parts)
    assert digits_of([q, r], ir.Type.parse("tensor<17x13xf32>"), indexing) == [(i, j), (i, j)]
    for other in ("tensor<17x14xf32>", "tensor<17x?xf32>"):
        assert digits_of([q, r], ir.Type.parse(other), indexing) == [(), ()]

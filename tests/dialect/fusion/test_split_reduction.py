"""A reduction as partial results over chunks: the same numbers, for every kind, also where the last chunk is short."""

import pytest
import torch
from bascule.dialect.analysis.affine.indexing import Indexing
from bascule.dialect.analysis.affine.simplification import Simplifier
from bascule.dialect.fusion.chunk_sizes import CHUNKS, Chunks
from bascule.dialect.fusion.split_reduction import fills, is_splittable, refine, split
from bascule.dialect.interpreter import interpret
from bascule.dialect.mlir import ir

from tests.dialect.small_kernels import compute, extract, graph, mlir, reduce, top_ops

__all__ = ["mlir"]

X = "tensor<3x101xf32>"


def reduction(kind: str) -> tuple[ir.Operation, ir.Operation]:
    """The compute y[i] = the reduction of x[i, k] over k, and the reduction."""
    element = "i64" if kind.startswith("arg") else "f32"
    result = f"tensor<3x{element}>"
    total = reduce("%s", "%k", "101", extract("%a", "%x", "%i, %k", X), "%a", kind=kind)
    function = graph(f"%x: {X}", result, "%y", compute("%y", "%i", "3", total, "%s", result))
    op = top_ops(function)[0]
    return op, op.regions[0].blocks[0].operations[0].operation


@pytest.mark.parametrize("kind", ["sum", "max", "min", "argmax", "argmin"])
def test_a_short_last_chunk_changes_no_result(kind):
    op, loop = reduction(kind)
    function = op.parent
    split(op, loop, Chunks((101,), 0, 8, 13), Indexing([], Simplifier()))  # seven of 13, one of 10
    partial = top_ops(function)[0]
    assert list(partial.results[0].type.shape) == [8, 3]
    assert Chunks.of(partial) == Chunks((101,), 0, 8, 13)
    x = torch.randint(-9, 9, (3, 101)).float()
    x[1] = (
        -5 if kind in ("max", "argmax") else 5
    )  # zeros for what is missing would win; and ties, of which the first does
    (result,) = interpret(_module(function), [x])
    wanted = getattr(x, kind)(1) if kind in ("sum", "argmax", "argmin") else getattr(x, f"a{kind}")(1)
    assert result.tolist() == wanted.tolist()


@pytest.mark.parametrize("kind", ["sum", "max", "min"])
def test_a_short_last_chunk_of_an_inner_range(kind):
    """Of each of 3 x 7 places 101, in eight chunks."""
    x = "tensor<3x7x101xf32>"
    total = reduce("%s", "%j, %k", "7, 101", extract("%a", "%x", "%i, %j, %k", x), "%a", kind=kind)
    function = graph(f"%x: {x}", "tensor<3xf32>", "%y", compute("%y", "%i", "3", total, "%s", "tensor<3xf32>"))
    op = top_ops(function)[0]
    chunks = Chunks((7, 101), 1, 8, 13)
    split(op, op.regions[0].blocks[0].operations[0].operation, chunks, Indexing([], Simplifier()))
    assert list(top_ops(function)[0].results[0].type.shape) == [7, 8, 3]
    values = torch.randint(-9, -1, (3, 7, 101)).float()
    values[1] *= -1
    (result,) = interpret(_module(function), [values])
    wanted = values.sum((1, 2)) if kind == "sum" else getattr(values, f"a{kind}")((1, 2))
    assert result.tolist() == wanted.tolist()


def _module(function: ir.Operation) -> ir.Module:
    return ir.Module.parse(str(function.parent))


def test_what_can_be_filled():
    assert [fills(kind, 3) for kind in ("sum", "xor", "argmin", "welford", "softmax")] == [3, 3, 1, 0, 0]


def test_a_reduction_of_another_one_is_not_split():
    first = reduce("%s", "%k", "101", extract("%a", "%x", "%i, %k", X), "%a")
    body = extract("%a", "%x", "%i, %k", X) + "\n%b = arith.subf %a, %s : f32"
    second = reduce("%t", "%k", "101", body, "%b")
    y = "tensor<3xf32>"
    op = top_ops(graph(f"%x: {X}", y, "%y", compute("%y", "%i", "3", f"{first}\n{second}", "%t", y)))[0]
    one, two = (view.operation for view in list(op.regions[0].blocks[0].operations)[:2])
    assert is_splittable(op, one)
    assert not is_splittable(op, two)


@pytest.mark.parametrize("apart, sizes", [(True, ["7", "13"]), (False, ["91"])])
def test_ranges_are_cut_where_reads_take_quotients(apart, sizes):
    """Over 91 places of x[k floordiv 13, k mod 13], which is one step in memory, unless others walk the two dims."""
    x = "tensor<7x13xf32>"
    body = "\n".join(
        (
            "%p = affine.apply affine_map<(d0) -> (d0 floordiv 13)>(%k)",
            "%q = affine.apply affine_map<(d0) -> (d0 mod 13)>(%k)",
            extract("%a", "%x", "%p, %q", x),
        )
    )
    total = reduce("%s", "%k", "91", body, "%a")
    op = top_ops(graph(f"%x: {x}", "tensor<f32>", "%y", compute("%y", "", "", total, "%s", "tensor<f32>")))[0]
    loop = op.regions[0].blocks[0].operations[0].operation
    found = refine(op, loop, Indexing([], Simplifier()), lambda tensor, dim: apart)
    assert [str(size) for size in found.attributes["ranges"].value.results] == sizes
    assert CHUNKS not in op.attributes

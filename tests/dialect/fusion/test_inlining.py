"""A read of a compute becomes its body at that index: once for an index, and not across a kernel's function."""

from bascule.dialect.analysis.affine.indexing import Indexing
from bascule.dialect.analysis.affine.simplification import Simplifier
from bascule.dialect.fusion.inlining import Inliner
from bascule.dialect.ir.regions import ops_in
from bascule.dialect.mlir import ir

from tests.dialect.small_kernels import compute, extract, graph, mlir, top_ops

__all__ = ["mlir"]

X = "tensor<7x13xf32>"
EXP = compute("%y", "%i, %j", "7, 13", extract("%a", "%x", "%i, %j", X) + "\n%b = math.exp %a : f32", "%b", X)


def names(op: ir.Operation) -> list[str]:
    return [inner.name for inner in ops_in(op)]


def inlined(body: str, value: str, result: str = "tensor<13x7xf32>") -> ir.Operation:
    """The second compute of a graph, (13, 7) elements made of exp(x), after all its reads are inlined."""
    function = graph(f"%x: {X}", result, "%z", EXP, compute("%z", "%i, %j", "13, 7", body, value, result))
    first, second = top_ops(function)[:2]
    indexing = Indexing([], Simplifier())
    for op in (first, second):
        indexing.enter(op)
    inliner = Inliner(indexing, {first.results[0]: first}.get)
    left = inliner.inline([op for op in ops_in(second) if op.name == "tensor.extract"])
    inliner.finish()
    assert [op.operands[0] for op in left] == list(function.regions[0].blocks[0].arguments) * len(left)
    assert not list(first.results[0].uses)
    return second


def test_the_body_stands_at_the_index_of_the_read():
    second = inlined(extract("%a", "%y", "%j, %i", X), "%a")
    (read,) = [op for op in ops_in(second) if op.name == "tensor.extract"]
    i, j = second.regions[0].blocks[0].arguments
    assert list(read.operands)[1:] == [j, i]
    assert names(second).count("math.exp") == 1


def test_equal_reads_are_inlined_once():
    twice = "\n".join(
        (extract("%a", "%y", "%j, %i", X), extract("%b", "%y", "%j, %i", X), "%c = arith.addf %a, %b : f32")
    )
    second = inlined(twice, "%c")
    assert (names(second).count("math.exp"), names(second).count("tensor.extract")) == (1, 1)


def test_reads_at_other_places_are_not():
    two = "\n".join(
        (
            "%zero = arith.constant 0 : index",
            extract("%a", "%y", "%j, %i", X),
            extract("%b", "%y", "%zero, %i", X),
            "%c = arith.addf %a, %b : f32",
        )
    )
    assert names(inlined(two, "%c")).count("math.exp") == 2


def test_index_arithmetic_is_composed():
    """y[(6 - j), i], of a body that reads x[i, j]: one apply, of the read's own index."""
    body = "%p = affine.apply affine_map<(d0) -> (6 - d0)>(%j)\n" + extract("%a", "%y", "%p, %i", X)
    second = inlined(body, "%a")
    (read,) = [op for op in ops_in(second) if op.name == "tensor.extract"]
    apply = read.operands[1].owner
    assert (apply.name, str(apply.attributes["map"].value)) == ("affine.apply", "(d0) -> (-d0 + 6)")

"""The tree of records that a region is decoded into."""

from bascule.dialect.analysis.bodies.body_tree import Node, indices_of, sizes_of

from tests.dialect.analysis.small_kernels import body_of, load, loop, store

BUFFERS = {"x": "memref<4x8xf32>", "y": "memref<4xf32>"}
INNER = load("a", "x", "i", "k")
GUARDED = f"""
    %zero = arith.constant 0 : index
    %first = arith.cmpi eq, %i, %zero : index
    scf.if %first {{{loop("foreach", "j", "8", load("b", "x", "i", "j") + store("b", "y", "zero"))}
    }}"""
BODY = loop("s", "k", "8", INNER, "%a") + GUARDED + store("s", "y", "i")


def test_what_stands_in_a_region(kernel):
    op = kernel(BUFFERS, {"i": "4"}, BODY)
    root = Node.of(op, op.name)
    (block,) = root.blocks
    names = ["bascule.reduce", "arith.constant", "arith.cmpi", "scf.if", "bascule.store"]
    assert [node.name for node in block.nodes] == names
    assert block.end.name == "bascule.yield"
    assert [node.name for node in block.walk()][:2] == ["bascule.reduce", "memref.load"]
    assert root.sizes == sizes_of(op)
    assert [node.sizes for node in block.nodes if node.name == "arith.cmpi"] == [[]]


def test_loops_directly_inside_are_found_under_conditions(kernel):
    root = Node.of(kernel(BUFFERS, {"i": "4"}, BODY), "bascule.kernel")
    assert [loop.name for loop in root.inner_loops()] == ["bascule.reduce", "bascule.foreach"]
    assert root.inner_loops()[0].inner_loops() == []


def test_values_are_numbers_once_a_body_is_decoded(kernel):
    body = body_of(kernel(BUFFERS, {"i": "4"}, BODY))
    reduce, *_, stored = body.block.nodes
    (read,) = reduce.blocks[0].nodes
    assert read.operands[1:] == [*body.root.indices, *reduce.indices]
    assert reduce.blocks[0].yielded == read.results
    assert stored.operands[0] == reduce.results[0]
    assert reduce.kinds == ["sum"]
    assert body.numbers[indices_of(reduce.op)[0]] == reduce.indices[0]
    assert set(reduce.uses()) == {*read.operands, *read.results}

"""Backward slices: through regions, in the order of the block, and no further than it."""

from bascule.dialect.analysis.bodies.backward_slice import captured, needed
from bascule.dialect.mlir import ir

from tests.dialect.small_kernels import compute, extract, graph, mlir, reduce, top_ops

__all__ = ["mlir"]

X = "tensor<7x13xf32>"
SUM = reduce("%sum", "%k", "13", f"{extract('%e', '%x', '%i, %k', X)}\n%twice = arith.mulf %e, %two : f32", "%twice")
SUMS = f"%unused = arith.constant 3.0 : f32\n%two = arith.constant 2.0 : f32\n{SUM}"


def block_of(body: str, value: str, at: str = "%i", sizes: str = "7") -> ir.Block:
    """The block of a compute of `value` in a graph, %x: 7x13."""
    result = f"tensor<{sizes.replace(', ', 'x')}xf32>"
    function = graph(f"%x: {X}", result, "%y", compute("%y", at, sizes, body, value, result))
    return top_ops(function)[0].regions[0].blocks[0]


def ops_of(block: ir.Block) -> list[ir.Operation]:
    return [view.operation for view in block.operations]


def test_needs_go_through_regions_and_stop_at_the_block():
    block = block_of(SUMS, "%sum")
    _, two, total, end = ops_of(block)
    found = needed(end.operands, block)
    assert found.ops == [two, total]
    assert found.arguments == {0}  # %i, which only the region of the reduce reads at
    assert needed([block.arguments[0]], block).ops == []


def test_captures_are_among_the_operands_of_what_is_inside():
    block = block_of(SUMS, "%sum")
    unused, two, total, _ = ops_of(block)
    assert two.results[0] in captured(total)
    assert unused.results[0] not in captured(total)
    assert needed(captured(total), block).ops == [two]


def test_what_is_around_a_block_is_left_out():
    total = ops_of(block_of(SUMS, "%sum"))[2]
    inner = total.regions[0].blocks[0]
    read, product, end = ops_of(inner)
    found = needed(end.operands, inner)
    assert found.ops == [read, product]  # not %two
    assert found.arguments == {0}  # %k, not %i


def test_ops_stand_in_the_order_of_the_block_once_each():
    first, second = extract("%a", "%x", "%i, %j", X), extract("%b", "%x", "%i, %zero", X)
    lines = ("%zero = arith.constant 0 : index", first, second, "%c = arith.addf %a, %b : f32")
    block = block_of("\n".join((*lines, "%d = arith.mulf %c, %a : f32")), "%d", "%i, %j", "7, 13")
    zero, a, b, c, d, _ = ops_of(block)
    assert needed([d.results[0], a.results[0], c.results[0]], block).ops == [zero, a, b, c, d]
    found = needed([b.results[0]], block)
    assert (found.ops, found.arguments) == ([zero, b], {0})


def test_a_condition_and_both_its_branches_are_needed():
    block = block_of(
        f"""
        %three = arith.constant 3 : index
        %one = arith.constant 1.0 : f32
        {extract("%a", "%x", "%i, %j", X)}
        %in = arith.cmpi slt, %j, %three : index
        %e = scf.if %in -> f32 {{
          scf.yield %one : f32
        }} else {{
          scf.yield %a : f32
        }}""",
        "%e",
        "%i, %j",
        "7, 13",
    )
    *before, end = ops_of(block)
    found = needed(end.operands, block)
    assert (found.ops, found.arguments) == (before, {0, 1})
    condition = before[4].operands[0]
    assert [op.name for op in needed([condition], block).ops] == ["arith.constant", "arith.cmpi"]

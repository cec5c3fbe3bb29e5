"""Groups of members: the rows of what they read, fewer rows, and how a refusal reads."""

import json

import pytest
from bascule.dialect.analysis.affine.indexing import Indexing
from bascule.dialect.analysis.affine.simplification import Simplifier
from bascule.dialect.analysis.bodies.body_summary import Body
from bascule.dialect.fusion.group_records import Group, not_fused
from bascule.dialect.fusion.members import Digits, Member
from bascule.dialect.remarks.record import Remark

from tests.dialect.small_kernels import compute, extract, graph, mlir, reduce, top_ops

__all__ = ["mlir"]


@pytest.mark.parametrize(
    "cost, amount", [(999, "999 bytes"), (99_949, "99.9 kB"), (100_000, "0.1 MB"), (7_000_001, "7.0 MB")]
)
def test_a_refusal_tells_its_ops_and_its_cost(cost, amount):
    x = "tensor<7x13xf32>"
    rows = compute("%y", "%i, %j", "7, 13", extract("%a", "%x", "%i, %j", x), "%a", x)
    again = compute("%z", "%i, %j", "7, 13", extract("%a", "%y", "%i, %j", x), "%a", x)
    first, second = top_ops(graph(f"%x: {x}", x, "%z", rows, again))[:2]
    refusal = not_fused(second, first, "reads it at other rows", cost)
    names = "bascule.compute (-:", "not fused with bascule.compute (-:"
    assert all(name in str(refusal) for name in names) and refusal.op.source != refusal.partner.source
    assert str(refusal).endswith(f": reads it at other rows; {amount} more memory traffic")
    assert Remark.from_json(json.loads(json.dumps(refusal.to_json()))) == refusal


def test_rows_of_what_a_group_reads():
    x, y = "tensor<7x13xf32>", "tensor<13x7xf32>"
    function = graph(f"%x: {x}", y, "%y", compute("%y", "%i, %j", "13, 7", extract("%a", "%x", "%j, %i", x), "%a", y))
    op = top_ops(function)[0]
    member = Member.of(0, Body(op), Indexing([], Simplifier()))
    group = Group(3, list(member.sizes), [member])
    group.note_reads(member)
    (tensor,) = group.reads
    assert group.reads[tensor] == (Digits((1,)), Digits((0,)))
    assert not group.reduces
    group.narrow([1])  # keeps the row of 7
    assert ([str(size) for size in group.rows], member.row_dims, member.inner_dims) == (["7"], (1,), (0,))
    assert group.reads[tensor] == (Digits((0,)), Digits())
    group.narrow([])
    assert (group.rows, group.reads[tensor]) == ([], (Digits(), Digits()))


def test_a_group_reduces_if_one_member_does():
    x, y = "tensor<7x13xf32>", "tensor<7xf32>"
    total = reduce("%s", "%k", "13", extract("%a", "%x", "%i, %k", x), "%a")
    function = graph(f"%x: {x}", y, "%y", compute("%y", "%i", "7", total, "%s", y))
    member = Member.of(0, Body(top_ops(function)[0]), Indexing([], Simplifier()))
    assert Group(0, list(member.sizes), [member]).reduces
    assert not Group(0, []).reduces

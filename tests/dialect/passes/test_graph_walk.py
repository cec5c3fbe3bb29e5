"""A walk of a graph function: its ops as they stood, its symbols, who uses a value through views, remarks."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from bascule.dialect.ir import context
from bascule.dialect.ir.functions import functions
from bascule.dialect.mlir import ir
from bascule.dialect.passes.graph_walk import GraphWalk
from bascule.dialect.remarks.attribute import remarks
from bascule.dialect.remarks.record import MISSED, NOTE, Place, Remark

# y is read by a compute, and twice through views of it: once returned, once used by nothing.
GRAPH = """
func.func @main(%s0: index, %s1: index, %x: tensor<7xf32>) -> (tensor<7x1xf32>, tensor<7xf32>) attributes {bascule.graph} {
  %y = "bascule.compute"() ({
  ^bb0(%i: index):
    %a = tensor.extract %x[%i] : tensor<7xf32>
    "bascule.yield"(%a) : (f32) -> ()
  }) {ranges = affine_map<() -> (7)>} : () -> tensor<7xf32>
  %v = "bascule.view"(%y) {map = affine_map<(d0, d1) -> (d0)>, shape = affine_map<() -> (7, 1)>} : (tensor<7xf32>) -> tensor<7x1xf32>
  %w = "bascule.view"(%y) {map = affine_map<(d0, d1) -> (d1)>, shape = affine_map<() -> (1, 7)>} : (tensor<7xf32>) -> tensor<1x7xf32>
  %z = "bascule.compute"() ({
  ^bb0(%i: index):
    %a = tensor.extract %y[%i] : tensor<7xf32>
    "bascule.yield"(%a) : (f32) -> ()
  }) {ranges = affine_map<() -> (7)>} : () -> tensor<7xf32>
  return %v, %z : tensor<7x1xf32>, tensor<7xf32>
}
"""


@pytest.fixture
def walk() -> Iterator[GraphWalk]:
    with context(), ir.Location.unknown():
        module = ir.Module.parse(GRAPH)
        (graph,) = functions(module)
        yield GraphWalk(graph)


def test_ops_and_symbols(walk):
    assert [op.name for op in walk.ops] == [
        "bascule.compute",
        "bascule.view",
        "bascule.view",
        "bascule.compute",
        "func.return",
    ]
    assert walk.symbols == list(walk.block.arguments)[:2]


def test_users_are_those_of_views_too(walk):
    y, z = walk.ops[0].results[0], walk.ops[3].results[0]
    assert sorted(user.name for user in walk.users(y)) == ["func.return", "tensor.extract"]
    assert [user.name for user in walk.users(z)] == ["func.return"]
    assert list(walk.users(walk.ops[2].results[0])) == []


def test_remarks_add_up(walk):
    remark = Remark(
        "some-pass", MISSED, "not fused", "for a test", Place("aten.add", "m.py:3:0"), Place("aten.mul"), 4096
    )
    walk.remark(walk.ops[3], "first")
    walk.remark(walk.ops[3], remark)
    walk.remark(walk.ops[3], remark)
    told, record = remarks(ir.Module.parse(str(walk.function.parent)))  # as they are after a round trip
    assert (told.kind, told.reason, told.function, told.op.operator) == (NOTE, "first", "main", "bascule.compute")
    assert record == replace(remark, function="main")

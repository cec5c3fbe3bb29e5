"""Regions: their ops, and clones of them."""

import pytest
from bascule.dialect.ir import context
from bascule.dialect.ir.regions import clone, ops_in
from bascule.dialect.mlir import ir

TEXT = """
func.func @f(%x: tensor<8x4xf32>) -> tensor<8xf32> {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index):
    %unused = arith.constant 3.0 : f32
    %two = arith.constant 2.0 : f32
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %x[%i, %k] : tensor<8x4xf32>
      %twice = arith.mulf %e, %two : f32
      "bascule.yield"(%twice) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (4)>} : () -> f32
    "bascule.yield"(%sum) : (f32) -> ()
  }) {ranges = affine_map<() -> (8)>} : () -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
"""


@pytest.fixture
def compute():
    with context():
        module = ir.Module.parse(TEXT)
        yield module.body.operations[0].regions[0].blocks[0].operations[0].operation


def test_ops_stand_before_those_in_their_regions(compute):
    names = [op.name.split(".")[1] for op in ops_in(compute)]
    assert names == ["compute", "constant", "constant", "reduce", "extract", "mulf", "yield", "yield"]


def test_a_clone_uses_what_the_mapping_has_also_in_its_regions(compute):
    block = compute.regions[0].blocks[0]
    unused, two, reduce, end = (view.operation for view in block.operations)
    mapping = {two.results[0]: unused.results[0]}
    with ir.InsertionPoint(end):
        new = clone(reduce, mapping)
    assert mapping[reduce.results[0]] == new.results[0]
    (product,) = (op for op in ops_in(new) if op.name == "arith.mulf")
    assert product.operands[1] == unused.results[0]
    (product,) = (op for op in ops_in(reduce) if op.name == "arith.mulf")
    assert product.operands[1] == two.results[0]  # the original is as it was

"""The bytes that a program holds while it runs."""

from bascule.dialect.analysis.memory.live_bytes import GIVEN, INTERMEDIATE, RESULT, live_bytes
from bascule.dialect.ir import context
from bascule.dialect.mlir import ir

TEXT = """
module {
  func.func @main(%a: memref<4xf32> {bascule.dies}, %b: memref<8xf32>) -> memref<16xf32> attributes {bascule.graph} {
    %x = memref.alloc() : memref<32xf32>
    memref.copy %b, %b : memref<8xf32> to memref<8xf32>
    memref.copy %a, %a : memref<4xf32> to memref<4xf32>
    memref.dealloc %x : memref<32xf32>
    %y = memref.alloc() : memref<16xf32>
    return %y : memref<16xf32>
  }
}
"""


def test_lives_are_those_of_the_plan():
    with context():
        found = live_bytes(ir.Module.parse(TEXT), lambda k: 0)
    assert {(each.kind, each.bytes, each.first, each.last) for each in found.held} == {
        (GIVEN, 16, 0, 2),
        (INTERMEDIATE, 128, 0, 3),
        (RESULT, 64, 4, 5),
    }
    assert found.peak() == (144, 0)
    assert found.peak(apart=1000) == (1144, 0)
    assert [each.kind for each in found.at(5)] == [RESULT]


OPERATOR = """
module {
  func.func private @users.split(memref<8xf32>) -> (memref<32xf32>, memref<16xf32>)
      attributes {bascule.extern = "users.split.default", bascule.arguments = [#bascule.operand<0 : i64>]}
  func.func @main(%a: memref<8xf32>) -> memref<16xf32> attributes {bascule.graph} {
    %x:2 = call @users.split(%a) : (memref<8xf32>) -> (memref<32xf32>, memref<16xf32>)
    memref.dealloc %x#0 : memref<32xf32>
    %y = memref.alloc() : memref<64xf32>
    memref.dealloc %y : memref<64xf32>
    return %x#1 : memref<16xf32>
  }
}
"""


def test_results_of_users_operators_live_until_they_are_dropped():
    with context():
        found = live_bytes(ir.Module.parse(OPERATOR), lambda k: 0)
    assert {(each.kind, each.bytes, each.first, each.last) for each in found.held} == {
        (INTERMEDIATE, 128, 0, 1),
        (RESULT, 64, 0, 4),
        (INTERMEDIATE, 256, 2, 3),
    }
    assert found.peak() == (64 + 256, 2)

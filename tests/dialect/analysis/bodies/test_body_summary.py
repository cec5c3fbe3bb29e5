"""`Body` of a region: loops, accesses, the work of a producer, and how addresses depend on indices."""

from collections.abc import Iterator

import pytest
from bascule.dialect.analysis.affine.indexing import Indexing
from bascule.dialect.analysis.affine.simplification import Simplifier
from bascule.dialect.analysis.bodies.body_summary import PRODUCERS, Access, Body, decode, readers_of
from bascule.dialect.ir.builders import symbols_of
from bascule.dialect.ir.functions import functions, kernel_op
from bascule.dialect.mlir import ir

# y[i] = sum over k of exp(x[i, k]) where k < 5, of x[0, i] elsewhere; z = y
PRODUCER = """
func.func @main(%x: tensor<4x8xf32>) -> tensor<4xf32> attributes {bascule.graph} {
  %y = "bascule.compute"() ({
  ^bb0(%i: index):
    %five = arith.constant 5 : index
    %zero = arith.constant 0 : index
    %s = "bascule.reduce"() ({
    ^bb0(%k: index):
      %in = arith.cmpi slt, %k, %five : index
      %e = scf.if %in -> f32 {
        %a = tensor.extract %x[%i, %k] : tensor<4x8xf32>
        %b = math.exp %a : f32
        scf.yield %b : f32
      } else {
        %c = tensor.extract %x[%zero, %i] : tensor<4x8xf32>
        scf.yield %c : f32
      }
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (8)>} : () -> f32
    "bascule.yield"(%s) : (f32) -> ()
  }) {ranges = affine_map<() -> (4)>} : () -> tensor<4xf32>
  %z = "bascule.compute"() ({
  ^bb0(%i: index):
    %a = tensor.extract %y[%i] : tensor<4xf32>
    "bascule.yield"(%a) : (f32) -> ()
  }) {ranges = affine_map<() -> (4)>} : () -> tensor<4xf32>
  return %z : tensor<4xf32>
}
"""

# A row of x is summed, and scaled by that sum into y[j, i]; z[i] is where the row's largest element says, a quotient of the two.
KERNEL = """
func.func private @k(%s0: index, %x: memref<?x6xf32>, %m: memref<9xf32>, %y: memref<6x?xf32, affine_map<(d0, d1)[s0] -> (d0 * s0 + d1)>>,
    %z: memref<?xf32>) attributes {bascule.kernel} {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%j: index):
      %a = memref.load %x[%i, %j] : memref<?x6xf32>
      "bascule.yield"(%a) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (6)>} : () -> f32
    "bascule.foreach"() ({
    ^bb0(%j: index):
      %a = memref.load %x[%i, %j] : memref<?x6xf32>
      %b = arith.mulf %a, %sum : f32
      "bascule.store"(%b, %y, %j, %i) : (f32, memref<6x?xf32, affine_map<(d0, d1)[s0] -> (d0 * s0 + d1)>>, index, index) -> ()
      "bascule.yield"() : () -> ()
    }) {ranges = affine_map<() -> (6)>} : () -> ()
    %at = arith.fptosi %sum : f32 to i64
    %index = arith.index_cast %at : i64 to index
    %half = affine.apply affine_map<(d0) -> (d0 floordiv 2)>(%index)
    %c = memref.load %m[%half] : memref<9xf32>
    "bascule.store"(%c, %z, %i) : (f32, memref<?xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<()[s0] -> (s0)>} : () -> ()
  return
}
"""


@pytest.fixture
def producers() -> Iterator[list[Body]]:
    module = ir.Module.parse(PRODUCER)
    ops = [view.operation for view in module.body.operations[0].regions[0].blocks[0].operations]
    yield [Body(op) for op in ops if op.name in PRODUCERS]


@pytest.fixture
def kernel() -> Iterator[Body]:
    module = ir.Module.parse(KERNEL)
    (function,) = functions(module)
    yield decode(kernel_op(function), indexing=Indexing(symbols_of(function), Simplifier()))


def test_the_work_of_a_producer(producers):
    body, copy = producers
    assert [loop.name for loop in body.loops] == ["bascule.reduce"]
    assert (body.points, body.steps, body.bytes) == (4, 8, 16)
    # 8 additions, 8 comparisons and 8 exponentials of 20: the branches count as if both ran.
    assert body.cost == 8 + 8 + 8 * 20
    assert body.ops == 12  # with those that end blocks
    assert not body.is_pointwise
    assert copy.is_pointwise
    assert (copy.steps, copy.cost, copy.ops) == (1, 0, 2)


def test_how_often_and_under_which_condition_reads_run(producers):
    body, copy = producers
    assert [(read.times, read.guarded, len(read.loops)) for read in body.reads] == [(8, True, 2), (8, True, 2)]
    assert [(read.times, read.guarded, len(read.loops)) for read in copy.reads] == [(1, False, 1)]
    assert [reader for reader, _ in readers_of(producers)[body.result]] == [copy]


def test_a_body_is_what_stood_there_when_it_was_made(producers):
    _, copy = producers
    with ir.InsertionPoint.at_block_begin(copy.op.regions[0].blocks[0]), ir.Location.unknown():
        ir.Operation.create("arith.constant", [ir.F32Type.get()], attributes={"value": ir.FloatAttr.get_f32(1.0)})
    assert copy.ops == 2
    assert Body(copy.op).ops == 3


def places(accesses: list[Access]) -> list[tuple[bool, int]]:
    return [(access.stores, len(access.loops)) for access in accesses]


def test_accesses_are_those_inside_of_a_loop(kernel):
    rows, columns = kernel.loops
    assert places(kernel.accesses(kernel.root)) == [(False, 2), (False, 2), (True, 2), (False, 1), (True, 1)]
    assert places(kernel.accesses(columns)) == [(False, 1), (True, 1)]
    assert [access.width for access in kernel.accesses(rows)] == [4]


def test_forms_of_accesses(kernel):
    (i,), ((j,), (column,)) = kernel.root.indices, (loop.indices for loop in kernel.loops)
    summed, read, stored, looked_up, result = (access.form for access in kernel.placed(kernel.root))
    assert (summed.steps, summed.opaque) == ({i: 6, j: 1}, frozenset())
    assert read.flat(i, column, 6)
    assert summed.adjacent(j)
    assert not summed.adjacent(i)
    assert stored.steps == {i: 1, column: ir.AffineExpr.get_symbol(0)}
    assert stored.flat(column, i, ir.AffineExpr.get_symbol(0))
    # By way of the sum, and a quotient of what came from data.
    assert looked_up.varies(i)
    assert not looked_up.adjacent(i)
    assert i in looked_up.opaque
    assert (result.steps, result.opaque) == ({i: 1}, frozenset())


def test_what_loops_need_of_each_other(kernel):
    rows, columns = kernel.loops
    assert kernel.needs(columns, kernel.loops) == {rows}
    assert kernel.needs(rows, kernel.loops) == set()


def test_sizes_are_those_of_all_ranges(kernel):
    (i,), ((j,), (column,)) = kernel.root.indices, (loop.indices for loop in kernel.loops)
    assert kernel.extents == {i: None, j: 6, column: 6}
    assert kernel.sizes[i] == ir.AffineExpr.get_symbol(0)

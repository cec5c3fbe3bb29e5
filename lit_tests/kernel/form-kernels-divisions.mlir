// RUN: bascule-opt %s --form-kernels | filecheck %s
// RUN: bascule-run %s --pipeline=default --shapes=s0=0
!t = tensor<4x?xi64, #bascule.layout<affine_map<(d0, d1)[s0] -> (d0 * s0 + d1)>>>

// What is the same along a row is computed before the loop over it, but no division of integers: a row may have no elements, and so a sum of 0.
// CHECK: "bascule.reduce"
// CHECK: arith.muli
// CHECK: "bascule.foreach"() ({
// CHECK: arith.ceildivsi
// CHECK: arith.floordivsi
// CHECK: "bascule.store"
func.func @main(%s0: index, %x: !t {bascule.shape = affine_map<()[s0] -> (4, s0)>}, %y: tensor<4xi64>) -> !t
    attributes {bascule.graph, bascule.shapes = [affine_map<()[s0] -> (4, s0)>]} {
  %sums = "bascule.compute"() ({
  ^bb0(%i: index):
    %r = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %x[%i, %k] : !t
      "bascule.yield"(%e) : (i64) -> ()
    }) {kind = "sum", ranges = affine_map<()[s0] -> (s0)>} : () -> i64
    "bascule.yield"(%r) : (i64) -> ()
  }) {ranges = affine_map<() -> (4)>} : () -> tensor<4xi64>
  %shares = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %x[%i, %j] : !t
    %sum = tensor.extract %sums[%i] : tensor<4xi64>
    %n = tensor.extract %y[%i] : tensor<4xi64>
    %square = arith.muli %n, %n : i64
    %up = arith.ceildivsi %square, %sum : i64
    %down = arith.floordivsi %square, %sum : i64
    %both = arith.addi %up, %down : i64
    %r = arith.addi %e, %both : i64
    "bascule.yield"(%r) : (i64) -> ()
  }) {ranges = affine_map<()[s0] -> (4, s0)>} : () -> !t
  return %shares : !t
}

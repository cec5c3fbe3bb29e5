// RUN: bascule-opt %s '--pass-pipeline=builtin.module(inline-producers{target=cuda})' | filecheck %s
// RUN: bascule-opt %s '--pass-pipeline=builtin.module(inline-producers)' | filecheck %s --check-prefix=CPU
// RUN: bascule-run %s --interpret-only --pipeline='inline-producers{target=cuda}'

// Short sums that a scan reads by way of a pointwise compute: a step of a scan on a GPU holds no loops, so what holds the sums stays apart.
// CHECK-LABEL: func.func @main(
// CHECK: "bascule.compute"
// CHECK: "bascule.reduce"
// CHECK: arith.negf
// CHECK-NOT: "bascule.reduce"
// CHECK: "bascule.scan"
// CHECK-NOT: "bascule.reduce"
// CHECK: return
// CPU-LABEL: func.func @main(
// CPU-NOT: "bascule.compute"
// CPU: "bascule.scan"
// CPU: "bascule.reduce"
// CPU: return
func.func @main(%x: tensor<6x9x4xf32>) -> tensor<6x9xf32> attributes {bascule.graph} {
  %sums = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %s = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %x[%i, %j, %k] : tensor<6x9x4xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (4)>} : () -> f32
    "bascule.yield"(%s) : (f32) -> ()
  }) {ranges = affine_map<() -> (6, 9)>} : () -> tensor<6x9xf32>
  %negative = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %sums[%i, %j] : tensor<6x9xf32>
    %n = arith.negf %e : f32
    "bascule.yield"(%n) : (f32) -> ()
  }) {ranges = affine_map<() -> (6, 9)>} : () -> tensor<6x9xf32>
  %scanned = "bascule.scan"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %negative[%i, %j] : tensor<6x9xf32>
    "bascule.yield"(%e) : (f32) -> ()
  }) {dim = 1 : i64, kind = "sum", ranges = affine_map<() -> (6, 9)>} : () -> tensor<6x9xf32>
  return %scanned : tensor<6x9xf32>
}

// RUN: bascule-opt %s --form-kernels=max-parts=1 | filecheck %s
// RUN: bascule-run %s --interpret-only --pipeline='form-kernels{max-parts=1}'

// An element read at a constant index is an operand, so kernels that differ only in which one they read are the same.
// CHECK-LABEL: func.func private @
// CHECK-SAME: (%{{[0-9a-z_]+}}: tensor<512xi64>, [[SEED:%[0-9a-z_]+]]: tensor<i64>)
// CHECK: tensor.extract [[SEED]][] : tensor<i64>
// CHECK-NOT: func.func private
// CHECK-LABEL: func.func @main
// CHECK: "bascule.view"(%{{.*}}) {map = #[[FIRST:map[0-9]*]]
// CHECK: "bascule.view"(%{{.*}}) {map = #[[THIRD:map[0-9]*]]
func.func @main(%x: tensor<512xi64>, %y: tensor<512xi64>, %seeds: tensor<4xi64>)
    -> (tensor<512xi64>, tensor<512xi64>) attributes {bascule.graph} {
  %a = "bascule.compute"() ({
  ^bb0(%i: index):
    %place = arith.constant 0 : index
    %e = tensor.extract %x[%i] : tensor<512xi64>
    %s = tensor.extract %seeds[%place] : tensor<4xi64>
    %r = arith.addi %e, %s : i64
    "bascule.yield"(%r) : (i64) -> ()
  }) {ranges = affine_map<() -> (512)>} : () -> tensor<512xi64>
  %b = "bascule.compute"() ({
  ^bb0(%i: index):
    %place = arith.constant 2 : index
    %e = tensor.extract %y[%i] : tensor<512xi64>
    %s = tensor.extract %seeds[%place] : tensor<4xi64>
    %r = arith.addi %e, %s : i64
    "bascule.yield"(%r) : (i64) -> ()
  }) {ranges = affine_map<() -> (512)>} : () -> tensor<512xi64>
  return %a, %b : tensor<512xi64>, tensor<512xi64>
}

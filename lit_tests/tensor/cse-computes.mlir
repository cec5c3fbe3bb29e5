// RUN: bascule-opt %s --cse-computes | filecheck %s
// RUN: bascule-run %s --interpret-only --pipeline=cse-computes

// Equal computes become one, and what is computed from equal ones; in a body too. Those that read other tensors stay.
// CHECK-LABEL: func.func @main
// CHECK-SAME: ([[X:%[a-z0-9]+]]: tensor<8xf32>, [[Y:%[a-z0-9]+]]: tensor<8xf32>)
// CHECK: [[A:%[0-9]+]] = "bascule.compute"() ({
// CHECK: [[E:%[a-z0-9_]+]] = tensor.extract [[X]]
// CHECK-NOT: tensor.extract
// CHECK: arith.mulf [[E]], [[E]]
// CHECK: }) {ranges = #{{map[0-9]*}}} : () -> tensor<8xf32>
// CHECK: [[B:%[0-9]+]] = "bascule.compute"() ({
// CHECK: tensor.extract [[Y]]
// CHECK: [[N:%[0-9]+]] = "bascule.compute"() ({
// CHECK: tensor.extract [[A]]
// CHECK-NOT: bascule.compute
// CHECK: return [[N]], [[N]], [[B]]
func.func @main(%x: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) attributes {bascule.graph} {
  %a = "bascule.compute"() ({
  ^bb0(%i: index):
    %e = tensor.extract %x[%i] : tensor<8xf32>
    %f = tensor.extract %x[%i] : tensor<8xf32>
    %p = arith.mulf %e, %f : f32
    "bascule.yield"(%p) : (f32) -> ()
  }) {ranges = affine_map<() -> (8)>} : () -> tensor<8xf32>
  %b = "bascule.compute"() ({
  ^bb0(%i: index):
    %e = tensor.extract %y[%i] : tensor<8xf32>
    %f = tensor.extract %y[%i] : tensor<8xf32>
    %p = arith.mulf %e, %f : f32
    "bascule.yield"(%p) : (f32) -> ()
  }) {ranges = affine_map<() -> (8)>} : () -> tensor<8xf32>
  %again = "bascule.compute"() ({
  ^bb0(%i: index):
    %e = tensor.extract %x[%i] : tensor<8xf32>
    %f = tensor.extract %x[%i] : tensor<8xf32>
    %p = arith.mulf %e, %f : f32
    "bascule.yield"(%p) : (f32) -> ()
  }) {ranges = affine_map<() -> (8)>} : () -> tensor<8xf32>
  %n = "bascule.compute"() ({
  ^bb0(%i: index):
    %e = tensor.extract %a[%i] : tensor<8xf32>
    %p = arith.negf %e : f32
    "bascule.yield"(%p) : (f32) -> ()
  }) {ranges = affine_map<() -> (8)>} : () -> tensor<8xf32>
  %m = "bascule.compute"() ({
  ^bb0(%i: index):
    %e = tensor.extract %again[%i] : tensor<8xf32>
    %p = arith.negf %e : f32
    "bascule.yield"(%p) : (f32) -> ()
  }) {ranges = affine_map<() -> (8)>} : () -> tensor<8xf32>
  return %n, %m, %b : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// RUN: bascule-opt %s --form-kernels=max-parts=1 --cse | filecheck %s
// RUN: bascule-run %s --pipeline='form-kernels{max-parts=1},cse,schedule-kernels,order-program,bufferize-kernels,plan-memory'
!t = tensor<3x5xf32>

// Steps of a recursion over states: what the second sums stands at other rows of the first, so that one kernel would sum the first again for
// each of its own. Two kernels, though the last compute reads both at its rows: no reduction is in another.
// CHECK-LABEL: func.func private @
// CHECK: "bascule.kernel"
// CHECK: "bascule.reduce"() ({
// CHECK-NOT: "bascule.reduce"
// CHECK: "bascule.kernel"
// CHECK: "bascule.reduce"() ({
// CHECK-NOT: "bascule.reduce"
// CHECK: func.func @main
// CHECK-COUNT-2: call @
func.func @main(%a: !t, %w: tensor<5x5xf32>) -> (!t, !t) attributes {bascule.graph} {
  %s1 = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %r = "bascule.reduce"() ({
    ^bb0(%k: index):
      %v = tensor.extract %a[%i, %k] : !t
      %f = tensor.extract %w[%k, %j] : tensor<5x5xf32>
      %m = arith.mulf %v, %f : f32
      "bascule.yield"(%m) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (5)>} : () -> f32
    %p = math.sin %r : f32
    "bascule.yield"(%p) : (f32) -> ()
  }) {ranges = affine_map<() -> (3, 5)>} : () -> !t
  %s2 = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %r = "bascule.reduce"() ({
    ^bb0(%k: index):
      %v = tensor.extract %s1[%i, %k] : !t
      %f = tensor.extract %w[%k, %j] : tensor<5x5xf32>
      %m = arith.mulf %v, %f : f32
      "bascule.yield"(%m) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (5)>} : () -> f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (3, 5)>} : () -> !t
  %s3 = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %v = tensor.extract %s2[%i, %j] : !t
    %u = tensor.extract %s1[%i, %j] : !t
    %m = arith.mulf %u, %v : f32
    "bascule.yield"(%m) : (f32) -> ()
  }) {ranges = affine_map<() -> (3, 5)>} : () -> !t
  return %s1, %s3 : !t, !t
}

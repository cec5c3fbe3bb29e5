// RUN: bascule-opt %s | bascule-opt | filecheck %s

// A kernel function: destinations, one kernel that stores into them, a return.
// CHECK-LABEL: func.func private @center
func.func private @center(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>) {
  %out = bufferization.alloc_tensor() : tensor<4x8xf32>
  %mean = bufferization.alloc_tensor() : tensor<4xf32>
  // CHECK: "bascule.kernel"()
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %x[%i, %k] : tensor<4x8xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (8)>} : () -> f32
    %eight = arith.constant 8.0 : f32
    %m = arith.divf %sum, %eight : f32
    // CHECK: "bascule.store"(%[[M:.*]], %{{.*}}, %{{.*}}) : (f32, tensor<4xf32>, index) -> ()
    "bascule.store"(%m, %mean, %i) : (f32, tensor<4xf32>, index) -> ()
    // CHECK: "bascule.foreach"()
    "bascule.foreach"() ({
    ^bb0(%j: index):
      %e = tensor.extract %x[%i, %j] : tensor<4x8xf32>
      %d = arith.subf %e, %m : f32
      "bascule.store"(%d, %out, %i, %j) : (f32, tensor<4x8xf32>, index, index) -> ()
      "bascule.yield"() : () -> ()
    }) {ranges = affine_map<() -> (8)>} : () -> ()
    "bascule.yield"() : () -> ()
  // CHECK: schedule = #bascule.schedule<{vector = 16 : i64}>
  }) {ranges = affine_map<() -> (4)>, schedule = #bascule.schedule<{vector = 16 : i64}>} : () -> ()
  return %out, %mean : tensor<4x8xf32>, tensor<4xf32>
}

// What stores into one destination of two equal ones stays where it is.
// RUN: bascule-opt %s --canonicalize --cse | filecheck %s --check-prefix=CSE
// CSE-LABEL: func.func private @two
func.func private @two(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CSE: %[[A:.*]] = bufferization.alloc_tensor
  // CSE: %[[B:.*]] = bufferization.alloc_tensor
  %a = bufferization.alloc_tensor() : tensor<4xf32>
  %b = bufferization.alloc_tensor() : tensor<4xf32>
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %e = tensor.extract %x[%i] : tensor<4xf32>
    // CSE: "bascule.store"(%[[E:.*]], %[[A]]
    // CSE: "bascule.store"(%[[E]], %[[B]]
    "bascule.store"(%e, %a, %i) : (f32, tensor<4xf32>, index) -> ()
    "bascule.store"(%e, %b, %i) {mode = "add"} : (f32, tensor<4xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (4)>} : () -> ()
  return %a, %b : tensor<4xf32>, tensor<4xf32>
}

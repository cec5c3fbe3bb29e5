// A scatter that lays pieces beside each other is in the kernel that makes them: it stores each element once, at places without data.
// RUN: bascule-opt %s --form-kernels=target=cuda | filecheck %s

// One kernel: what stands beside the pieces too.
// CHECK-LABEL: func.func private @kernel_0(
// CHECK: %[[LAID:.*]] = bufferization.alloc_tensor() : tensor<64x32xf32>
// CHECK: %[[SUM:.*]] = bufferization.alloc_tensor() : tensor<64x16xf32>
// CHECK: "bascule.kernel"
// CHECK: ^bb0(%[[I:.*]]: index, %[[J:.*]]: index):
// CHECK: %[[N:.*]] = arith.negf
// CHECK: %[[A:.*]] = math.absf
// CHECK-DAG: "bascule.store"(%[[N]], %{{.*}}, %[[I]], %[[J]])
// CHECK-DAG: %[[K:.*]] = affine.apply #{{.*}}(%[[J]])
// CHECK-DAG: "bascule.store"(%[[A]], %{{.*}}, %[[I]], %[[K]])
// CHECK: ranges = #{{.*}}
// CHECK-NOT: bascule.kernel
// CHECK-LABEL: func.func @beside(
// CHECK-COUNT-1: call @kernel_0
func.func @beside(%x: tensor<64x16xf32>) -> (tensor<64x32xf32>, tensor<64x16xf32>) attributes {bascule.graph} {
  %n = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %x[%i, %j] : tensor<64x16xf32>
    %r = arith.negf %e : f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (64, 16)>} : () -> tensor<64x16xf32>
  %a = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %x[%i, %j] : tensor<64x16xf32>
    %r = math.absf %e : f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (64, 16)>} : () -> tensor<64x16xf32>
  %init = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %z = arith.constant 0.0 : f32
    "bascule.yield"(%z) : (f32) -> ()
  }) {ranges = affine_map<() -> (64, 32)>} : () -> tensor<64x32xf32>
  %laid = "bascule.scatter"(%init) ({
  ^bb0(%i: index, %j: index, %dest: tensor<64x32xf32>):
    %e = tensor.extract %n[%i, %j] : tensor<64x16xf32>
    "bascule.store"(%e, %dest, %i, %j) : (f32, tensor<64x32xf32>, index, index) -> ()
    %k = affine.apply affine_map<(d0) -> (d0 + 16)>(%j)
    %f = tensor.extract %a[%i, %j] : tensor<64x16xf32>
    "bascule.store"(%f, %dest, %i, %k) : (f32, tensor<64x32xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {bascule.whole, ranges = affine_map<() -> (64, 16)>} : (tensor<64x32xf32>) -> tensor<64x32xf32>
  %sum = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %n[%i, %j] : tensor<64x16xf32>
    %f = tensor.extract %a[%i, %j] : tensor<64x16xf32>
    %r = arith.addf %e, %f : f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (64, 16)>} : () -> tensor<64x16xf32>
  return %laid, %sum : tensor<64x32xf32>, tensor<64x16xf32>
}

// What reads the whole is another kernel; so is a scatter at places from data.
// CHECK-LABEL: func.func @apart(
// CHECK-COUNT-3: call @
func.func @apart(%x: tensor<64x32xf32>, %at: tensor<64xi64> {bascule.range = [0, 63]}) -> (tensor<64x32xf32>, tensor<64xf32>) attributes {bascule.graph} {
  %init = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %z = arith.constant 0.0 : f32
    "bascule.yield"(%z) : (f32) -> ()
  }) {ranges = affine_map<() -> (64, 32)>} : () -> tensor<64x32xf32>
  %turned = "bascule.scatter"(%init) ({
  ^bb0(%i: index, %j: index, %dest: tensor<64x32xf32>):
    %e = tensor.extract %x[%i, %j] : tensor<64x32xf32>
    %k = affine.apply affine_map<(d0) -> (31 - d0)>(%j)
    "bascule.store"(%e, %dest, %i, %k) : (f32, tensor<64x32xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {bascule.whole, ranges = affine_map<() -> (64, 32)>} : (tensor<64x32xf32>) -> tensor<64x32xf32>
  %n = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %turned[%i, %j] : tensor<64x32xf32>
    %r = arith.negf %e : f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (64, 32)>} : () -> tensor<64x32xf32>
  %row = "bascule.compute"() ({
  ^bb0(%i: index):
    %z = arith.constant 0.0 : f32
    "bascule.yield"(%z) : (f32) -> ()
  }) {ranges = affine_map<() -> (64)>} : () -> tensor<64xf32>
  %placed = "bascule.scatter"(%row) ({
  ^bb0(%i: index, %dest: tensor<64xf32>):
    %zero = arith.constant 0 : index
    %e = tensor.extract %n[%i, %zero] : tensor<64x32xf32>
    %p = tensor.extract %at[%i] : tensor<64xi64>
    %k = arith.index_cast %p : i64 to index
    "bascule.store"(%e, %dest, %k) : (f32, tensor<64xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {bascule.whole, ranges = affine_map<() -> (64)>} : (tensor<64xf32>) -> tensor<64xf32>
  return %n, %placed : tensor<64x32xf32>, tensor<64xf32>
}

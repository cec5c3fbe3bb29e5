// RUN: bascule-opt %s '--pass-pipeline=builtin.module(join-launches{target=cuda})' | filecheck %s
// RUN: bascule-opt %s '--pass-pipeline=builtin.module(join-launches)' | filecheck %s --check-prefix=CPU
// RUN: bascule-run %s --pipeline='builtin.module(join-launches{target=cuda})'

// Two kernels that both read %x, and a third behind a view, are one launch of three domains; what they share is given once. The sum of rows
// has a reduction and stays, the last needs its result.
// CHECK-NOT: func.func private @double(
// CHECK: func.func private @double_and_2(
// CHECK-SAME: %{{.*}}: tensor<4x8xf32>, %{{.*}}: tensor<16xf32>)
// CHECK-COUNT-3: "bascule.foreach"
// CHECK: return %{{.*}}, %{{.*}}, %{{.*}} : tensor<4x8xf32>, tensor<4x8xf32>, tensor<16xf32>
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf32>, %[[Y:.*]]: tensor<2x8xf32>
// CHECK: %[[FLAT:.*]] = "bascule.view"(%[[Y]])
// CHECK: %[[NEW:.*]]:3 = call @double_and_2(%[[X]], %[[FLAT]])
// CHECK: %[[SUM:.*]] = call @sum(%[[NEW]]#0)
// CHECK: %[[LAST:.*]] = call @negate(%[[SUM]])
// CHECK: return %[[NEW]]#1, %[[NEW]]#2, %[[LAST]]
// CPU-NOT: @double_and_2
func.func private @double(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %out = bufferization.alloc_tensor() : tensor<4x8xf32>
  "bascule.kernel"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %x[%i, %j] : tensor<4x8xf32>
    %f = arith.addf %e, %e : f32
    "bascule.store"(%f, %out, %i, %j) : (f32, tensor<4x8xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (4, 8)>} : () -> ()
  return %out : tensor<4x8xf32>
}

func.func private @square(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %out = bufferization.alloc_tensor() : tensor<4x8xf32>
  "bascule.kernel"() ({
  ^bb0(%i: index):
    "bascule.foreach"() ({
    ^bb0(%j: index):
      %e = tensor.extract %x[%i, %j] : tensor<4x8xf32>
      %f = arith.mulf %e, %e : f32
      "bascule.store"(%f, %out, %i, %j) : (f32, tensor<4x8xf32>, index, index) -> ()
      "bascule.yield"() : () -> ()
    }) {ranges = affine_map<() -> (8)>} : () -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (4)>} : () -> ()
  return %out : tensor<4x8xf32>
}

func.func private @negate(%x: tensor<16xf32>) -> tensor<16xf32> {
  %out = bufferization.alloc_tensor() : tensor<16xf32>
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %e = tensor.extract %x[%i] : tensor<16xf32>
    %f = arith.negf %e : f32
    "bascule.store"(%f, %out, %i) : (f32, tensor<16xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (16)>} : () -> ()
  return %out : tensor<16xf32>
}

func.func private @sum(%x: tensor<4x8xf32>) -> tensor<16xf32> {
  %out = bufferization.alloc_tensor() : tensor<16xf32>
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %s = "bascule.reduce"() ({
    ^bb0(%k: index):
      %c0 = arith.constant 0 : index
      %e = tensor.extract %x[%c0, %k] : tensor<4x8xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (8)>} : () -> f32
    "bascule.store"(%s, %out, %i) : (f32, tensor<16xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (16)>} : () -> ()
  return %out : tensor<16xf32>
}

func.func @main(%x: tensor<4x8xf32>, %y: tensor<2x8xf32>) -> (tensor<4x8xf32>, tensor<16xf32>, tensor<16xf32>) attributes {bascule.graph} {
  %0 = call @double(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = call @square(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %flat = "bascule.view"(%y) {map = affine_map<(d0) -> (d0 floordiv 8, d0 mod 8)>, shape = affine_map<() -> (16)>} : (tensor<2x8xf32>) -> tensor<16xf32>
  %2 = call @negate(%flat) : (tensor<16xf32>) -> tensor<16xf32>
  %3 = call @sum(%0) : (tensor<4x8xf32>) -> tensor<16xf32>
  %4 = call @negate(%3) : (tensor<16xf32>) -> tensor<16xf32>
  return %1, %2, %4 : tensor<4x8xf32>, tensor<16xf32>, tensor<16xf32>
}

// Kernels over much memory hide their launches.
// CHECK-LABEL: func.func @large(
// CHECK-COUNT-2: call @exp(
func.func private @exp(%x: tensor<65536xf32>) -> tensor<65536xf32> {
  %out = bufferization.alloc_tensor() : tensor<65536xf32>
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %e = tensor.extract %x[%i] : tensor<65536xf32>
    %f = math.exp %e : f32
    "bascule.store"(%f, %out, %i) : (f32, tensor<65536xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (65536)>} : () -> ()
  return %out : tensor<65536xf32>
}

func.func @large(%x: tensor<65536xf32>, %y: tensor<65536xf32>) -> (tensor<65536xf32>, tensor<65536xf32>) attributes {bascule.graph} {
  %0 = call @exp(%x) : (tensor<65536xf32>) -> tensor<65536xf32>
  %1 = call @exp(%y) : (tensor<65536xf32>) -> tensor<65536xf32>
  return %0, %1 : tensor<65536xf32>, tensor<65536xf32>
}

// Sums of products of f32: on tensor cores where factors may be rounded to TF32, with the tiles of 16 bits; exact ones have small tiles.
// RUN: bascule-opt %s --schedule-kernels=target=cuda | filecheck %s

// Memory runs along what is summed: descriptors load both factors, and round.
// CHECK-LABEL: func.func private @along(
// CHECK: kind = "contraction"
// CHECK-SAME: descriptors = array<i64: 0, 1>, dot = true
// CHECK-SAME: step = 32
// CHECK-SAME: stages = 4
// CHECK-SAME: tile = array<i64: 128, 256>
// CHECK-SAME: warps = 8
func.func private @along(%x: tensor<4096x4096xf32>, %w: tensor<4096x4096xf32>) -> tensor<4096x4096xf32> {
  %out = bufferization.alloc_tensor() : tensor<4096x4096xf32>
  "bascule.kernel"() ({
  ^bb0(%m: index, %n: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %a = tensor.extract %x[%m, %k] : tensor<4096x4096xf32>
      %b = tensor.extract %w[%n, %k] : tensor<4096x4096xf32>
      %p = arith.mulf %a, %b : f32
      "bascule.yield"(%p) : (f32) -> ()
    }) {bascule.input_precision = "tf32", kind = "sum", ranges = affine_map<() -> (4096)>} : () -> f32
    "bascule.store"(%sum, %out, %m, %n) : (f32, tensor<4096x4096xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (4096, 4096)>} : () -> ()
  return %out : tensor<4096x4096xf32>
}

// One of them lies across it, and is turned in registers: two programs of a multiprocessor do so in turns.
// CHECK-LABEL: func.func private @across(
// CHECK: kind = "contraction"
// CHECK-SAME: descriptors = array<i64: 0>, dot = true
// CHECK-SAME: step = 32
// CHECK-SAME: resident = 2
// CHECK-SAME: stages = 3
// CHECK-SAME: tile = array<i64: 128, 128>
// CHECK-SAME: warps = 8
func.func private @across(%x: tensor<4096x4096xf32>, %w: tensor<4096x4096xf32>) -> tensor<4096x4096xf32> {
  %out = bufferization.alloc_tensor() : tensor<4096x4096xf32>
  "bascule.kernel"() ({
  ^bb0(%m: index, %n: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %a = tensor.extract %x[%m, %k] : tensor<4096x4096xf32>
      %b = tensor.extract %w[%k, %n] : tensor<4096x4096xf32>
      %p = arith.mulf %a, %b : f32
      "bascule.yield"(%p) : (f32) -> ()
    }) {bascule.input_precision = "tf32", kind = "sum", ranges = affine_map<() -> (4096)>} : () -> f32
    "bascule.store"(%sum, %out, %m, %n) : (f32, tensor<4096x4096xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (4096, 4096)>} : () -> ()
  return %out : tensor<4096x4096xf32>
}

// CHECK-LABEL: func.func private @exact(
// CHECK: kind = "contraction"
// CHECK-SAME: along = -1 : i64, dot = true
// CHECK-SAME: step = 16
// CHECK-SAME: tile = array<i64: 64, 64>
func.func private @exact(%x: tensor<4096x4096xf32>, %w: tensor<4096x4096xf32>) -> tensor<4096x4096xf32> {
  %out = bufferization.alloc_tensor() : tensor<4096x4096xf32>
  "bascule.kernel"() ({
  ^bb0(%m: index, %n: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %a = tensor.extract %x[%m, %k] : tensor<4096x4096xf32>
      %b = tensor.extract %w[%n, %k] : tensor<4096x4096xf32>
      %p = arith.mulf %a, %b : f32
      "bascule.yield"(%p) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (4096)>} : () -> f32
    "bascule.store"(%sum, %out, %m, %n) : (f32, tensor<4096x4096xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (4096, 4096)>} : () -> ()
  return %out : tensor<4096x4096xf32>
}

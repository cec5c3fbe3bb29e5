// Contractions of elements of 8 bits: a step has as many bytes as of 16. What is computed for a factor is done in 128 rows of it.
// RUN: bascule-opt %s --schedule-kernels=target=cuda | filecheck %s
// RUN: bascule-opt %s --schedule-kernels='target=cuda capability=80' | filecheck %s --check-prefix=OLDER

// CHECK-LABEL: func.func private @floats
// CHECK: descriptors = array<i64: 0, 1>
// CHECK-SAME: dot = true
// CHECK-SAME: step = 128
// CHECK-SAME: tile = array<i64: 128, 128>
// OLDER-LABEL: func.func private @floats
// OLDER-NOT: dot = true
// OLDER-LABEL: func.func private @integers
func.func private @floats(%x: tensor<4096x4096xf8E4M3FN>, %w: tensor<4096x4096xf8E4M3FN>) -> tensor<4096x4096xf32> {
  %out = bufferization.alloc_tensor() : tensor<4096x4096xf32>
  "bascule.kernel"() ({
  ^bb0(%m: index, %n: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %a = tensor.extract %x[%m, %k] : tensor<4096x4096xf8E4M3FN>
      %c = arith.extf %a : f8E4M3FN to f32
      %d = tensor.extract %w[%n, %k] : tensor<4096x4096xf8E4M3FN>
      %e = arith.extf %d : f8E4M3FN to f32
      %f = arith.mulf %c, %e : f32
      "bascule.yield"(%f) : (f32) -> ()
    }) {bascule.partial_sums = 128 : i64, kind = "sum", ranges = affine_map<() -> (4096)>} : () -> f32
    "bascule.store"(%sum, %out, %m, %n) : (f32, tensor<4096x4096xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (4096, 4096)>} : () -> ()
  return %out : tensor<4096x4096xf32>
}

// CHECK-LABEL: func.func private @integers
// CHECK: dot = true
// CHECK-SAME: step = 128
// CHECK-SAME: tile = array<i64: 128, 256>
// OLDER: dot = true
func.func private @integers(%x: tensor<4096x4096xi8>, %w: tensor<4096x4096xi8>) -> tensor<4096x4096xi32> {
  %out = bufferization.alloc_tensor() : tensor<4096x4096xi32>
  "bascule.kernel"() ({
  ^bb0(%m: index, %n: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %a = tensor.extract %x[%m, %k] : tensor<4096x4096xi8>
      %c = arith.extsi %a : i8 to i32
      %d = tensor.extract %w[%n, %k] : tensor<4096x4096xi8>
      %e = arith.extsi %d : i8 to i32
      %f = arith.muli %c, %e : i32
      "bascule.yield"(%f) : (i32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (4096)>} : () -> i32
    "bascule.store"(%sum, %out, %m, %n) : (i32, tensor<4096x4096xi32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (4096, 4096)>} : () -> ()
  return %out : tensor<4096x4096xi32>
}

// Floats of 8 bits whose sums have to have all bits of f32 are none.
// CHECK-LABEL: func.func private @exact
// CHECK: step = 16
func.func private @exact(%x: tensor<4096x4096xf8E4M3FN>, %w: tensor<4096x4096xf8E4M3FN>) -> tensor<4096x4096xf32> {
  %out = bufferization.alloc_tensor() : tensor<4096x4096xf32>
  "bascule.kernel"() ({
  ^bb0(%m: index, %n: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %a = tensor.extract %x[%m, %k] : tensor<4096x4096xf8E4M3FN>
      %c = arith.extf %a : f8E4M3FN to f32
      %d = tensor.extract %w[%n, %k] : tensor<4096x4096xf8E4M3FN>
      %e = arith.extf %d : f8E4M3FN to f32
      %f = arith.mulf %c, %e : f32
      "bascule.yield"(%f) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (4096)>} : () -> f32
    "bascule.store"(%sum, %out, %m, %n) : (f32, tensor<4096x4096xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (4096, 4096)>} : () -> ()
  return %out : tensor<4096x4096xf32>
}

// The scale of a row of the weight is read before the loop. Eight rows are enough, for nothing else reads the weight in 8 bits.
// CHECK-LABEL: func.func private @weight
// CHECK: descriptors = array<i64: 0>
// CHECK-SAME: dot = true
// CHECK-SAME: step = 128
// CHECK-SAME: tile = array<i64: 16, 128>
func.func private @weight(%x: tensor<8x4096xbf16>, %w: tensor<32768x4096xi8>, %s: tensor<32768xbf16>) -> tensor<8x32768xf32> {
  %out = bufferization.alloc_tensor() : tensor<8x32768xf32>
  "bascule.kernel"() ({
  ^bb0(%m: index, %n: index):
    %p = tensor.extract %s[%n] : tensor<32768xbf16>
    %q = arith.extf %p : bf16 to f32
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %a = tensor.extract %x[%m, %k] : tensor<8x4096xbf16>
      %c = arith.extf %a : bf16 to f32
      %d = tensor.extract %w[%n, %k] : tensor<32768x4096xi8>
      %e = arith.sitofp %d : i8 to f32
      %g = arith.mulf %e, %q : f32
      %h = arith.truncf %g to_nearest_even : f32 to bf16
      %i = arith.extf %h : bf16 to f32
      %f = arith.mulf %c, %i : f32
      "bascule.yield"(%f) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (4096)>} : () -> f32
    "bascule.store"(%sum, %out, %m, %n) : (f32, tensor<8x32768xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (8, 32768)>} : () -> ()
  return %out : tensor<8x32768xf32>
}

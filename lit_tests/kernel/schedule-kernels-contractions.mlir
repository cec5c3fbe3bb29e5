// Sums of products of rows and columns run on tensor cores: a program has a tile, a step a piece of what is summed.
// RUN: bascule-opt %s --schedule-kernels=target=cuda | filecheck %s
// RUN: bascule-opt %s --schedule-kernels='target=cuda capability=75' | filecheck %s --check-prefix=OLDER
// RUN: bascule-opt %s --schedule-kernels='target=cuda capability=89' | filecheck %s --check-prefix=LESS

// OLDER-NOT: dot = true

// CHECK-LABEL: func.func private @linear(
// CHECK: #bascule.schedule<{axes = array<i64: 1, 1>
// CHECK-SAME: group = 8
// CHECK-SAME: kind = "contraction"
// CHECK-SAME: dot = true
// CHECK-SAME: step = 64
// CHECK-SAME: stages = 4
// CHECK-SAME: tile = array<i64: 128, 256>
// CHECK-SAME: warps = 8
// LESS: kind = "contraction"
// LESS-SAME: stages = 2
func.func private @linear(%x: tensor<4096x4096xbf16>, %w: tensor<4096x4096xbf16>, %b: tensor<4096xbf16>) -> tensor<4096x4096xbf16> {
  %out = bufferization.alloc_tensor() : tensor<4096x4096xbf16>
  "bascule.kernel"() ({
  ^bb0(%m: index, %n: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %a = tensor.extract %x[%m, %k] : tensor<4096x4096xbf16>
      %c = arith.extf %a : bf16 to f32
      %d = tensor.extract %w[%n, %k] : tensor<4096x4096xbf16>
      %e = arith.extf %d : bf16 to f32
      %f = arith.mulf %c, %e : f32
      "bascule.yield"(%f) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (4096)>} : () -> f32
    %g = tensor.extract %b[%n] : tensor<4096xbf16>
    %h = arith.extf %g : bf16 to f32
    %i = arith.addf %sum, %h : f32
    %r = arith.truncf %i : f32 to bf16
    "bascule.store"(%r, %out, %m, %n) : (bf16, tensor<4096x4096xbf16>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (4096, 4096)>} : () -> ()
  return %out : tensor<4096x4096xbf16>
}

// Of few rows: as fast as the matrix is read, without tensor cores.
// CHECK-LABEL: func.func private @few(
// CHECK-NOT: dot = true
func.func private @few(%x: tensor<8x4096xbf16>, %w: tensor<4096x4096xbf16>) -> tensor<8x4096xf32> {
  %out = bufferization.alloc_tensor() : tensor<8x4096xf32>
  "bascule.kernel"() ({
  ^bb0(%m: index, %n: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %a = tensor.extract %x[%m, %k] : tensor<8x4096xbf16>
      %c = arith.extf %a : bf16 to f32
      %d = tensor.extract %w[%n, %k] : tensor<4096x4096xbf16>
      %e = arith.extf %d : bf16 to f32
      %f = arith.mulf %c, %e : f32
      "bascule.yield"(%f) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (4096)>} : () -> f32
    "bascule.store"(%sum, %out, %m, %n) : (f32, tensor<8x4096xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (8, 4096)>} : () -> ()
  return %out : tensor<8x4096xf32>
}

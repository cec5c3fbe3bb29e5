// Programs that take tile after tile: one of a multiprocessor, two with half of a tile each, or one of which a warp group loads for others.
// RUN: bascule-opt %s --schedule-kernels='target=cuda capability=90' | filecheck %s

// Of few steps what follows the sum counts: one program stores while the other multiplies.
// CHECK-LABEL: func.func private @few_steps(
// CHECK: kind = "contraction"
// CHECK-SAME: programs = 264
// CHECK-SAME: resident = 2
// CHECK-SAME: stages = 3
// CHECK-SAME: tile = array<i64: 128, 128>
// CHECK-SAME: warps = 4
func.func private @few_steps(%x: tensor<8192x768xbf16>, %w: tensor<3072x768xbf16>, %b: tensor<3072xbf16>) -> tensor<8192x3072xbf16> {
  %out = bufferization.alloc_tensor() : tensor<8192x3072xbf16>
  "bascule.kernel"() ({
  ^bb0(%m: index, %n: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %a = tensor.extract %x[%m, %k] : tensor<8192x768xbf16>
      %c = arith.extf %a : bf16 to f32
      %d = tensor.extract %w[%n, %k] : tensor<3072x768xbf16>
      %e = arith.extf %d : bf16 to f32
      %f = arith.mulf %c, %e : f32
      "bascule.yield"(%f) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (768)>} : () -> f32
    %g = tensor.extract %b[%n] : tensor<3072xbf16>
    %h = arith.extf %g : bf16 to f32
    %i = arith.addf %sum, %h : f32
    %r = arith.truncf %i : f32 to bf16
    "bascule.store"(%r, %out, %m, %n) : (bf16, tensor<8192x3072xbf16>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (8192, 3072)>} : () -> ()
  return %out : tensor<8192x3072xbf16>
}

// Of many a large tile reads less.
// CHECK-LABEL: func.func private @many_steps(
// CHECK: kind = "contraction"
// CHECK-SAME: programs = 132
// CHECK-SAME: stages = 4
// CHECK-SAME: tile = array<i64: 128, 256>
// CHECK-SAME: warps = 8
func.func private @many_steps(%x: tensor<8192x4096xbf16>, %w: tensor<3072x4096xbf16>, %b: tensor<3072xbf16>) -> tensor<8192x3072xbf16> {
  %out = bufferization.alloc_tensor() : tensor<8192x3072xbf16>
  "bascule.kernel"() ({
  ^bb0(%m: index, %n: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %a = tensor.extract %x[%m, %k] : tensor<8192x4096xbf16>
      %c = arith.extf %a : bf16 to f32
      %d = tensor.extract %w[%n, %k] : tensor<3072x4096xbf16>
      %e = arith.extf %d : bf16 to f32
      %f = arith.mulf %c, %e : f32
      "bascule.yield"(%f) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (4096)>} : () -> f32
    %g = tensor.extract %b[%n] : tensor<3072xbf16>
    %h = arith.extf %g : bf16 to f32
    %i = arith.addf %sum, %h : f32
    %r = arith.truncf %i : f32 to bf16
    "bascule.store"(%r, %out, %m, %n) : (bf16, tensor<8192x3072xbf16>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (8192, 3072)>} : () -> ()
  return %out : tensor<8192x3072xbf16>
}

// Of many tiles, after which nothing is read, a warp group loads for two.
// CHECK-LABEL: func.func private @many_tiles(
// CHECK: consumers = 2
// CHECK-SAME: kind = "contraction"
// CHECK-SAME: programs = 132
// CHECK-SAME: stages = 4
// CHECK-SAME: tile = array<i64: 128, 256>
// CHECK-SAME: warps = 8
func.func private @many_tiles(%x: tensor<16384x768xbf16>, %w: tensor<30528x768xbf16>) -> tensor<16384x30528xbf16> {
  %out = bufferization.alloc_tensor() : tensor<16384x30528xbf16>
  "bascule.kernel"() ({
  ^bb0(%m: index, %n: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %a = tensor.extract %x[%m, %k] : tensor<16384x768xbf16>
      %c = arith.extf %a : bf16 to f32
      %d = tensor.extract %w[%n, %k] : tensor<30528x768xbf16>
      %e = arith.extf %d : bf16 to f32
      %f = arith.mulf %c, %e : f32
      "bascule.yield"(%f) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (768)>} : () -> f32
    %r = arith.truncf %sum : f32 to bf16
    "bascule.store"(%r, %out, %m, %n) : (bf16, tensor<16384x30528xbf16>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (16384, 30528)>} : () -> ()
  return %out : tensor<16384x30528xbf16>
}

// A bias is.
// CHECK-LABEL: func.func private @read_after(
// CHECK: kind = "contraction"
// CHECK-SAME: programs = 264
// CHECK-SAME: tile = array<i64: 128, 128>
func.func private @read_after(%x: tensor<16384x768xbf16>, %w: tensor<30528x768xbf16>, %b: tensor<30528xbf16>) -> tensor<16384x30528xbf16> {
  %out = bufferization.alloc_tensor() : tensor<16384x30528xbf16>
  "bascule.kernel"() ({
  ^bb0(%m: index, %n: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %a = tensor.extract %x[%m, %k] : tensor<16384x768xbf16>
      %c = arith.extf %a : bf16 to f32
      %d = tensor.extract %w[%n, %k] : tensor<30528x768xbf16>
      %e = arith.extf %d : bf16 to f32
      %f = arith.mulf %c, %e : f32
      "bascule.yield"(%f) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (768)>} : () -> f32
    %g = tensor.extract %b[%n] : tensor<30528xbf16>
    %h = arith.extf %g : bf16 to f32
    %i = arith.addf %sum, %h : f32
    %r = arith.truncf %i : f32 to bf16
    "bascule.store"(%r, %out, %m, %n) : (bf16, tensor<16384x30528xbf16>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (16384, 30528)>} : () -> ()
  return %out : tensor<16384x30528xbf16>
}

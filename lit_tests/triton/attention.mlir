// Attention: whole pieces of 64 keys in a loop, which carries the maximum, the sum and the weighted values of each row, then one of 6.
// RUN: bascule-opt %s '--pass-pipeline=builtin.module(online-softmax{target=cuda},schedule-kernels{target=cuda},to-triton)' | filecheck %s
// RUN: bascule-run %s --function=heads --interpret-only --pipeline='builtin.module(online-softmax{target=cuda},schedule-kernels{target=cuda})'

// Queries are read once.
// CHECK: %[[Q:.*]] = "tt.load"
// CHECK-SAME: tensor<64x32xf16>
// CHECK: scf.for {{.*}} iter_args(%[[MOST:.*]] = %{{.*}}, %[[TOTAL:.*]] = %{{.*}}, %[[SUMS:.*]] = %{{.*}}) -> (tensor<64xf32>, tensor<64xf32>, tensor<64x64xf32>)
// CHECK: %[[K:.*]] = "tt.descriptor_load"
// CHECK: %[[KT:.*]] = "tt.trans"(%[[K]])
// CHECK: %[[S:.*]] = "tt.dot"(%[[Q]], %[[KT]],
// CHECK: "tt.reduce"
// CHECK: arith.maximumf %[[MOST]],
// CHECK: %[[P:.*]] = "tt.elementwise_inline_asm"
// CHECK: %[[FACTOR:.*]] = "tt.elementwise_inline_asm"
// CHECK: math.fma %[[TOTAL]], %[[FACTOR]],
// CHECK: %[[OLD:.*]] = arith.mulf %[[SUMS]],
// CHECK: %[[W:.*]] = arith.truncf %[[P]] : tensor<64x64xf32> to tensor<64x64xf16>
// CHECK: "tt.dot"(%[[W]], %{{.*}}, %[[OLD]])
// CHECK: scf.yield
// Keys beyond the last have no weight; of values a descriptor gives zeros there.
// CHECK: arith.cmpi slt
// CHECK: arith.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<64x64xi1>, tensor<64x64xf32>
// CHECK: "tt.store"
func.func private @heads(%q: memref<2x40x32xf16>, %k: memref<2x70x32xf16>, %v: memref<2x70x48xf16>, %out: memref<2x40x48xf16>) {
  "bascule.kernel"() ({
  ^bb0(%b: index, %i: index, %c: index):
    %scores = "bascule.compute"() ({
    ^bb0(%n: index):
      %dot = "bascule.reduce"() ({
      ^bb0(%d: index):
        %x = memref.load %q[%b, %i, %d] : memref<2x40x32xf16>
        %wx = arith.extf %x : f16 to f32
        %y = memref.load %k[%b, %n, %d] : memref<2x70x32xf16>
        %wy = arith.extf %y : f16 to f32
        %xy = arith.mulf %wx, %wy : f32
        "bascule.yield"(%xy) : (f32) -> ()
      }) {kind = "sum", ranges = affine_map<() -> (32)>} : () -> f32
      %scale = arith.constant 1.250000e-01 : f32
      %scaled = arith.mulf %dot, %scale : f32
      "bascule.yield"(%scaled) : (f32) -> ()
    }) {ranges = affine_map<() -> (70)>} : () -> tensor<70xf32>
    %m = "bascule.reduce"() ({
    ^bb0(%n: index):
      %s = tensor.extract %scores[%n] : tensor<70xf32>
      "bascule.yield"(%s) : (f32) -> ()
    }) {kind = "max", ranges = affine_map<() -> (70)>} : () -> f32
    %l = "bascule.reduce"() ({
    ^bb0(%n: index):
      %s = tensor.extract %scores[%n] : tensor<70xf32>
      %e = arith.subf %s, %m : f32
      %p = math.exp %e : f32
      "bascule.yield"(%p) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (70)>} : () -> f32
    %o = "bascule.reduce"() ({
    ^bb0(%n: index):
      %s = tensor.extract %scores[%n] : tensor<70xf32>
      %e = arith.subf %s, %m : f32
      %p = math.exp %e : f32
      %w = arith.truncf %p : f32 to f16
      %ww = arith.extf %w : f16 to f32
      %val = memref.load %v[%b, %n, %c] : memref<2x70x48xf16>
      %wv = arith.extf %val : f16 to f32
      %t = arith.mulf %ww, %wv : f32
      "bascule.yield"(%t) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (70)>} : () -> f32
    %r = arith.divf %o, %l : f32
    %h = arith.truncf %r : f32 to f16
    "bascule.store"(%h, %out, %b, %i, %c) : (f16, memref<2x40x48xf16>, index, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (2, 40, 48)>} : () -> ()
  return
}

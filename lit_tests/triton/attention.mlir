// RUN: bascule-opt %s --schedule-kernels=target=cuda --to-triton | filecheck %s
// RUN: bascule-run %s --function=heads --interpret-only --pipeline='builtin.module(online-softmax{target=cuda},schedule-kernels{target=cuda})'

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

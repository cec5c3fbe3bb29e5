// A causal mask: the walk begins at the first step and ends after the last key that the tile's last row sees. The step that is not whole is a loop
// that takes it or not. With a finite number in place of -inf all keys are walked.
// RUN: bascule-opt %s '--pass-pipeline=builtin.module(online-softmax{target=cuda},schedule-kernels{target=cuda},to-triton)' | filecheck %s
// RUN: bascule-run %s --function=causal --interpret-only --pipeline='builtin.module(online-softmax{target=cuda},schedule-kernels{target=cuda})'
// RUN: bascule-opt %s --online-softmax=target=cuda --schedule-kernels=target=cuda | filecheck %s --check-prefix=SCHEDULE

// SCHEDULE-LABEL: @causal
// SCHEDULE: skip = true
// SCHEDULE-LABEL: @finite
// SCHEDULE-NOT: skip = true

// CHECK: %[[LAST:.*]] = arith.addi %{{.*}}, %c63_i32
// CHECK: %[[BEYOND:.*]] = arith.addi %[[LAST]], %c1_i32
// CHECK: %[[END:.*]] = arith.minsi %c150_i32, %[[BEYOND]]
// CHECK: %[[FIRST:.*]] = arith.muli %{{.*}}, %c64_i32
// CHECK: %[[WHOLE:.*]] = arith.minsi %[[END]], %c128_i32
// Queries are read once, before both loops.
// CHECK: "tt.load"
// CHECK: %[[SEEN:.*]]:3 = scf.for %{{.*}} = %[[FIRST]] to %[[WHOLE]] step %c64_i32
// CHECK: "tt.dot"
// Before the first row of the tile all keys are seen: there the mask is not looked at.
// CHECK: %[[SHOWN:.*]] = scf.if %{{.*}} -> (tensor<64x64xf32>)
// CHECK: scf.yield %[[SCORES:.*]] : tensor<64x64xf32>
// CHECK: else
// CHECK: arith.select %{{.*}}, %{{.*}}, %[[SCORES]]
// CHECK: "tt.dot"
// CHECK: scf.for %{{.*}} = %c128_i32 to %[[END]] step %c64_i32 iter_args(%{{.*}} = %[[SEEN]]#0, %{{.*}} = %[[SEEN]]#1, %{{.*}} = %[[SEEN]]#2)
// CHECK: "tt.store"
// CHECK: scf.for %{{.*}} = %c0_i32 to %c128_i32 step %c64_i32
func.func private @causal(%q: memref<2x140x32xf16>, %k: memref<2x150x32xf16>, %v: memref<2x150x48xf16>, %out: memref<2x140x48xf16>) {
  "bascule.kernel"() ({
  ^bb0(%b: index, %i: index, %c: index):
    %scores = "bascule.compute"() ({
    ^bb0(%n: index):
      %dot = "bascule.reduce"() ({
      ^bb0(%d: index):
        %x = memref.load %q[%b, %i, %d] : memref<2x140x32xf16>
        %wx = arith.extf %x : f16 to f32
        %y = memref.load %k[%b, %n, %d] : memref<2x150x32xf16>
        %wy = arith.extf %y : f16 to f32
        %xy = arith.mulf %wx, %wy : f32
        "bascule.yield"(%xy) : (f32) -> ()
      }) {kind = "sum", ranges = affine_map<() -> (32)>} : () -> f32
      %scale = arith.constant 1.250000e-01 : f32
      %scaled = arith.mulf %dot, %scale : f32
      %never = arith.constant 0xFF800000 : f32
      %row = arith.index_cast %i : index to i64
      %key = arith.index_cast %n : index to i64
      %hidden = arith.cmpi sgt, %key, %row : i64
      %score = arith.select %hidden, %never, %scaled : f32
      "bascule.yield"(%score) : (f32) -> ()
    }) {ranges = affine_map<() -> (150)>} : () -> tensor<150xf32>
    %m = "bascule.reduce"() ({
    ^bb0(%n: index):
      %s = tensor.extract %scores[%n] : tensor<150xf32>
      "bascule.yield"(%s) : (f32) -> ()
    }) {kind = "max", ranges = affine_map<() -> (150)>} : () -> f32
    %l = "bascule.reduce"() ({
    ^bb0(%n: index):
      %s = tensor.extract %scores[%n] : tensor<150xf32>
      %e = arith.subf %s, %m : f32
      %p = math.exp %e : f32
      "bascule.yield"(%p) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (150)>} : () -> f32
    %o = "bascule.reduce"() ({
    ^bb0(%n: index):
      %s = tensor.extract %scores[%n] : tensor<150xf32>
      %e = arith.subf %s, %m : f32
      %p = math.exp %e : f32
      %w = arith.truncf %p : f32 to f16
      %ww = arith.extf %w : f16 to f32
      %val = memref.load %v[%b, %n, %c] : memref<2x150x48xf16>
      %wv = arith.extf %val : f16 to f32
      %t = arith.mulf %ww, %wv : f32
      "bascule.yield"(%t) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (150)>} : () -> f32
    %r = arith.divf %o, %l : f32
    %h = arith.truncf %r : f32 to f16
    "bascule.store"(%h, %out, %b, %i, %c) : (f16, memref<2x140x48xf16>, index, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (2, 140, 48)>} : () -> ()
  return
}

func.func private @finite(%q: memref<2x140x32xf16>, %k: memref<2x150x32xf16>, %v: memref<2x150x48xf16>, %out: memref<2x140x48xf16>) {
  "bascule.kernel"() ({
  ^bb0(%b: index, %i: index, %c: index):
    %scores = "bascule.compute"() ({
    ^bb0(%n: index):
      %dot = "bascule.reduce"() ({
      ^bb0(%d: index):
        %x = memref.load %q[%b, %i, %d] : memref<2x140x32xf16>
        %wx = arith.extf %x : f16 to f32
        %y = memref.load %k[%b, %n, %d] : memref<2x150x32xf16>
        %wy = arith.extf %y : f16 to f32
        %xy = arith.mulf %wx, %wy : f32
        "bascule.yield"(%xy) : (f32) -> ()
      }) {kind = "sum", ranges = affine_map<() -> (32)>} : () -> f32
      %scale = arith.constant 1.250000e-01 : f32
      %scaled = arith.mulf %dot, %scale : f32
      %never = arith.constant -1.000000e+04 : f32
      %row = arith.index_cast %i : index to i64
      %key = arith.index_cast %n : index to i64
      %hidden = arith.cmpi sgt, %key, %row : i64
      %score = arith.select %hidden, %never, %scaled : f32
      "bascule.yield"(%score) : (f32) -> ()
    }) {ranges = affine_map<() -> (150)>} : () -> tensor<150xf32>
    %m = "bascule.reduce"() ({
    ^bb0(%n: index):
      %s = tensor.extract %scores[%n] : tensor<150xf32>
      "bascule.yield"(%s) : (f32) -> ()
    }) {kind = "max", ranges = affine_map<() -> (150)>} : () -> f32
    %l = "bascule.reduce"() ({
    ^bb0(%n: index):
      %s = tensor.extract %scores[%n] : tensor<150xf32>
      %e = arith.subf %s, %m : f32
      %p = math.exp %e : f32
      "bascule.yield"(%p) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (150)>} : () -> f32
    %o = "bascule.reduce"() ({
    ^bb0(%n: index):
      %s = tensor.extract %scores[%n] : tensor<150xf32>
      %e = arith.subf %s, %m : f32
      %p = math.exp %e : f32
      %w = arith.truncf %p : f32 to f16
      %ww = arith.extf %w : f16 to f32
      %val = memref.load %v[%b, %n, %c] : memref<2x150x48xf16>
      %wv = arith.extf %val : f16 to f32
      %t = arith.mulf %ww, %wv : f32
      "bascule.yield"(%t) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (150)>} : () -> f32
    %r = arith.divf %o, %l : f32
    %h = arith.truncf %r : f32 to f16
    "bascule.store"(%h, %out, %b, %i, %c) : (f16, memref<2x140x48xf16>, index, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (2, 140, 48)>} : () -> ()
  return
}

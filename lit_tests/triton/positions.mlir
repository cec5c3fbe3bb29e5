// RUN: bascule-opt %s --to-triton | filecheck %s

// Steps of 512 of a row of 4 x 1024 lie in one of the 4: what is read for each of those is read once a step.
// CHECK-LABEL: "tt.func"
// CHECK: scf.for %[[K:.*]] = %{{.*}}
// CHECK: %[[R:.*]] = arith.divui %[[K]], %{{.*}} : i32
// CHECK-NOT: arith.divui {{.*}} : tensor
// CHECK-NOT: arith.remui {{.*}} : tensor
// CHECK: %[[AT:.*]] = "tt.addptr"(%{{.*}}, %[[R]]) : (!tt.ptr<f32>, i32) -> !tt.ptr<f32>
// CHECK: "tt.load"(%[[AT]]) {{.*}} : (!tt.ptr<f32>) -> f32
// CHECK: sym_name = "weights"
func.func private @weights(%x: memref<8x4x1024xf32>, %w: memref<4xf32>, %out: memref<8x4x1024xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    "bascule.foreach"() ({
    ^bb0(%r: index, %k: index):
      %e = memref.load %x[%i, %r, %k] : memref<8x4x1024xf32>
      %a = memref.load %w[%r] : memref<4xf32>
      %p = arith.mulf %e, %a : f32
      "bascule.store"(%p, %out, %i, %r, %k) : (f32, memref<8x4x1024xf32>, index, index, index) -> ()
      "bascule.yield"() : () -> ()
    }) {ranges = affine_map<() -> (4, 1024)>} : () -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (8)>, schedule = #bascule.schedule<{target = "cuda", order = array<i64: 0>, axes = array<i64: 1>, tile = array<i64: 1>,
      loops = [{along = -1 : i64, evict = "normal", fold = 0 : i64, loops = [], order = array<i64: 0, 1>, step = 512 : i64, walk = 0 : i64}], warps = 4 : i64, stages = 1 : i64, index_bits = 32 : i64, capability = 90 : i64}>} : () -> ()
  return
}

// Steps that reach from one into the next divide each position.
// CHECK-LABEL: "tt.func"
// CHECK: arith.divui {{.*}} : tensor<512xi32>
// CHECK: sym_name = "ragged"
func.func private @ragged(%x: memref<8x4x1000xf32>, %w: memref<4xf32>, %out: memref<8x4x1000xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    "bascule.foreach"() ({
    ^bb0(%r: index, %k: index):
      %e = memref.load %x[%i, %r, %k] : memref<8x4x1000xf32>
      %a = memref.load %w[%r] : memref<4xf32>
      %p = arith.mulf %e, %a : f32
      "bascule.store"(%p, %out, %i, %r, %k) : (f32, memref<8x4x1000xf32>, index, index, index) -> ()
      "bascule.yield"() : () -> ()
    }) {ranges = affine_map<() -> (4, 1000)>} : () -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (8)>, schedule = #bascule.schedule<{target = "cuda", order = array<i64: 0>, axes = array<i64: 1>, tile = array<i64: 1>,
      loops = [{along = -1 : i64, evict = "normal", fold = 0 : i64, loops = [], order = array<i64: 0, 1>, step = 512 : i64, walk = 0 : i64}], warps = 4 : i64, stages = 1 : i64, index_bits = 32 : i64, capability = 90 : i64}>} : () -> ()
  return
}

// A quotient and its remainder that meet in an address are one position again: neighbours are loaded together.
// CHECK-LABEL: "tt.func"
// CHECK-NOT: arith.divui
// CHECK-NOT: arith.remui
// CHECK: sym_name = "reshaped"
func.func private @reshaped(%x: memref<8x32x64xf32>, %out: memref<8xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %s = "bascule.reduce"() ({
    ^bb0(%k: index):
      %h = affine.apply affine_map<(d0) -> (d0 floordiv 64)>(%k)
      %v = affine.apply affine_map<(d0) -> (d0 mod 64)>(%k)
      %e = memref.load %x[%i, %h, %v] : memref<8x32x64xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (2048)>} : () -> f32
    "bascule.store"(%s, %out, %i) : (f32, memref<8xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (8)>, schedule = #bascule.schedule<{target = "cuda", order = array<i64: 0>, axes = array<i64: 1>, tile = array<i64: 1>,
      loops = [{along = -1 : i64, evict = "normal", fold = 0 : i64, loops = [], order = array<i64: 0>, step = 512 : i64, walk = 0 : i64}], warps = 4 : i64, stages = 1 : i64, index_bits = 32 : i64, capability = 90 : i64}>} : () -> ()
  return
}

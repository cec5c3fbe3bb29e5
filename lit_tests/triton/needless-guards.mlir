// RUN: bascule-opt %s --to-triton | filecheck %s

// A scale that all positions of a channel share is read once a channel, though only some of them are inside; what is beside them is not.
// CHECK-LABEL: "tt.func"
// CHECK: "tt.load"(%{{[0-9]+}}, %{{[0-9]+}}) {{.*}} -> tensor<16x64xf32>
// CHECK: %[[SCALE:.*]] = "tt.load"(%{{[0-9]+}}) {{.*}} -> tensor<16xf32>
// CHECK: "tt.expand_dims"(%[[SCALE]])
// CHECK: sym_name = "scaled"
func.func private @scaled(%x: memref<16x64xf32>, %w: memref<16xf32>, %out: memref<16x64xf32>) {
  "bascule.kernel"() ({
  ^bb0(%c: index, %p: index):
    %zero = arith.constant 0 : index
    %none = arith.constant 0.0 : f32
    %before = affine.apply affine_map<(d0) -> (d0 - 1)>(%p)
    %inside = arith.cmpi sge, %before, %zero : index
    %e = scf.if %inside -> (f32) {
      %a = memref.load %x[%c, %before] : memref<16x64xf32>
      %b = memref.load %w[%c] : memref<16xf32>
      %ab = arith.mulf %a, %b : f32
      scf.yield %ab : f32
    } else {
      scf.yield %none : f32
    }
    "bascule.store"(%e, %out, %c, %p) : (f32, memref<16x64xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (16, 64)>, schedule = #bascule.schedule<{target = "cuda", order = array<i64: 0, 1>, axes = array<i64: 1, 1>, tile = array<i64: 16, 64>,
      loops = [], warps = 4 : i64, stages = 1 : i64, index_bits = 32 : i64, capability = 90 : i64}>} : () -> ()
  return
}

// One that is outside of its buffer without the guard is read under it.
// CHECK-LABEL: "tt.func"
// CHECK: "tt.load"(%{{[0-9]+}}, %{{[0-9]+}}) {{.*}} -> tensor<16x64xf32>
// CHECK: "tt.load"(%{{[0-9]+}}, %{{[0-9]+}}) {{.*}} -> tensor<16x64xf32>
// CHECK-NOT: "tt.load"
// CHECK: sym_name = "shorter"
func.func private @shorter(%x: memref<16x64xf32>, %w: memref<15xf32>, %out: memref<16x64xf32>) {
  "bascule.kernel"() ({
  ^bb0(%c: index, %p: index):
    %zero = arith.constant 0 : index
    %last = arith.constant 15 : index
    %none = arith.constant 0.0 : f32
    %before = affine.apply affine_map<(d0) -> (d0 - 1)>(%p)
    %inside = arith.cmpi sge, %before, %zero : index
    %there = arith.cmpi slt, %c, %last : index
    %both = arith.andi %inside, %there : i1
    %e = scf.if %both -> (f32) {
      %a = memref.load %x[%c, %before] : memref<16x64xf32>
      %b = memref.load %w[%c] : memref<15xf32>
      %ab = arith.mulf %a, %b : f32
      scf.yield %ab : f32
    } else {
      scf.yield %none : f32
    }
    "bascule.store"(%e, %out, %c, %p) : (f32, memref<16x64xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (16, 64)>, schedule = #bascule.schedule<{target = "cuda", order = array<i64: 0, 1>, axes = array<i64: 1, 1>, tile = array<i64: 16, 64>,
      loops = [], warps = 4 : i64, stages = 1 : i64, index_bits = 32 : i64, capability = 90 : i64}>} : () -> ()
  return
}

// A guard along what is read saves memory, and stays: half of the rows of `w` are not wanted.
// CHECK-LABEL: "tt.func"
// CHECK: "tt.load"(%{{[0-9]+}}, %{{[0-9]+}}) {{.*}} -> tensor<16x64xf32>
// CHECK: "tt.load"(%{{[0-9]+}}, %{{[0-9]+}}) {{.*}} -> tensor<16xf32>
// CHECK: sym_name = "half"
func.func private @half(%x: memref<16x64xf32>, %w: memref<16xf32>, %out: memref<16x64xf32>) {
  "bascule.kernel"() ({
  ^bb0(%c: index, %p: index):
    %half = arith.constant 8 : index
    %none = arith.constant 0.0 : f32
    %there = arith.cmpi slt, %c, %half : index
    %e = scf.if %there -> (f32) {
      %a = memref.load %x[%c, %p] : memref<16x64xf32>
      %b = memref.load %w[%c] : memref<16xf32>
      %ab = arith.mulf %a, %b : f32
      scf.yield %ab : f32
    } else {
      scf.yield %none : f32
    }
    "bascule.store"(%e, %out, %c, %p) : (f32, memref<16x64xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (16, 64)>, schedule = #bascule.schedule<{target = "cuda", order = array<i64: 0, 1>, axes = array<i64: 1, 1>, tile = array<i64: 16, 64>,
      loops = [], warps = 4 : i64, stages = 1 : i64, index_bits = 32 : i64, capability = 90 : i64}>} : () -> ()
  return
}

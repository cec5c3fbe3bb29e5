// Schedules written by hand, which do not fit their kernels.
// RUN: bascule-opt %s --split-input-file --verify-diagnostics --to-triton
func.func private @one_axis(%x: memref<64xf32>, %out: memref<64xf32>) {
  // expected-error @+1 {{the schedule has groups of 8 along one of 1 axes}}
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %e = memref.load %x[%i] : memref<64xf32>
    "bascule.store"(%e, %out, %i) : (f32, memref<64xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (64)>, schedule = #bascule.schedule<{axes = array<i64: 1>, capability = 90, group = 8, index_bits = 32, kind = "pointwise", loops = [], order = array<i64: 0>, stages = 1, target = "cuda", tile = array<i64: 16>, warps = 1}>} : () -> ()
  return
}

// -----

func.func private @no_group(%x: memref<8x8xf32>, %out: memref<8x8xf32>) {
  // expected-error @+1 {{the schedule has groups of 0 along one of 2 axes}}
  "bascule.kernel"() ({
  ^bb0(%i: index, %j: index):
    %e = memref.load %x[%i, %j] : memref<8x8xf32>
    "bascule.store"(%e, %out, %i, %j) : (f32, memref<8x8xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (8, 8)>, schedule = #bascule.schedule<{axes = array<i64: 1, 1>, capability = 90, group = 0, index_bits = 32, kind = "pointwise", loops = [], order = array<i64: 0, 1>, stages = 1, target = "cuda", tile = array<i64: 4, 4>, warps = 1}>} : () -> ()
  return
}

// -----

func.func private @without_rows(%x: memref<64xf32>, %out: memref<f32>) {
  // expected-error @+1 {{the schedule has tensor cores for a tile of [], steps of [64]}}
  "bascule.kernel"() ({
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = memref.load %x[%k] : memref<64xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (64)>} : () -> f32
    "bascule.store"(%sum, %out) : (f32, memref<f32>) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> ()>, schedule = #bascule.schedule<{axes = array<i64>, capability = 90, index_bits = 32, kind = "row", loops = [{along = -1, dot = true, evict = "normal", fold = 0, loops = [], order = array<i64: 0>, step = 64, walk = 0}], order = array<i64>, stages = 1, target = "cuda", tile = array<i64>, warps = 1}>} : () -> ()
  return
}

// -----

// What a position counts is the points in the order of the loop.
func.func private @position(%x: memref<4x8xf32>, %out: memref<i64>) {
  // expected-error @+1 {{the schedule's order [1, 0] is of a loop whose points count in their own}}
  "bascule.kernel"() ({
    %at = "bascule.reduce"() ({
    ^bb0(%i: index, %j: index):
      %e = memref.load %x[%i, %j] : memref<4x8xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "argmax", ranges = affine_map<() -> (4, 8)>} : () -> i64
    "bascule.store"(%at, %out) : (i64, memref<i64>) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> ()>, schedule = #bascule.schedule<{axes = array<i64>, capability = 90, index_bits = 32, kind = "row", loops = [{along = -1, evict = "normal", fold = 0, loops = [], order = array<i64: 1, 0>, step = 32, walk = 0}], order = array<i64>, stages = 1, target = "cuda", tile = array<i64>, warps = 1}>} : () -> ()
  return
}

// -----

func.func private @tiles_of_one_point(%x: memref<f32>, %out: memref<f32>) {
  // expected-error @+1 {{the schedule has 2 programs for one tile after the other}}
  "bascule.kernel"() ({
    %e = memref.load %x[] : memref<f32>
    "bascule.store"(%e, %out) : (f32, memref<f32>) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> ()>, schedule = #bascule.schedule<{axes = array<i64>, capability = 90, index_bits = 32, kind = "pointwise", loops = [], order = array<i64>, programs = 2, stages = 1, target = "cuda", tile = array<i64>, warps = 1}>} : () -> ()
  return
}

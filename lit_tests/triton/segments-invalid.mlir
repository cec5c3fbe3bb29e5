// Schedules for rows in segments that would be wrong code.
// RUN: bascule-opt %s --to-triton --split-input-file --verify-diagnostics

func.func private @no_count(%x: memref<50x80xf16>, %y: memref<80x40xf16>, %out: memref<50x40xf32>) {
  "bascule.kernel"() ({
  ^bb0(%m: index, %n: index):
    // expected-error @+1 {{a schedule for rows in segments of what counts none}}
    %other = "bascule.reduce"() ({
    ^bb0(%k: index):
      %a = memref.load %x[%m, %k] : memref<50x80xf16>
      %c = arith.extf %a : f16 to f32
      "bascule.yield"(%c) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (80)>} : () -> f32
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %a = memref.load %x[%m, %k] : memref<50x80xf16>
      %c = arith.extf %a : f16 to f32
      %d = memref.load %y[%k, %n] : memref<80x40xf16>
      %e = arith.extf %d : f16 to f32
      %f = arith.mulf %c, %e : f32
      "bascule.yield"(%f) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (80)>} : () -> f32
    %total = arith.addf %sum, %other : f32
    "bascule.store"(%total, %out, %m, %n) : (f32, memref<50x40xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (50, 40)>, schedule = #bascule.schedule<{axes = array<i64: 1, 1>, capability = 90 : i64, index_bits = 32 : i64, kind = "contraction", loops = [{along = -1 : i64, evict = "normal", fold = 0 : i64, loops = [], order = array<i64: 0>, segments = true, step = 16 : i64, walk = 0 : i64}, {along = -1 : i64, dot = true, evict = "normal", fold = 0 : i64, loops = [], order = array<i64: 0>, step = 16 : i64, walk = 1 : i64}], order = array<i64: 0, 1>, stages = 2 : i64, target = "cuda", tile = array<i64: 64, 64>, warps = 4 : i64}>} : () -> ()
  return
}

// -----

func.func private @no_product(%o: memref<8xi32>, %out: memref<50x40xi32>) {
  // expected-error @+1 {{the schedule has segments of rows beside no product on tensor cores}}
  "bascule.kernel"() ({
  ^bb0(%m: index, %n: index):
    %count = "bascule.reduce"() ({
    ^bb0(%g: index):
      %end = memref.load %o[%g] : memref<8xi32>
      %i = arith.index_cast %end : i32 to index
      %before = arith.cmpi sle, %i, %m : index
      %one = arith.extui %before : i1 to i32
      "bascule.yield"(%one) : (i32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (8)>} : () -> i32
    "bascule.store"(%count, %out, %m, %n) : (i32, memref<50x40xi32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (50, 40)>, schedule = #bascule.schedule<{axes = array<i64: 1, 1>, capability = 90 : i64, index_bits = 32 : i64, kind = "contraction", loops = [{along = -1 : i64, evict = "normal", fold = 0 : i64, loops = [], order = array<i64: 0>, segments = true, step = 8 : i64, walk = 0 : i64}], order = array<i64: 0, 1>, stages = 2 : i64, target = "cuda", tile = array<i64: 64, 64>, warps = 4 : i64}>} : () -> ()
  return
}

// -----

func.func private @whole(%x: memref<512x64xf16>, %y: memref<512x64xf16>, %o: memref<2xi32>, %out: memref<64x64xf32>) {
  "bascule.kernel"() ({
  ^bb0(%m: index, %n: index):
    %zero = arith.constant 0.0 : f16
    %at = arith.constant 0 : index
    %end = memref.load %o[%at] : memref<2xi32>
    %last = arith.index_cast %end : i32 to index
    // expected-error @+1 {{a schedule that goes beyond the end of a sum that is cut, on tensor cores}}
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %from = arith.cmpi sge, %k, %at : index
      %to = arith.cmpi slt, %k, %last : index
      %inside = arith.andi %from, %to : i1
      %a = memref.load %x[%k, %m] : memref<512x64xf16>
      %d = memref.load %y[%k, %n] : memref<512x64xf16>
      %p = arith.select %inside, %a, %zero : f16
      %q = arith.select %inside, %d, %zero : f16
      %c = arith.extf %p : f16 to f32
      %e = arith.extf %q : f16 to f32
      %f = arith.mulf %c, %e : f32
      "bascule.yield"(%f) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (512)>} : () -> f32
    "bascule.store"(%sum, %out, %m, %n) : (f32, memref<64x64xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (64, 64)>, schedule = #bascule.schedule<{axes = array<i64: 1, 1>, capability = 90 : i64, index_bits = 32 : i64, kind = "contraction", loops = [{along = -1 : i64, dot = true, evict = "normal", fold = 0 : i64, loops = [], order = array<i64: 0>, step = 16 : i64, walk = 0 : i64}], order = array<i64: 0, 1>, stages = 2 : i64, target = "cuda", tile = array<i64: 64, 64>, warps = 4 : i64}>} : () -> ()
  return
}

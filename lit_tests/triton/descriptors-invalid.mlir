// Tensor descriptors where a schedule asks for them and there are none.
// RUN: bascule-opt %s --to-triton --split-input-file --verify-diagnostics

// expected-error@+2 {{tensor descriptors for sm_80, which has none}}
func.func private @older(%x: memref<32x64xf16>, %y: memref<32x64xf16>, %out: memref<32x32xf32>) {
  "bascule.kernel"() ({
  ^bb0(%m: index, %n: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %a = memref.load %x[%m, %k] : memref<32x64xf16>
      %b = arith.extf %a : f16 to f32
      %c = memref.load %y[%n, %k] : memref<32x64xf16>
      %d = arith.extf %c : f16 to f32
      %e = arith.mulf %b, %d : f32
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (64)>} : () -> f32
    "bascule.store"(%sum, %out, %m, %n) : (f32, memref<32x32xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (32, 32)>, schedule = #bascule.schedule<{axes = array<i64: 1, 1>, capability = 80 : i64, index_bits = 32 : i64, kind = "contraction", loops = [{along = -1 : i64, descriptors = array<i64: 0, 1>, dot = true, evict = "normal", fold = 0 : i64, loops = [], order = array<i64: 0>, step = 16 : i64, walk = 0 : i64}], order = array<i64: 0, 1>, stages = 2 : i64, target = "cuda", tile = array<i64: 32, 32>, warps = 4 : i64}>} : () -> ()
  return
}

// -----

// expected-error@+2 {{tensor descriptors for factors [0, 2] of what is no sum of products on tensor cores}}
func.func private @third(%x: memref<32x64xf16>, %y: memref<32x64xf16>, %out: memref<32x32xf32>) {
  "bascule.kernel"() ({
  ^bb0(%m: index, %n: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %a = memref.load %x[%m, %k] : memref<32x64xf16>
      %b = arith.extf %a : f16 to f32
      %c = memref.load %y[%n, %k] : memref<32x64xf16>
      %d = arith.extf %c : f16 to f32
      %e = arith.mulf %b, %d : f32
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (64)>} : () -> f32
    "bascule.store"(%sum, %out, %m, %n) : (f32, memref<32x32xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (32, 32)>, schedule = #bascule.schedule<{axes = array<i64: 1, 1>, capability = 90 : i64, index_bits = 32 : i64, kind = "contraction", loops = [{along = -1 : i64, descriptors = array<i64: 0, 2>, dot = true, evict = "normal", fold = 0 : i64, loops = [], order = array<i64: 0>, step = 16 : i64, walk = 0 : i64}], order = array<i64: 0, 1>, stages = 2 : i64, target = "cuda", tile = array<i64: 32, 32>, warps = 4 : i64}>} : () -> ()
  return
}

// -----

// expected-error@+2 {{its strides are [132] bytes, no multiples of 16}}
func.func private @ragged(%x: memref<32x66xf16>, %y: memref<32x64xf16>, %out: memref<32x32xf32>) {
  "bascule.kernel"() ({
  ^bb0(%m: index, %n: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %a = memref.load %x[%m, %k] : memref<32x66xf16>
      %b = arith.extf %a : f16 to f32
      %c = memref.load %y[%n, %k] : memref<32x64xf16>
      %d = arith.extf %c : f16 to f32
      %e = arith.mulf %b, %d : f32
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (64)>} : () -> f32
    "bascule.store"(%sum, %out, %m, %n) : (f32, memref<32x32xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (32, 32)>, schedule = #bascule.schedule<{axes = array<i64: 1, 1>, capability = 90 : i64, index_bits = 32 : i64, kind = "contraction", loops = [{along = -1 : i64, descriptors = array<i64: 0, 1>, dot = true, evict = "normal", fold = 0 : i64, loops = [], order = array<i64: 0>, step = 16 : i64, walk = 0 : i64}], order = array<i64: 0, 1>, stages = 2 : i64, target = "cuda", tile = array<i64: 32, 32>, warps = 4 : i64}>} : () -> ()
  return
}

// -----

// expected-error@+2 {{memory runs neither along its rows nor along what is summed}}
func.func private @strided(%x: memref<32x64x8xf16>, %y: memref<32x64xf16>, %out: memref<32x32xf32>) {
  "bascule.kernel"() ({
  ^bb0(%m: index, %n: index):
    %zero = arith.constant 0 : index
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %a = memref.load %x[%m, %k, %zero] : memref<32x64x8xf16>
      %b = arith.extf %a : f16 to f32
      %c = memref.load %y[%n, %k] : memref<32x64xf16>
      %d = arith.extf %c : f16 to f32
      %e = arith.mulf %b, %d : f32
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (64)>} : () -> f32
    "bascule.store"(%sum, %out, %m, %n) : (f32, memref<32x32xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (32, 32)>, schedule = #bascule.schedule<{axes = array<i64: 1, 1>, capability = 90 : i64, index_bits = 32 : i64, kind = "contraction", loops = [{along = -1 : i64, descriptors = array<i64: 0, 1>, dot = true, evict = "normal", fold = 0 : i64, loops = [], order = array<i64: 0>, step = 16 : i64, walk = 0 : i64}], order = array<i64: 0, 1>, stages = 2 : i64, target = "cuda", tile = array<i64: 32, 32>, warps = 4 : i64}>} : () -> ()
  return
}

// -----

// expected-error@+2 {{it is computed, not read}}
func.func private @computed(%x: memref<32x64xf16>, %y: memref<32x64xf16>, %out: memref<32x32xf32>) {
  "bascule.kernel"() ({
  ^bb0(%m: index, %n: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %a = memref.load %x[%m, %k] : memref<32x64xf16>
      %o = arith.addf %a, %a : f16
      %b = arith.extf %o : f16 to f32
      %c = memref.load %y[%n, %k] : memref<32x64xf16>
      %d = arith.extf %c : f16 to f32
      %e = arith.mulf %b, %d : f32
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (64)>} : () -> f32
    "bascule.store"(%sum, %out, %m, %n) : (f32, memref<32x32xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (32, 32)>, schedule = #bascule.schedule<{axes = array<i64: 1, 1>, capability = 90 : i64, index_bits = 32 : i64, kind = "contraction", loops = [{along = -1 : i64, descriptors = array<i64: 0, 1>, dot = true, evict = "normal", fold = 0 : i64, loops = [], order = array<i64: 0>, step = 16 : i64, walk = 0 : i64}], order = array<i64: 0, 1>, stages = 2 : i64, target = "cuda", tile = array<i64: 32, 32>, warps = 4 : i64}>} : () -> ()
  return
}

// RUN: not bascule-opt %s --to-triton 2>&1 | filecheck %s

// CHECK: :5:3: error: the schedule has tensor cores for a tile of [1, 64, 64], steps of [8]
func.func private @batch(%x: memref<5x50x80xf16>, %y: memref<5x80x40xf16>, %out: memref<5x50x40xf32>) {
  "bascule.kernel"() ({
  ^bb0(%b: index, %m: index, %n: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %a = memref.load %x[%b, %m, %k] : memref<5x50x80xf16>
      %c = arith.extf %a : f16 to f32
      %d = memref.load %y[%b, %k, %n] : memref<5x80x40xf16>
      %e = arith.extf %d : f16 to f32
      %f = arith.mulf %c, %e : f32
      "bascule.yield"(%f) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (80)>} : () -> f32
    "bascule.store"(%sum, %out, %b, %m, %n) : (f32, memref<5x50x40xf32>, index, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (5, 50, 40)>, schedule = #bascule.schedule<{axes = array<i64: 1, 1, 1>, capability = 90 : i64, index_bits = 32 : i64, kind = "contraction", loops = [{along = -1 : i64, dot = true, evict = "normal", fold = 0 : i64, loops = [], order = array<i64: 0>, step = 8 : i64, walk = 0 : i64}], order = array<i64: 0, 1, 2>, stages = 2 : i64, target = "cuda", tile = array<i64: 1, 64, 64>, warps = 4 : i64}>} : () -> ()
  return
}

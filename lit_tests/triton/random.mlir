// RUN: bascule-opt %s --to-triton --canonicalize | filecheck %s
// RUN: bascule-opt %s --to-triton --emit=ttgir | filecheck %s --check-prefix=LAYOUTS

// Four neighbours share a counter: their words are joined, in registers.
// CHECK: %[[N:.*]] = "tt.make_range"() {{.*}}end = 64 : i32{{.*}} -> tensor<64xi32>
// CHECK: %[[PAIRS:.*]] = "tt.join"(%{{.*}}, %{{.*}}) : (tensor<64xi64>, tensor<64xi64>) -> tensor<64x2xi64>
// CHECK: %[[TWO:.*]] = "tt.reshape"(%[[PAIRS]]) : (tensor<64x2xi64>) -> tensor<128xi64>
// CHECK: "tt.join"(%{{.*}}, %{{.*}}) : (tensor<128xi32>, tensor<128xi32>) -> tensor<128x2xi32>
// CHECK: sym_name = "neighbours"
// LAYOUTS: tt.func public @neighbours
// LAYOUTS: tt.join
// LAYOUTS-NOT: ttg.convert_layout
// LAYOUTS: tt.store
func.func private @neighbours(%seed: memref<i64>, %out: memref<1024xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %s = memref.load %seed[] : memref<i64>
    %r = "bascule.random"(%s, %i) {distribution = "uniform"} : (i64, index) -> f32
    "bascule.store"(%r, %out, %i) : (f32, memref<1024xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (1024)>, schedule = #bascule.schedule<{target = "cuda", order = array<i64: 0>, axes = array<i64: 1>, tile = array<i64: 256>,
      loops = [], warps = 1 : i64, stages = 1 : i64, index_bits = 32 : i64, capability = 90 : i64}>} : () -> ()
  return
}

// Neighbours that do not begin at a whole counter: each computes one, and takes its word.
// CHECK-NOT: tt.join
// CHECK: %[[WORD:.*]] = arith.andi %{{.*}}, %{{.*}} : tensor<256xi32>
// CHECK: arith.select
// CHECK: sym_name = "from_one_on"
func.func private @from_one_on(%seed: memref<i64>, %out: memref<1024xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %s = memref.load %seed[] : memref<i64>
    %at = affine.apply affine_map<(d0) -> (d0 + 1)>(%i)
    %r = "bascule.random"(%s, %at) {distribution = "uniform"} : (i64, index) -> f32
    "bascule.store"(%r, %out, %i) : (f32, memref<1024xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (1024)>, schedule = #bascule.schedule<{target = "cuda", order = array<i64: 0>, axes = array<i64: 1>, tile = array<i64: 256>,
      loops = [], warps = 1 : i64, stages = 1 : i64, index_bits = 32 : i64, capability = 90 : i64}>} : () -> ()
  return
}

// A batch of products: whole pieces of 64 in a loop, then one of 16 beyond which both factors are 0.
// RUN: bascule-opt %s --schedule-kernels='target=cuda capability=80' --to-triton | filecheck %s
// RUN: bascule-run %s --function=batch --interpret-only --pipeline='builtin.module(schedule-kernels{target=cuda})'

// CHECK: #[[GRID:.*]] = affine_map<() -> (5)>
// CHECK: %[[SUM:.*]] = scf.for
// CHECK: %[[X:.*]] = "tt.load"
// CHECK-SAME: tensor<64x64xf16>
// CHECK: %[[Y:.*]] = "tt.load"
// CHECK: %[[T:.*]] = "tt.trans"(%[[Y]]) {order = array<i32: 1, 0>}
// CHECK: "tt.dot"(%[[X]], %[[T]], %{{.*}}) {inputPrecision = 2 : i32, maxNumImpreciseAcc = 0 : i32}
// CHECK-SAME: -> tensor<64x64xf32>
// CHECK: scf.yield
// CHECK: %[[IN:.*]] = arith.cmpi slt
// CHECK: arith.select
// CHECK: arith.select
// CHECK: "tt.dot"(%{{.*}}, %{{.*}}, %[[SUM]])
// CHECK: "tt.store"
// CHECK: bascule.grid = #[[GRID]]
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
  }) {ranges = affine_map<() -> (5, 50, 40)>} : () -> ()
  return
}

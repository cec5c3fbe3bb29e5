// A batch of products by tensor descriptors: the last step is one of the loop, for beyond the sizes they give zeros.
// RUN: bascule-opt %s --schedule-kernels=target=cuda --to-triton | filecheck %s
// RUN: bascule-opt %s --schedule-kernels=target=cuda --to-triton --emit=sass-report --target=sm_90 | filecheck %s --check-prefix=CODE
// RUN: bascule-run %s --function=batch --interpret-only --pipeline='builtin.module(schedule-kernels{target=cuda})'

// CHECK: "tt.func"
// CHECK-NEXT: ^bb0(%arg0: !tt.ptr<f16>, %arg1: !tt.ptr<f16>, %arg2: !tt.ptr<f32>, %[[X:.*]]: !tt.tensordesc<tensor<1x64x64xf16>>, %[[Y:.*]]: !tt.tensordesc<tensor<1x64x64xf16>>):
// CHECK: %[[B:.*]] = arith.divui
// CHECK: %[[M:.*]] = arith.muli
// CHECK: %[[N:.*]] = arith.muli
// CHECK: scf.for %[[K:.*]] = %{{.*}} to %c128_i32 step %c64_i32
// CHECK: %[[PIECE:.*]] = "tt.descriptor_load"(%[[X]], %{{.*}}, %{{.*}}, %[[K]])
// CHECK-SAME: -> tensor<64x64xf16>
// CHECK: "tt.descriptor_load"(%[[Y]], %{{.*}}, %[[K]], %{{.*}})
// CHECK: "tt.trans"
// CHECK-NOT: arith.select
// CHECK: "tt.dot"(%[[PIECE]], %{{.*}}
// CHECK-NOT: "tt.dot"
// CHECK: "tt.store"
// CHECK: bascule.descriptors = [{box = array<i64: 1, 64, 64>, element = "f16", parameter = 0 : i64, sizes = array<i64: 5, 50, 80>
// CHECK-SAME: start = 0 : i64, strides = array<i64: 4000, 80, 1>}, {box = array<i64: 1, 64, 64>, element = "f16", parameter = 1 : i64
// CHECK-SAME: sizes = array<i64: 5, 80, 40>, start = 0 : i64, strides = array<i64: 3200, 40, 1>}]

// CODE: spilled: stores 0 bytes, loads 0 bytes
// CODE: HGMMA
// CODE-NOT: LDGSTS
// CODE: UTMALDG.3D
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

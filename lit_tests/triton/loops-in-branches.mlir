// Loops in the two branches of a condition are no neighbours: each is walked by itself, though they read one buffer.
// RUN: bascule-opt %s --schedule-kernels=target=cuda --split-input-file | filecheck %s --check-prefix=SCHEDULE
// RUN: bascule-opt %s --schedule-kernels=target=cuda --to-triton --split-input-file | filecheck %s

// SCHEDULE: loops = [{{{.*}}step = 64 : i64, walk = 0 : i64}, {{{.*}}step = 2 : i64, walk = 1 : i64}, {{{.*}}step = 2 : i64, walk = 2 : i64}]
// CHECK-LABEL: "tt.func"
// CHECK: "tt.reduce"
// CHECK: "tt.load"({{.*}}tensor<16x2xi1>
// CHECK: "tt.reduce"
// CHECK: "tt.load"({{.*}}tensor<16x2xi1>
// CHECK: "tt.reduce"
// CHECK: arith.select
func.func private @halves(%x: memref<2x8xf32>, %y: memref<64x16xf32>, %out: memref<16xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %c8 = arith.constant 8 : index
    %total = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = memref.load %y[%k, %i] : memref<64x16xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (64)>} : () -> f32
    %first = arith.cmpi slt, %i, %c8 : index
    %v = scf.if %first -> (f32) {
      %s = "bascule.reduce"() ({
      ^bb0(%k: index):
        %e = memref.load %x[%k, %i] : memref<2x8xf32>
        "bascule.yield"(%e) : (f32) -> ()
      }) {kind = "sum", ranges = affine_map<() -> (2)>} : () -> f32
      scf.yield %s : f32
    } else {
      %j = affine.apply affine_map<(d0) -> (d0 - 8)>(%i)
      %s = "bascule.reduce"() ({
      ^bb0(%k: index):
        %e = memref.load %x[%k, %j] : memref<2x8xf32>
        "bascule.yield"(%e) : (f32) -> ()
      }) {kind = "sum", ranges = affine_map<() -> (2)>} : () -> f32
      %n = arith.negf %s : f32
      scf.yield %n : f32
    }
    %product = arith.mulf %v, %total : f32
    "bascule.store"(%product, %out, %i) : (f32, memref<16xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (16)>} : () -> ()
  return
}

// -----

// What stands between two reductions that walk together may be a condition: the second needs it, so that it comes before both.
// CHECK-LABEL: "tt.func"
// CHECK: %[[AFTER:.*]] = arith.cmpi sge
// CHECK: %[[ADDED:.*]] = "tt.load"(%{{.*}}, %[[AFTER]], %{{.*}})
// CHECK: "tt.reduce"
// CHECK: "tt.store"
func.func private @between(%x: memref<7x3xf32>, %y: memref<2xf32>, %out: memref<7xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %largest = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = memref.load %x[%i, %k] : memref<7x3xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "max", ranges = affine_map<() -> (3)>} : () -> f32
    %c5 = arith.constant 5 : index
    %zero = arith.constant 0.0 : f32
    %after = arith.cmpi sge, %i, %c5 : index
    %added = scf.if %after -> (f32) {
      %j = affine.apply affine_map<(d0) -> (d0 - 5)>(%i)
      %e = memref.load %y[%j] : memref<2xf32>
      scf.yield %e : f32
    } else {
      scf.yield %zero : f32
    }
    %total = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = memref.load %x[%i, %k] : memref<7x3xf32>
      %s = arith.addf %e, %added : f32
      "bascule.yield"(%s) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (3)>} : () -> f32
    %r = arith.mulf %largest, %total : f32
    "bascule.store"(%r, %out, %i) : (f32, memref<7xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (7)>} : () -> ()
  return
}

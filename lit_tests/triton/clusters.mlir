// Rows that programs share: the kernel's grid has as many times more, and what they reduced is exchanged.
// RUN: bascule-opt %s --schedule-kernels=target=cuda | filecheck %s --check-prefix=SCHEDULE
// RUN: bascule-opt %s --schedule-kernels=target=cuda --to-triton | filecheck %s
// RUN: bascule-opt %s --schedule-kernels="target=cuda capability=86" | filecheck %s --check-prefix=OLDER
// RUN: not bascule-opt %s --schedule-kernels=target=cuda --to-triton --emit=ptx --target=sm_80 2>&1 | filecheck %s --check-prefix=TARGET

// SCHEDULE: func.func private @center
// SCHEDULE: capability = 90 : i64, cluster = 8 : i64
// SCHEDULE-SAME: held = true
// SCHEDULE-SAME: step = 2048
// SCHEDULE-SAME: resident = 4 : i64
// SCHEDULE: func.func private @in_place
// SCHEDULE-NOT: cluster
// OLDER-NOT: cluster
// TARGET: error: kernel 'center' ({{.*}}) is scheduled for clusters of 8 programs, which sm_80 does not have

// CHECK: #[[GRID:.*]] = affine_map<() -> (512)>
// CHECK: barrier.cluster.arrive.relaxed
// CHECK: griddepcontrol.wait
// CHECK: %[[PROGRAM:.*]] = "tt.get_program_id"
// CHECK: %[[MEMBER:.*]] = arith.remui %[[PROGRAM]], %c8_i32
// CHECK: %[[ROW:.*]] = arith.divui %[[PROGRAM]], %c8_i32
// CHECK: arith.muli %[[MEMBER]], %c8192_i32
// CHECK: %[[SUM:.*]] = "tt.reduce"
// CHECK: "tt.elementwise_inline_asm"(%[[SUM]])
// CHECK-SAME: // of 8 programs
// CHECK-SAME: barrier.cluster.wait.acquire
// CHECK-SAME: setp.lt.u32 sends, to, 8;
// CHECK-SAME: mapa.shared::cluster.u32 at, at, to;
// CHECK-SAME: (f32) -> (f32, f32, f32, f32, f32, f32, f32, f32)
// The first program stores what the row has.
// CHECK: %[[FIRST:.*]] = arith.cmpi eq, %[[MEMBER]], %c0_i32
// CHECK: "tt.store"({{.*}}, %[[FIRST]])
// CHECK: bascule.cluster = 8 : i32, bascule.grid = #[[GRID]]
func.func private @center(%x: memref<64x65536xf32>, %sums: memref<64xf32>, %out: memref<64x65536xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%j: index):
      %e = memref.load %x[%i, %j] : memref<64x65536xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (65536)>} : () -> f32
    "bascule.store"(%sum, %sums, %i) : (f32, memref<64xf32>, index) -> ()
    "bascule.foreach"() ({
    ^bb0(%j: index):
      %e = memref.load %x[%i, %j] : memref<64x65536xf32>
      %d = arith.subf %e, %sum : f32
      "bascule.store"(%d, %out, %i, %j) : (f32, memref<64x65536xf32>, index, index) -> ()
      "bascule.yield"() : () -> ()
    }) {ranges = affine_map<() -> (65536)>} : () -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (64)>} : () -> ()
  return
}

// What is stored to is read.
func.func private @in_place(%x: memref<64x65536xf32>, %y: memref<64x65536xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%j: index):
      %e = memref.load %x[%i, %j] : memref<64x65536xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (65536)>} : () -> f32
    "bascule.foreach"() ({
    ^bb0(%j: index):
      %e = memref.load %x[%i, %j] : memref<64x65536xf32>
      %before = memref.load %y[%i, %j] : memref<64x65536xf32>
      %d = arith.subf %e, %sum : f32
      %after = arith.addf %before, %d : f32
      "bascule.store"(%after, %y, %i, %j) : (f32, memref<64x65536xf32>, index, index) -> ()
      "bascule.yield"() : () -> ()
    }) {ranges = affine_map<() -> (65536)>} : () -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (64)>} : () -> ()
  return
}

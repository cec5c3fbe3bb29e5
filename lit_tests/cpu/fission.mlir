// RUN: bascule-opt %s --schedule-kernels=vector-bits=256 --load-pass=bascule.lowering.cpu.kernels_to_cpu:KernelsToCpu --kernels-to-cpu=vector-bits=256 | filecheck %s
// RUN: bascule-opt %s --schedule-kernels=vector-bits=256 | filecheck %s --check-prefix=SCHEDULE
// RUN: bascule-opt %s --schedule-kernels=vector-bits=256 | sed 's/fission = [0-9]*/fission = 24/' > %t
// RUN: not bascule-opt %t --load-pass=bascule.lowering.cpu.kernels_to_cpu:KernelsToCpu --kernels-to-cpu 2>&1 | filecheck %s --check-prefix=LANES
// RUN: bascule-opt %s --schedule-kernels=vector-bits=256 | sed 's/blocked = 0/blocked = -1/' > %t
// RUN: not bascule-opt %t --load-pass=bascule.lowering.cpu.kernels_to_cpu:KernelsToCpu --kernels-to-cpu 2>&1 | filecheck %s --check-prefix=BLOCKS
// RUN: bascule-opt %s --schedule-kernels=vector-bits=256 | sed 's/math.log/math.sqrt/' > %t
// RUN: not bascule-opt %t --load-pass=bascule.lowering.cpu.kernels_to_cpu:KernelsToCpu --kernels-to-cpu 2>&1 | filecheck %s --check-prefix=SHORT

// The logarithm of each row's sum takes as long as the sum. The sums of 64 rows are kept, their logarithms are computed by lanes, and each row is
// then read again.
// SCHEDULE: block = 64 : i64, blocked = 0 : i64, fission = 32 : i64
// LANES: error: the schedule of this 'bascule.kernel' has phases of 24 lanes in blocks of 64; expected a power of two that divides them
// BLOCKS: error: the schedule of this 'bascule.kernel' has phases of a loop that is no domain cut into blocks along its last group
// SHORT: error: the schedule of this 'bascule.kernel' has phases of a region in which nothing takes long beside a loop
// CHECK-LABEL: func.func private @k__part0
// CHECK-DAG: %[[SUMS:.*]] = memref.alloca() {{.*}} : memref<64xf32>
// CHECK-DAG: %[[LOGS:.*]] = memref.alloca() {{.*}} : memref<64xf32>
// CHECK: scf.for
// CHECK: vector.load %{{.*}} : memref<?xf32>, vector<8xf32>
// CHECK: memref.store %{{.*}}, %[[FIRST:.*]][%{{.*}}] : memref<64xf32>
// CHECK: vector.load %[[FIRST]][%{{.*}}] : memref<64xf32>, vector<32xf32>
// CHECK: vector.store %{{.*}}, %[[SECOND:.*]][%{{.*}}] : memref<64xf32>, vector<32xf32>
// CHECK: memref.load %[[SECOND]][%{{.*}}] : memref<64xf32>
// CHECK: vector.load %{{.*}} : memref<?xf32>, vector<8xf32>
// CHECK: arith.subf
// CHECK: return
func.func private @k(%x: memref<1000x8xf32>, %o: memref<1000x8xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %s = "bascule.reduce"() ({
    ^bb0(%k: index):
      %a = memref.load %x[%i, %k] : memref<1000x8xf32>
      "bascule.yield"(%a) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (8)>} : () -> f32
    %l = math.log %s : f32
    "bascule.foreach"() ({
    ^bb0(%k: index):
      %a = memref.load %x[%i, %k] : memref<1000x8xf32>
      %d = arith.subf %a, %l : f32
      "bascule.store"(%d, %o, %i, %k) : (f32, memref<1000x8xf32>, index, index) -> ()
      "bascule.yield"() : () -> ()
    }) {ranges = affine_map<() -> (8)>} : () -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (1000)>} : () -> ()
  return
}

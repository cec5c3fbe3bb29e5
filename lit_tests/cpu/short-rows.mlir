// RUN: bascule-opt %s --schedule-kernels=vector-bits=256 | filecheck %s --check-prefix=SCHEDULE
// RUN: bascule-opt %s --schedule-kernels=vector-bits=256 --load-pass=bascule.lowering.cpu.kernels_to_cpu:KernelsToCpu --kernels-to-cpu=vector-bits=256 | filecheck %s
// RUN: bascule-opt %s --schedule-kernels=vector-bits=256 | sed 's/affine_map<()\[s0\] -> (s0)>/affine_map<()[s0] -> (48)>/' > %t
// RUN: not bascule-opt %t --load-pass=bascule.lowering.cpu.kernels_to_cpu:KernelsToCpu --kernels-to-cpu 2>&1 | filecheck %s --check-prefix=KNOWN

// Rows of a size that is not known: up to 16 elements have lanes of one register, others of four.
// SCHEDULE: lanes = 32 : i64, prefetch = 8192 : i64, short = 16 : i64, vector = 0 : i64
// KNOWN: error: the schedule of this 'bascule.reduce' has other lanes for up to 16 points of what is no reduction along lanes of a size not known
// CHECK-LABEL: func.func private @k__part0
// CHECK: %[[SHORT:.*]] = arith.cmpi ule, %{{.*}}, %c16
// CHECK: scf.if %[[SHORT]] -> (f32)
// CHECK: vector.load %{{.*}} vector<8xf32>
// CHECK: } else {
// CHECK: vector.load %{{.*}} vector<32xf32>
// CHECK: return
func.func private @k(%s0: index, %x: memref<100x?xf32, affine_map<(d0, d1)[s0] -> (d0 * s0 + d1)>> {bascule.shape = affine_map<()[s0] -> (100, s0)>}, %o: memref<100xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %s = "bascule.reduce"() ({
    ^bb0(%k: index):
      %a = memref.load %x[%i, %k] : memref<100x?xf32, affine_map<(d0, d1)[s0] -> (d0 * s0 + d1)>>
      "bascule.yield"(%a) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<()[s0] -> (s0)>} : () -> f32
    "bascule.store"(%s, %o, %i) : (f32, memref<100xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (100)>} : () -> ()
  return
}

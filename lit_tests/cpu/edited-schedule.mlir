// RUN: bascule-opt %s --load-pass=bascule.lowering.cpu.kernels_to_cpu:KernelsToCpu --kernels-to-cpu=vector-bits=256 --split-input-file | filecheck %s

// The schedule says scalar code, of blocks of 10 points.
// CHECK-LABEL: func.func private @k__part0
// CHECK:         arith.constant 10 : index
// CHECK:         scf.for
// CHECK-NOT:     vector
// CHECK:         arith.mulf %{{.*}} : f32
// CHECK:         return
func.func private @k(%x: memref<1000xf32>, %o: memref<1000xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %a = memref.load %x[%i] : memref<1000xf32>
    %b = arith.mulf %a, %a : f32
    "bascule.store"(%b, %o, %i) : (f32, memref<1000xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (1000)>, schedule = #bascule.schedule<{target = "cpu", loops = [], domain = {
      groups = [array<i64: 0>], vector = -1 : i64, lanes = 1 : i64,
      blocked = 0 : i64, block = 10 : i64, serial = array<i64>, grain = 1000 : i64}}>} : () -> ()
  return
}

// -----

// The same kernel, four lanes.
// CHECK-LABEL: func.func private @k__part0
// CHECK:         arith.mulf %{{.*}} : vector<4xf32>
func.func private @k(%x: memref<1000xf32>, %o: memref<1000xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %a = memref.load %x[%i] : memref<1000xf32>
    %b = arith.mulf %a, %a : f32
    "bascule.store"(%b, %o, %i) : (f32, memref<1000xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (1000)>, schedule = #bascule.schedule<{target = "cpu", loops = [], domain = {
      groups = [array<i64: 0>], vector = 0 : i64, lanes = 4 : i64,
      blocked = 0 : i64, block = 100 : i64, serial = array<i64>, grain = 1000 : i64}}>} : () -> ()
  return
}

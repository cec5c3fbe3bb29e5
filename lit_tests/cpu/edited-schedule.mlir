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

// -----

// Rows of 256 bytes: each vector of 32 asks for two lines, 1024 bytes further on. What all rows read again is not asked for.
// CHECK-LABEL: func.func private @k__part0
// CHECK:         %[[AHEAD:.*]] = arith.constant 256 : index
// CHECK:         %[[NEXT:.*]] = arith.constant 272 : index
// CHECK:         scf.for
// CHECK:           vector.load %[[X:[a-z0-9_]+]]{{\[}}%[[AT:[a-z0-9_]+]]{{\]}} {{.*}}vector<32xf32>
// CHECK:           %[[LINE:.*]] = arith.addi %[[AT]], %[[AHEAD]]
// CHECK:           memref.prefetch %[[X]]{{\[}}%[[LINE]]{{\]}}, read, locality<3>, data
// CHECK:           %[[SECOND:.*]] = arith.addi %[[AT]], %[[NEXT]]
// CHECK:           memref.prefetch %[[X]]{{\[}}%[[SECOND]]{{\]}}, read, locality<3>, data
// CHECK-NOT:       memref.prefetch
// CHECK:         return
func.func private @k(%x: memref<100x64xf32>, %w: memref<64xf32>, %o: memref<100xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %s = "bascule.reduce"() ({
    ^bb0(%k: index):
      %a = memref.load %x[%i, %k] : memref<100x64xf32>
      %b = memref.load %w[%k] : memref<64xf32>
      %c = arith.mulf %a, %b : f32
      "bascule.yield"(%c) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (64)>} : () -> f32
    "bascule.store"(%s, %o, %i) : (f32, memref<100xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (100)>, schedule = #bascule.schedule<{target = "cpu", domain = {
      groups = [array<i64: 0>], vector = -1 : i64, lanes = 1 : i64,
      blocked = -1 : i64, block = 1 : i64, serial = array<i64>, grain = 1000 : i64},
      loops = [{groups = [array<i64: 0>], vector = 0 : i64, lanes = 32 : i64, prefetch = 1024 : i64}]}>} : () -> ()
  return
}

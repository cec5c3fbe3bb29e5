// RUN: bascule-opt %s --load-pass=bascule.lowering.cpu.kernels_to_cpu:KernelsToCpu --pass-pipeline='builtin.module(schedule-kernels{vector-bits=512},kernels-to-cpu{vector-bits=512})' --split-input-file | filecheck %s

// A pointwise kernel: whole vectors, then what is left of a row under a mask; one tile a block of the domain.
// CHECK-LABEL: func.func private @scale__part0
// CHECK:         scf.for
// CHECK:           %[[V:.*]] = vector.load %{{.*}} : memref<?xf32>, vector<[[W:[0-9]+]]xf32>
// CHECK:           %[[P:.*]] = arith.mulf %[[V]], %{{.*}} : vector<[[W]]xf32>
// CHECK:           vector.store %[[P]]
// CHECK:         vector.maskedload
// CHECK:         vector.maskedstore
// CHECK-LABEL: func.func @_mlir_scale
// CHECK:         call @GOMP_parallel
func.func private @scale(%x: memref<1000xf32>, %o: memref<1000xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %two = arith.constant 2.0 : f32
    %a = memref.load %x[%i] : memref<1000xf32>
    %b = arith.mulf %a, %two : f32
    "bascule.store"(%b, %o, %i) : (f32, memref<1000xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (1000)>} : () -> ()
  return
}

// -----

// Rows: lanes run along the reduction, several accumulators at once, folded at the end. No mask: 64 divides the row.
// CHECK-LABEL: func.func private @row_sums__part0
// CHECK-NOT:     maskedload
// CHECK:         scf.for {{.*}} iter_args(%{{.*}}) -> (vector<64xf32>)
// CHECK:           vector.load
// CHECK:           arith.addf {{.*}} : vector<64xf32>
// CHECK:         vector.shuffle
// CHECK:         vector.extract
// CHECK:         memref.store
func.func private @row_sums(%x: memref<30x640xf32>, %o: memref<30xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %s = "bascule.reduce"() ({
    ^bb0(%k: index):
      %a = memref.load %x[%i, %k] : memref<30x640xf32>
      "bascule.yield"(%a) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (640)>} : () -> f32
    "bascule.store"(%s, %o, %i) : (f32, memref<30xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (30)>} : () -> ()
  return
}

// -----

// Columns: lanes are points of the domain, the reduction is a plain loop over vectors.
// CHECK-LABEL: func.func private @column_sums__part0
// CHECK:         scf.for {{.*}} iter_args(%{{.*}}) -> (vector<128xf32>)
// CHECK:           vector.load
// CHECK-NOT:     vector.shuffle
// CHECK:         vector.store
func.func private @column_sums(%x: memref<30x640xf32>, %o: memref<640xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %s = "bascule.reduce"() ({
    ^bb0(%k: index):
      %a = memref.load %x[%k, %i] : memref<30x640xf32>
      "bascule.yield"(%a) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (30)>} : () -> f32
    "bascule.store"(%s, %o, %i) : (f32, memref<640xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (640)>} : () -> ()
  return
}

// -----

// A transposed read: tiles go through registers, no gather.
// CHECK-LABEL: func.func private @transpose__part0
// CHECK-NOT:     vector.gather
// CHECK:         vector.shuffle
// CHECK:         vector.store
// CHECK-NOT:     vector.gather
// CHECK:         return
func.func private @transpose(%x: memref<64x128xf32, affine_map<(d0, d1) -> (d0 + d1 * 64)>>, %o: memref<64x128xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index, %j: index):
    %a = memref.load %x[%i, %j] : memref<64x128xf32, affine_map<(d0, d1) -> (d0 + d1 * 64)>>
    "bascule.store"(%a, %o, %i, %j) : (f32, memref<64x128xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (64, 128)>} : () -> ()
  return
}

// -----

// A large reduction at a single point is shared among threads: tiles of partial sums, then one thread puts them together.
// CHECK-LABEL: func.func private @total__part0
// CHECK:         llvm.store
// CHECK-LABEL: func.func private @total__part1
// CHECK:         scf.for
// CHECK:           llvm.load
// CHECK:           arith.addf {{.*}} : f32
// CHECK:         memref.store
func.func private @total(%x: memref<100000xf32>, %o: memref<f32>) {
  "bascule.kernel"() ({
    %s = "bascule.reduce"() ({
    ^bb0(%k: index):
      %a = memref.load %x[%k] : memref<100000xf32>
      "bascule.yield"(%a) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (100000)>} : () -> f32
    "bascule.store"(%s, %o) : (f32, memref<f32>) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> ()>} : () -> ()
  return
}

// -----

// Lanes that lie one before the other are loaded in the order of memory and turned around. No gather.
// CHECK-LABEL: func.func private @turned__part0
// CHECK-NOT:     vector.gather
// CHECK:         %[[V:.*]] = vector.load %{{.*}} : memref<?xf32>, vector<[[W:[0-9]+]]xf32>
// CHECK:         %[[T:.*]] = vector.shuffle %[[V]], %[[V]]
// CHECK:         vector.store %[[T]]
func.func private @turned(%x: memref<30x640xf32>, %o: memref<30x640xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index, %j: index):
    %b = affine.apply affine_map<(d0) -> (639 - d0)>(%j)
    %a = memref.load %x[%i, %b] : memref<30x640xf32>
    "bascule.store"(%a, %o, %i, %j) : (f32, memref<30x640xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (30, 640)>} : () -> ()
  return
}

// -----

// A quotient and its remainder whose steps make what was divided are that: neighbours are loaded together. (The quotient that is left
// over is nobody's.)
// CHECK-LABEL: func.func private @together__part0
// CHECK-NOT:     vector.gather
// CHECK:         vector.load %{{.*}} : memref<?xf32>, vector<64xf32>
// CHECK:         arith.addf {{.*}} : vector<64xf32>
func.func private @together(%x: memref<30x20x32xf32>, %o: memref<30xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %s = "bascule.reduce"() ({
    ^bb0(%k: index):
      %q = affine.apply affine_map<(d0) -> (d0 floordiv 32)>(%k)
      %r = affine.apply affine_map<(d0) -> (d0 mod 32)>(%k)
      %a = memref.load %x[%i, %q, %r] : memref<30x20x32xf32>
      "bascule.yield"(%a) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (640)>} : () -> f32
    "bascule.store"(%s, %o, %i) : (f32, memref<30xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (30)>} : () -> ()
  return
}

// -----

// Lanes that lie anywhere: what gathers them in one instruction is slower than reading one by one, and LLVM is told not to make it of that.
// CHECK-LABEL: func.func private @anywhere__part0
// CHECK-SAME:    llvm.passthrough = ["noimplicitfloat"]
// CHECK-NOT:     vector.gather
// CHECK:         %[[LANE:.*]] = vector.extract %{{.*}}[0] : index from vector<[[W:[0-9]+]]xindex>
// CHECK:         memref.load %{{.*}}[%[[LANE]]] : memref<?xf32>
// CHECK:         vector.from_elements {{.*}} : vector<[[W]]xf32>
// CHECK-NOT:     vector.gather
// CHECK:         return
func.func private @anywhere(%x: memref<500xf32>, %at: memref<640xi64>, %o: memref<640xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %n = memref.load %at[%i] : memref<640xi64>
    %p = arith.index_cast %n : i64 to index
    %a = memref.load %x[%p] : memref<500xf32>
    "bascule.store"(%a, %o, %i) : (f32, memref<640xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (640)>} : () -> ()
  return
}

// -----

// Every other element, and the last vector under a mask: runs are loaded, those elements that are for a lane in force.
// CHECK-LABEL: func.func private @every_other__part0
// CHECK-NOT:     vector.gather
// CHECK:         %[[A:.*]] = vector.load %{{.*}} : memref<?xf32>, vector<[[W:[0-9]+]]xf32>
// CHECK:         %[[B:.*]] = vector.load %{{.*}} : memref<?xf32>, vector<[[W]]xf32>
// CHECK:         vector.shuffle %[[A]], %[[B]]
// CHECK:         vector.maskedload %{{.*}} : memref<?xf32>, vector<[[W]]xi1>, vector<[[W]]xf32> into vector<[[W]]xf32>
// CHECK-NOT:     vector.gather
// CHECK:         vector.maskedstore
func.func private @every_other(%x: memref<30x1001xf32>, %o: memref<30x501xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index, %j: index):
    %k = affine.apply affine_map<(d0) -> (d0 * 2)>(%j)
    %a = memref.load %x[%i, %k] : memref<30x1001xf32>
    "bascule.store"(%a, %o, %i, %j) : (f32, memref<30x501xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (30, 501)>} : () -> ()
  return
}

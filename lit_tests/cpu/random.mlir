// RUN: bascule-opt %s --load-pass=bascule.lowering.cpu.kernels_to_cpu:KernelsToCpu --pass-pipeline='builtin.module(schedule-kernels{vector-bits=512},kernels-to-cpu{vector-bits=512})' --split-input-file | filecheck %s

// Four neighbours share a counter: the words of a quarter as many counters as lanes are shuffled into place.
// CHECK-LABEL: func.func private @neighbours__part0
// CHECK:         arith.muli %{{.*}} : vector<8xi64>
// CHECK:         %[[WORDS:.*]] = vector.shuffle %{{.*}}, %{{.*}} [0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15] : vector<8xi64>, vector<8xi64>
// CHECK:         vector.bitcast %[[WORDS]] : vector<16xi64> to vector<32xi32>
func.func private @neighbours(%seed: memref<i64>, %out: memref<1024xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %s = memref.load %seed[] : memref<i64>
    %r = "bascule.random"(%s, %i) {distribution = "uniform"} : (i64, index) -> f32
    "bascule.store"(%r, %out, %i) : (f32, memref<1024xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (1024)>} : () -> ()
  return
}

// -----

// Every second position: each lane computes a counter, and takes its word.
// CHECK-LABEL: func.func private @every_second__part0
// CHECK:         arith.muli %{{.*}} : vector<32xi64>
// CHECK:         arith.select %{{.*}} : vector<32xi1>, vector<32xi64>
// CHECK-NOT:     vector.bitcast
func.func private @every_second(%seed: memref<i64>, %out: memref<1024xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %s = memref.load %seed[] : memref<i64>
    %at = affine.apply affine_map<(d0) -> (d0 * 2)>(%i)
    %r = "bascule.random"(%s, %at) {distribution = "uniform"} : (i64, index) -> f32
    "bascule.store"(%r, %out, %i) : (f32, memref<1024xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (1024)>} : () -> ()
  return
}

// An index that is clamped, and marked, is asserted to be what it was; in 64 bits too, and not where there is no point.
// RUN: bascule-opt %s --schedule-kernels=target=cuda --to-triton | filecheck %s
// RUN: bascule-opt %s --schedule-kernels=target=cuda --to-triton --emit=ptx --target=sm_90 | filecheck %s --check-prefix=PTX

// CHECK: %[[INSIDE:.*]] = arith.cmpi slt
// CHECK: %[[WIDE:.*]] = "tt.load"
// CHECK: %[[INDEX:.*]] = arith.trunci %[[WIDE]]
// CHECK: arith.maxsi %[[INDEX]]
// CHECK: %[[CLAMPED:.*]] = arith.minsi
// CHECK: %[[SAME:.*]] = arith.cmpi eq, %[[INDEX]], %[[CLAMPED]]
// CHECK: %[[BACK:.*]] = arith.extsi %[[INDEX]]
// CHECK: %[[FITS:.*]] = arith.cmpi eq, %[[BACK]], %[[WIDE]]
// CHECK: %[[BOTH:.*]] = arith.andi %[[SAME]], %[[FITS]]
// CHECK: %[[OUTSIDE:.*]] = arith.xori %[[INSIDE]]
// CHECK: %[[HOLDS:.*]] = arith.ori %[[BOTH]], %[[OUTSIDE]]
// CHECK: "tt.assert"(%[[HOLDS]]) {message = "an index is out of bounds for a dimension of 30 elements"}
// CHECK-NOT: tt.assert
// PTX: .visible .entry checked(
// PTX: call.uni __assertfail
// PTX: .visible .entry plain(
// PTX-NOT: __assertfail
func.func private @checked(%i: memref<100xi64>, %x: memref<30xf32>, %out: memref<100xf32>) {
  "bascule.kernel"() ({
  ^bb0(%k: index):
    %zero = arith.constant 0 : index
    %last = arith.constant 29 : index
    %n = memref.load %i[%k] : memref<100xi64>
    %index = arith.index_cast %n : i64 to index
    %up = arith.maxsi %index, %zero : index
    %place = arith.minsi %up, %last {bascule.checked} : index
    %e = memref.load %x[%place] : memref<30xf32>
    "bascule.store"(%e, %out, %k) : (f32, memref<100xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (100)>} : () -> ()
  return
}

func.func private @plain(%i: memref<100xi64>, %x: memref<30xf32>, %out: memref<100xf32>) {
  "bascule.kernel"() ({
  ^bb0(%k: index):
    %zero = arith.constant 0 : index
    %last = arith.constant 29 : index
    %n = memref.load %i[%k] : memref<100xi64>
    %index = arith.index_cast %n : i64 to index
    %up = arith.maxsi %index, %zero : index
    %place = arith.minsi %up, %last : index
    %e = memref.load %x[%place] : memref<30xf32>
    "bascule.store"(%e, %out, %k) : (f32, memref<100xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (100)>} : () -> ()
  return
}

// A buffer that may begin anywhere is read by pointers, whatever the schedule says; the other factor is not.
// RUN: bascule-opt %s --schedule-kernels=target=cuda --to-triton | filecheck %s

// CHECK: ^bb0({{.*}}!tt.ptr<f32>, %[[Y:.*]]: !tt.tensordesc<tensor<64x64xf16>>):
// CHECK: %[[X:.*]] = "tt.load"
// CHECK: "tt.descriptor_load"(%[[Y]],
// CHECK: "tt.dot"(%[[X]],
// CHECK: bascule.descriptors = [{{.*}}parameter = 1
func.func private @product(%x: memref<64x64xf16> {bascule.unaligned}, %y: memref<64x64xf16>, %out: memref<64x64xf32>) {
  "bascule.kernel"() ({
  ^bb0(%m: index, %n: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %a = memref.load %x[%m, %k] : memref<64x64xf16>
      %c = arith.extf %a : f16 to f32
      %d = memref.load %y[%k, %n] : memref<64x64xf16>
      %e = arith.extf %d : f16 to f32
      %f = arith.mulf %c, %e : f32
      "bascule.yield"(%f) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (64)>} : () -> f32
    "bascule.store"(%sum, %out, %m, %n) : (f32, memref<64x64xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (64, 64)>} : () -> ()
  return
}

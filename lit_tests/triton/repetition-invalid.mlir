// RUN: not bascule-opt %s --schedule-kernels=target=cuda --to-triton 2>&1 | filecheck %s

// CHECK: :11:14: error: a loop of an index: no Triton lowering yet
func.func private @k(%x: memref<100xf32>, %out: memref<100xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %limit = arith.constant 0.5 : f32

    %place = scf.while (%k = %zero) : (index) -> index {
      %e = memref.load %x[%k] : memref<100xf32>
      %more = arith.cmpf olt, %e, %limit : f32
      scf.condition(%more) %k : index
    } do {
    ^bb0(%k: index):
      %next = arith.addi %k, %one : index
      scf.yield %next : index
    }
    %found = memref.load %x[%place] : memref<100xf32>
    "bascule.store"(%found, %out, %i) : (f32, memref<100xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (100)>} : () -> ()
  return
}

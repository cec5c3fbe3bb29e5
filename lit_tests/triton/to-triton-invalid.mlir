// RUN: not bascule-opt %s --to-triton 2>&1 | filecheck %s

// CHECK: :7:10: error: elements of type complex<f32>: no Triton lowering yet
func.func private @k(%x: memref<100xcomplex<f32>>, %out: memref<100xcomplex<f32>>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %e = memref.load %x[%i] : memref<100xcomplex<f32>>
    "bascule.store"(%e, %out, %i) : (complex<f32>, memref<100xcomplex<f32>>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (100)>} : () -> ()
  return
}

// RUN: not bascule-opt %s --schedule-kernels=target=cuda --to-triton 2>&1 | filecheck %s
// RUN: not bascule-opt %s --to-triton 2>&1 | filecheck %s --check-prefix=NONE
// RUN: not bascule-opt %s --schedule-kernels --to-triton 2>&1 | filecheck %s --check-prefix=OTHER

// CHECK: :11:10: error: elements of type complex<f32>: no Triton lowering yet
// NONE: :9:3: error: the kernel has no schedule
// OTHER: :9:3: error: the kernel's schedule is for target 'cpu'
func.func private @k(%x: memref<100xcomplex<f32>>, %out: memref<100xcomplex<f32>>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %e = memref.load %x[%i] : memref<100xcomplex<f32>>
    "bascule.store"(%e, %out, %i) : (complex<f32>, memref<100xcomplex<f32>>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (100)>} : () -> ()
  return
}

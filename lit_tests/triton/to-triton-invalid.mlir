// RUN: not bascule-opt %s --schedule-kernels=target=cuda --to-triton 2>&1 | filecheck %s
// RUN: not bascule-opt %s --to-triton 2>&1 | filecheck %s --check-prefix=NONE
// RUN: not bascule-opt %s --schedule-kernels --to-triton 2>&1 | filecheck %s --check-prefix=OTHER

// CHECK: :11:10: error: elements of type f8E8M0FNU: no Triton lowering yet
// NONE: :9:3: error: the kernel has no schedule
// OTHER: :9:3: error: the kernel's schedule is for target 'cpu'
func.func private @k(%x: memref<100xf8E8M0FNU>, %out: memref<100xf8E8M0FNU>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %e = memref.load %x[%i] : memref<100xf8E8M0FNU>
    "bascule.store"(%e, %out, %i) : (f8E8M0FNU, memref<100xf8E8M0FNU>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (100)>} : () -> ()
  return
}

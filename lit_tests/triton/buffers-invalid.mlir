// A kernel reads and writes what its function is given: buffers that its body would choose, or make, are refused at a place by both lowerings.
// RUN: not bascule-opt %s --schedule-kernels=target=cuda --to-triton --split-input-file 2>&1 | filecheck %s
// RUN: not bascule-opt %s --schedule-kernels --kernels-to-cpu --split-input-file 2>&1 | filecheck %s

// CHECK: buffers-invalid.mlir:{{[0-9]+}}:10: error: a buffer is chosen in a kernel
func.func private @yielded(%x: memref<100xf32>, %out: memref<100xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %t = arith.constant true
    %y = scf.if %t -> (memref<100xf32>) {
      scf.yield %x : memref<100xf32>
    } else {
      scf.yield %out : memref<100xf32>
    }
    %z = arith.constant 0.0 : f32
    "bascule.store"(%z, %y, %i) : (f32, memref<100xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (100)>} : () -> ()
  return
}

// -----

// CHECK: error: {{.*}}'memref.copy'
func.func private @copied(%x: memref<100xf32>, %out: memref<100xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    memref.copy %x, %out : memref<100xf32> to memref<100xf32>
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (100)>} : () -> ()
  return
}

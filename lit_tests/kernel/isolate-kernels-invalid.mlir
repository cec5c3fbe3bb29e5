// A lowering sees arguments and destinations alone: what a kernel takes from outside else is to be repeated inside before.
// RUN: not bascule-opt %s --schedule-kernels --kernels-to-cpu 2>&1 | filecheck %s
// RUN: not bascule-opt %s --schedule-kernels=target=cuda --to-triton 2>&1 | filecheck %s
// RUN: bascule-opt %s --isolate-kernels --schedule-kernels --kernels-to-cpu | filecheck %s --check-prefix=ISOLATED
// CHECK: isolate-kernels-invalid.mlir:9:10: error: the kernel of @k takes 'arith.constant' from outside
// CHECK: hint: isolate-kernels repeats it inside
// ISOLATED: @_mlir_k
func.func private @k(%out: memref<100xf32>) {
  %cst = arith.constant 2.0 : f32
  "bascule.kernel"() ({
  ^bb0(%i: index):
    "bascule.store"(%cst, %out, %i) : (f32, memref<100xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (100)>} : () -> ()
  return
}

// RUN: bascule-opt %s --form-kernels --cse --isolate-kernels | filecheck %s
// RUN: bascule-run %s --pipeline='form-kernels,cse,isolate-kernels,schedule-kernels,order-program,bufferize-kernels,plan-memory'

// A size that the kernel computes with too: once for the destination, once inside the kernel.
// CHECK: %[[SIZE:.*]] = affine.apply
// CHECK: bufferization.alloc_tensor(%[[SIZE]])
// CHECK-NEXT: "bascule.kernel"() ({
// CHECK: %[[OWN:.*]] = affine.apply
// CHECK: arith.index_cast %[[OWN]]
#vector = #bascule.layout<affine_map<(d0) -> (d0)>>
#size = affine_map<()[s0] -> (s0 - 1)>
func.func @main(%n: index, %x: tensor<?xf32, #vector> {bascule.shape = #size}) -> tensor<?xf32, #vector>
    attributes {bascule.graph, bascule.symbols = ["s0"], bascule.shapes = [#size]} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index):
    %e = tensor.extract %x[%i] : tensor<?xf32, #vector>
    %k = affine.apply #size()[%n]
    %c = arith.index_cast %k : index to i64
    %f = arith.sitofp %c : i64 to f32
    %r = arith.mulf %e, %f : f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = #size} : () -> tensor<?xf32, #vector>
  return %0 : tensor<?xf32, #vector>
}

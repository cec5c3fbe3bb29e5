// RUN: bascule-opt %s '--pass-pipeline=builtin.module(inline-producers{target=cuda})' | filecheck %s
// RUN: bascule-opt %s '--pass-pipeline=builtin.module(inline-producers)' | filecheck %s --check-prefix=CPU
// RUN: bascule-run %s --interpret-only --pipeline='inline-producers{target=cuda}'

// The gradient of a relu, its sums over the rows, and what waits for those: on a GPU two computes, each of which reads %dy and %y.
// CHECK-LABEL: func.func @gradient(
// CHECK-COUNT-2: "bascule.compute"
// CHECK-NOT: "bascule.compute"
// CHECK: return
// CPU-LABEL: func.func @gradient(
// CPU-COUNT-3: "bascule.compute"
// CPU: return
func.func @gradient(%dy: tensor<4096x256xf32>, %y: tensor<4096x256xf32>) -> tensor<4096x256xf32> attributes {bascule.graph} {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %g = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %a = tensor.extract %dy[%i, %j] : tensor<4096x256xf32>
    %b = tensor.extract %y[%i, %j] : tensor<4096x256xf32>
    %p = arith.cmpf ogt, %b, %zero : f32
    %r = arith.select %p, %a, %zero : f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (4096, 256)>} : () -> tensor<4096x256xf32>
  %s = "bascule.compute"() ({
  ^bb0(%u: index, %j: index):
    %t = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %g[%k, %j] : tensor<4096x256xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (4096)>} : () -> f32
    "bascule.yield"(%t) : (f32) -> ()
  }) {ranges = affine_map<() -> (1, 256)>} : () -> tensor<1x256xf32>
  %d = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %g[%i, %j] : tensor<4096x256xf32>
    %t = tensor.extract %s[%c0, %j] : tensor<1x256xf32>
    %r = arith.subf %e, %t : f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (4096, 256)>} : () -> tensor<4096x256xf32>
  return %d : tensor<4096x256xf32>
}

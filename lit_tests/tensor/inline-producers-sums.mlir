// RUN: bascule-opt %s '--pass-pipeline=builtin.module(inline-producers{target=cuda})' | filecheck %s
// RUN: bascule-opt %s '--pass-pipeline=builtin.module(inline-producers)' | filecheck %s --check-prefix=CPU
// RUN: bascule-run %s --function=gradient --interpret-only --pipeline='inline-producers{target=cuda}'
// RUN: bascule-run %s --function=gated --interpret-only --pipeline='inline-producers{target=cuda}'
// RUN: bascule-run %s --function=normed --interpret-only --pipeline='inline-producers{target=cuda}'

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

// A gate: the means of each image go through a call and come back to scale it. No kernel holds the means and what is scaled, so each
// reads %x; what is gated is in memory nowhere.
// CHECK-LABEL: func.func @gated(
// CHECK-NEXT: %[[MEANS:[a-z0-9]+]] = "bascule.compute"
// CHECK: math.absf
// CHECK: %[[GATE:[a-z0-9]+]] = call @gate(%[[MEANS]])
// CHECK-NEXT: "bascule.compute"
// CHECK: math.absf
// CHECK: tensor.extract %[[GATE]]
// CHECK: return
// CPU-LABEL: func.func @gated(
// CPU-COUNT-3: "bascule.compute"
// CPU: return
func.func @gated(%x: tensor<64x4096xf32>, %mean: tensor<64xf32>) -> tensor<64x4096xf32> attributes {bascule.graph} {
  %y = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %a = tensor.extract %x[%i, %j] : tensor<64x4096xf32>
    %m = tensor.extract %mean[%i] : tensor<64xf32>
    %b = arith.subf %a, %m : f32
    %c = math.absf %b : f32
    %d = arith.mulf %c, %b : f32
    %e = arith.divf %d, %a : f32
    "bascule.yield"(%e) : (f32) -> ()
  }) {ranges = affine_map<() -> (64, 4096)>} : () -> tensor<64x4096xf32>
  %s = "bascule.compute"() ({
  ^bb0(%i: index):
    %t = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %y[%i, %k] : tensor<64x4096xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (4096)>} : () -> f32
    "bascule.yield"(%t) : (f32) -> ()
  }) {ranges = affine_map<() -> (64)>} : () -> tensor<64xf32>
  %g = call @gate(%s) : (tensor<64xf32>) -> tensor<64xf32>
  %z = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %y[%i, %j] : tensor<64x4096xf32>
    %w = tensor.extract %g[%i] : tensor<64xf32>
    %r = arith.mulf %e, %w : f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (64, 4096)>} : () -> tensor<64x4096xf32>
  return %z : tensor<64x4096xf32>
}
func.func private @gate(tensor<64xf32>) -> tensor<64xf32> attributes {bascule.extern = "aten.sigmoid.default", bascule.arguments = [#bascule.operand<0>], bascule.results = array<i64: 0>, bascule.out = "aten.sigmoid.out"}

// The same without a call between.
// CHECK-LABEL: func.func @normed(
// CHECK-COUNT-3: "bascule.compute"
// CHECK: return
func.func @normed(%x: tensor<64x4096xf32>, %mean: tensor<64xf32>) -> tensor<64x4096xf32> attributes {bascule.graph} {
  %y = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %a = tensor.extract %x[%i, %j] : tensor<64x4096xf32>
    %m = tensor.extract %mean[%i] : tensor<64xf32>
    %b = arith.subf %a, %m : f32
    %c = math.absf %b : f32
    %d = arith.mulf %c, %b : f32
    %e = arith.divf %d, %a : f32
    "bascule.yield"(%e) : (f32) -> ()
  }) {ranges = affine_map<() -> (64, 4096)>} : () -> tensor<64x4096xf32>
  %s = "bascule.compute"() ({
  ^bb0(%i: index):
    %t = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %y[%i, %k] : tensor<64x4096xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (4096)>} : () -> f32
    "bascule.yield"(%t) : (f32) -> ()
  }) {ranges = affine_map<() -> (64)>} : () -> tensor<64xf32>
  %z = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %y[%i, %j] : tensor<64x4096xf32>
    %w = tensor.extract %s[%i] : tensor<64xf32>
    %r = arith.mulf %e, %w : f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (64, 4096)>} : () -> tensor<64x4096xf32>
  return %z : tensor<64x4096xf32>
}

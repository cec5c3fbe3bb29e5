// RUN: bascule-opt %s --expand-convolutions=target=cuda | filecheck %s
// RUN: bascule-opt %s --expand-convolutions | filecheck %s --check-prefix=CPU
// RUN: bascule-run %s --interpret-only --pipeline='expand-convolutions{target=cuda}'

#last = #bascule.layout<affine_map<(d0, d1, d2, d3) -> (d0 * 120 + d1 + d2 * 20 + d3 * 4)>>

func.func private @aten.convolution(tensor<2x4x6x5xf16, #last>, tensor<4x1x3x3xf16>) -> tensor<2x4x6x5xf16, #last> attributes {bascule.extern = "aten.convolution.default", bascule.arguments = [#bascule.operand<0>, #bascule.operand<1>, unit, [1, 1], [1, 1], [1, 1], false, [0, 0], 4], bascule.results = array<i64: 0>}
func.func private @aten.convolution_1(tensor<2x4x6x5xf16, #last>, tensor<4x2x3x3xf16>) -> tensor<2x4x6x5xf16, #last> attributes {bascule.extern = "aten.convolution.default", bascule.arguments = [#bascule.operand<0>, #bascule.operand<1>, unit, [1, 1], [1, 1], [1, 1], false, [0, 0], 2], bascule.results = array<i64: 0>}
func.func private @aten.convolution_2(tensor<2x4x6x5xf32>, tensor<4x1x3x3xf32>) -> tensor<2x4x3x3xf32> attributes {bascule.extern = "aten.convolution.default", bascule.arguments = [#bascule.operand<0>, #bascule.operand<1>, unit, [2, 2], [1, 1], [1, 1], false, [0, 0], 4], bascule.results = array<i64: 0>}
func.func private @aten.convolution_backward(tensor<2x4x6x5xf16, #last>, tensor<2x4x6x5xf16, #last>, tensor<4x1x3x3xf16>) -> (tensor<2x4x6x5xf16, #last>, tensor<4x1x3x3xf16>, tensor<4xf16>) attributes {bascule.extern = "aten.convolution_backward.default", bascule.arguments = [#bascule.operand<0>, #bascule.operand<1>, #bascule.operand<2>, [4], [1, 1], [1, 1], [1, 1], false, [0, 0], 4, [true, true, true]], bascule.results = array<i64: 0, 1, 2>}

// CPU-NOT: bascule.compute
// CPU-COUNT-4: call @aten

// CHECK-NOT: func.func private @aten.convolution(
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<2x4x6x5xf16, #last>, %w: tensor<4x1x3x3xf16>, %v: tensor<4x2x3x3xf16>, %p: tensor<2x4x6x5xf32>, %q: tensor<4x1x3x3xf32>) -> (tensor<2x4x6x5xf16, #last>, tensor<2x4x6x5xf16, #last>, tensor<2x4x3x3xf32>, tensor<2x4x6x5xf16, #last>, tensor<4x1x3x3xf16>, tensor<4xf16>) attributes {bascule.graph} {
  // The weight is copied so that its channels are neighbours, as those of the image. The border is read as 0; sums are in f32, rounded once.
  // CHECK: %[[W:.*]] = "bascule.compute"
  // CHECK: {bascule.stored
  // CHECK: %[[Y:.*]] = "bascule.compute"
  // CHECK: "bascule.reduce"
  // CHECK: scf.if
  // CHECK: tensor.extract
  // CHECK: arith.constant 0.000000e+00 : f16
  // CHECK: tensor.extract %[[W]]
  // CHECK: arith.mulf {{.*}} : f32
  // CHECK: kind = "sum"
  // CHECK: arith.truncf
  // CHECK: bascule.remarks = [{{.*}}decision = "expanded", kind = "passed", op = "func.call", pass = "expand-convolutions", reason = "windows of 3x3"}]
  %0 = call @aten.convolution(%x, %w) : (tensor<2x4x6x5xf16, #last>, tensor<4x1x3x3xf16>) -> tensor<2x4x6x5xf16, #last>
  // Groups of several channels are products.
  // CHECK: call @aten.convolution_1
  // CHECK-NOT: bascule.remarks
  %1 = call @aten.convolution_1(%x, %v) : (tensor<2x4x6x5xf16, #last>, tensor<4x2x3x3xf16>) -> tensor<2x4x6x5xf16, #last>
  // CHECK: call @aten.convolution_2
  // CHECK-SAME: bascule.remarks = [{{.*}}decision = "of one channel a group stays a call", kind = "missed", op = "func.call", pass = "expand-convolutions", reason = "memory does not run along its channels, and it has a stride"}]
  %2 = call @aten.convolution_2(%p, %q) : (tensor<2x4x6x5xf32>, tensor<4x1x3x3xf32>) -> tensor<2x4x3x3xf32>
  // Three gradients: windows that an element lies in, sums over batch and places, sums of the result's.
  // CHECK: bascule.stored
  // CHECK-COUNT-3: "bascule.reduce"
  // CHECK-NOT: call @
  %3:3 = call @aten.convolution_backward(%0, %x, %w) : (tensor<2x4x6x5xf16, #last>, tensor<2x4x6x5xf16, #last>, tensor<4x1x3x3xf16>) -> (tensor<2x4x6x5xf16, #last>, tensor<4x1x3x3xf16>, tensor<4xf16>)
  return %0, %1, %2, %3#0, %3#1, %3#2 : tensor<2x4x6x5xf16, #last>, tensor<2x4x6x5xf16, #last>, tensor<2x4x3x3xf32>, tensor<2x4x6x5xf16, #last>, tensor<4x1x3x3xf16>, tensor<4xf16>
}

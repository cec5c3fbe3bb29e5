// RUN: bascule-opt %s --order-program | filecheck %s
// RUN: bascule-opt %s --order-program=gain=90 | filecheck %s --check-prefix=KEPT
// RUN: bascule-opt %s --order-program=target=cuda | filecheck %s --check-prefix=GPU
// RUN: bascule-run %s --interpret-only --pipeline=order-program

func.func private @aten.sum(tensor<64x64xf32>) -> tensor<f32> attributes {bascule.extern = "aten.sum.default", bascule.arguments = [#bascule.operand<0>], bascule.results = array<i64: 0>}
func.func private @aten.sin(tensor<64x64xf32>) -> tensor<64x64xf32> attributes {bascule.extern = "aten.sin.default", bascule.arguments = [#bascule.operand<0>], bascule.results = array<i64: 0>}
func.func private @aten.add(tensor<f32>, tensor<f32>) -> tensor<f32> attributes {bascule.extern = "aten.add.Tensor", bascule.arguments = [#bascule.operand<0>, #bascule.operand<1>], bascule.results = array<i64: 0>}

// Each large value is used before the next one is made.
// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[X:.*]]: tensor<64x64xf32>, %[[Y:.*]]: tensor<64x64xf32>, %[[Z:.*]]: tensor<64x64xf32>)
// CHECK-NEXT: %[[A:.*]] = call @aten.sin(%[[X]])
// CHECK-NEXT: call @aten.sum(%[[A]])
// CHECK-NEXT: %[[B:.*]] = call @aten.sin(%[[Y]])
// CHECK-NEXT: call @aten.sum(%[[B]])
// An argument is written when nothing is left that reads its old contents.
// CHECK: %[[C:.*]] = call @aten.sin(%[[Z]])
// CHECK-NEXT: call @aten.sum(%[[C]])
// CHECK: copy_into
// KEPT-LABEL: func.func @main
// KEPT-NEXT: call @aten.sin
// KEPT-NEXT: call @aten.sin
// KEPT-NEXT: call @aten.sin
func.func @main(%x: tensor<64x64xf32>, %y: tensor<64x64xf32>, %z: tensor<64x64xf32>) -> tensor<f32> attributes {bascule.graph} {
  %a = call @aten.sin(%x) : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %b = call @aten.sin(%y) : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %c = call @aten.sin(%z) : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %0 = call @aten.sum(%a) : (tensor<64x64xf32>) -> tensor<f32>
  %1 = call @aten.sum(%b) : (tensor<64x64xf32>) -> tensor<f32>
  %2 = call @aten.sum(%c) : (tensor<64x64xf32>) -> tensor<f32>
  %3 = call @aten.add(%0, %1) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %4 = call @aten.add(%3, %2) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  "bascule.copy_into"(%x, %z) : (tensor<64x64xf32>, tensor<64x64xf32>) -> ()
  return %4 : tensor<f32>
}

func.func private @resize(tensor<64x64xf32>) attributes {bascule.extern = "inductor.resize_storage_bytes_.default", bascule.arguments = [#bascule.operand<0>, 0 : i64], bascule.results = array<i64>, bascule.effects}

// Nor is an argument given back before.
// CHECK-LABEL: func.func @freed
// CHECK: call @aten.sin
// CHECK-NEXT: call @aten.sum
// CHECK-NEXT: call @aten.sin
// CHECK-NEXT: call @aten.sum
// CHECK: call @resize
func.func @freed(%x: tensor<64x64xf32>, %y: tensor<64x64xf32>) -> tensor<f32> attributes {bascule.graph} {
  %a = call @aten.sin(%x) : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %b = call @aten.sin(%y) : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %0 = call @aten.sum(%a) : (tensor<64x64xf32>) -> tensor<f32>
  %1 = call @aten.sum(%b) : (tensor<64x64xf32>) -> tensor<f32>
  %2 = call @aten.add(%0, %1) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  call @resize(%y) : (tensor<64x64xf32>) -> ()
  return %2 : tensor<f32>
}

func.func private @aten.exp(tensor<4x8x32x32xf32>) -> tensor<4x8x32x32xf32> attributes {bascule.extern = "aten.exp.default", bascule.arguments = [#bascule.operand<0>], bascule.results = array<i64: 0>}
func.func private @aten.convolution(tensor<1x8x32x32xf32>, tensor<8x8x1x1xf32>) -> tensor<1x8x32x32xf32> attributes {bascule.extern = "aten.convolution.default", bascule.arguments = [#bascule.operand<0>, #bascule.operand<1>, unit, [1, 1], [0, 0], [1, 1], false, [0, 0], 1], bascule.results = array<i64: 0>}

// A convolution on a CPU takes memory while it runs: it comes before what stays. Of a GPU nothing is known.
// CHECK-LABEL: func.func @workspace
// CHECK: call @aten.convolution
// CHECK: call @aten.exp
// GPU-LABEL: func.func @workspace
// GPU: call @aten.exp
// GPU: call @aten.convolution
func.func @workspace(%x: tensor<4x8x32x32xf32>, %y: tensor<1x8x32x32xf32>, %w: tensor<8x8x1x1xf32>) -> (tensor<4x8x32x32xf32>, tensor<1x8x32x32xf32>) attributes {bascule.graph} {
  %0 = call @aten.exp(%x) : (tensor<4x8x32x32xf32>) -> tensor<4x8x32x32xf32>
  %1 = call @aten.convolution(%y, %w) : (tensor<1x8x32x32xf32>, tensor<8x8x1x1xf32>) -> tensor<1x8x32x32xf32>
  return %0, %1 : tensor<4x8x32x32xf32>, tensor<1x8x32x32xf32>
}

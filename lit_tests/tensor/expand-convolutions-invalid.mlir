// Steps that PyTorch refuses are left to it.
// RUN: bascule-opt %s --expand-convolutions=target=cuda | filecheck %s
// CHECK-NOT: bascule.compute
// CHECK: call @padded
// CHECK: call @stepped
// CHECK: call @dilated
func.func private @padded(tensor<2x4x6x5xf32>, tensor<4x1x3x3xf32>) -> tensor<2x4x2x1xf32> attributes {bascule.extern = "aten.convolution.default", bascule.arguments = [#bascule.operand<0>, #bascule.operand<1>, unit, [1, 1], [-1, -1], [1, 1], false, [0, 0], 4], bascule.results = array<i64: 0>}
func.func private @stepped(tensor<2x4x6x5xf32>, tensor<4x1x3x3xf32>) -> tensor<2x4x4x3xf32> attributes {bascule.extern = "aten.convolution.default", bascule.arguments = [#bascule.operand<0>, #bascule.operand<1>, unit, [0, 0], [0, 0], [1, 1], false, [0, 0], 4], bascule.results = array<i64: 0>}
func.func private @dilated(tensor<2x4x6x5xf32>, tensor<4x1x3x3xf32>) -> tensor<2x4x6x5xf32> attributes {bascule.extern = "aten.convolution.default", bascule.arguments = [#bascule.operand<0>, #bascule.operand<1>, unit, [1, 1], [0, 0], [0, 0], false, [0, 0], 4], bascule.results = array<i64: 0>}
func.func @main(%x: tensor<2x4x6x5xf32>, %w: tensor<4x1x3x3xf32>) -> (tensor<2x4x2x1xf32>, tensor<2x4x4x3xf32>, tensor<2x4x6x5xf32>) attributes {bascule.graph} {
  %0 = call @padded(%x, %w) : (tensor<2x4x6x5xf32>, tensor<4x1x3x3xf32>) -> tensor<2x4x2x1xf32>
  %1 = call @stepped(%x, %w) : (tensor<2x4x6x5xf32>, tensor<4x1x3x3xf32>) -> tensor<2x4x4x3xf32>
  %2 = call @dilated(%x, %w) : (tensor<2x4x6x5xf32>, tensor<4x1x3x3xf32>) -> tensor<2x4x6x5xf32>
  return %0, %1, %2 : tensor<2x4x2x1xf32>, tensor<2x4x4x3xf32>, tensor<2x4x6x5xf32>
}

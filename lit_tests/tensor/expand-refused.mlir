// What its operator refuses is left to it: products and convolutions of sizes that do not fit.
// RUN: bascule-opt %s --expand-products='target=cuda rows=1' --expand-convolutions=target=cuda --split-input-file | filecheck %s
// CHECK-LABEL: func.func @rows
// CHECK: call @aten.mm
func.func private @aten.mm(tensor<1x64xbf16>, tensor<64x32xbf16>) -> tensor<2x32xbf16> attributes {bascule.extern = "aten.mm.default", bascule.arguments = [#bascule.operand<0>, #bascule.operand<1>], bascule.results = array<i64: 0>}
func.func @rows(%x: tensor<1x64xbf16>, %y: tensor<64x32xbf16>) -> tensor<2x32xbf16> attributes {bascule.graph} {
  %0 = call @aten.mm(%x, %y) : (tensor<1x64xbf16>, tensor<64x32xbf16>) -> tensor<2x32xbf16>
  return %0 : tensor<2x32xbf16>
}

// -----

// CHECK-LABEL: func.func @rank
// CHECK: call @conv
func.func private @conv(tensor<2x4x6x5xf32>, tensor<4x1x3x3xf32>) -> tensor<2x4x4xf32> attributes {bascule.extern = "aten.convolution.default", bascule.arguments = [#bascule.operand<0>, #bascule.operand<1>, unit, [1, 1], [0, 0], [1, 1], false, [0, 0], 4], bascule.results = array<i64: 0>}
func.func @rank(%x: tensor<2x4x6x5xf32>, %w: tensor<4x1x3x3xf32>) -> tensor<2x4x4xf32> attributes {bascule.graph} {
  %0 = call @conv(%x, %w) : (tensor<2x4x6x5xf32>, tensor<4x1x3x3xf32>) -> tensor<2x4x4xf32>
  return %0 : tensor<2x4x4xf32>
}

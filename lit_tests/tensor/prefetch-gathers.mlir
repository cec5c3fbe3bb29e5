// RUN: bascule-opt %s --prefetch-gathers | filecheck %s
// RUN: bascule-opt %s --prefetch-gathers=ahead=0 | filecheck %s --check-prefix=KEPT

#operand = #bascule.operand<0>
func.func private @scatter(tensor<8x8xf32>) -> tensor<4x8xf32> attributes {bascule.extern = "_c10d_functional.reduce_scatter_tensor.default", bascule.arguments = [#operand, "sum", 2, "0"], bascule.results = array<i64: 0>, bascule.effects, bascule.begins}
func.func private @wait_scatter(tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> attributes {bascule.extern = "_c10d_functional.wait_tensor.default", bascule.arguments = [#operand], bascule.results = array<i64: 0>, bascule.effects}
func.func private @gather(tensor<4x8xf32>) -> tensor<8x8xf32> attributes {bascule.extern = "_c10d_functional.all_gather_into_tensor.default", bascule.arguments = [#operand, 2, "0"], bascule.results = array<i64: 0>, bascule.effects, bascule.begins}
func.func private @wait(tensor<8x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32> attributes {bascule.extern = "_c10d_functional.wait_tensor.default", bascule.arguments = [#operand], bascule.results = array<i64: 0>, bascule.effects}
func.func private @sin(tensor<8x8xf32>) -> tensor<8x8xf32> attributes {bascule.extern = "aten.sin.default", bascule.arguments = [#operand], bascule.results = array<i64: 0>}
func.func private @narrow(tensor<4x8xf64>) -> tensor<4x8xf32> attributes {bascule.extern = "aten._to_copy.default", bascule.arguments = [#operand, 6, unit, unit, unit, unit, unit], bascule.results = array<i64: 0>}

// The gather of the next layer, and the cast that it needs, come before the scatter that waits for this layer's gradient.
// CHECK-LABEL: func.func @backward
// CHECK: call @gather(%arg0)
// CHECK: %[[N:.*]] = call @narrow(%arg1)
// CHECK: %[[G:.*]] = call @gather(%[[N]])
// CHECK: call @scatter
// CHECK: call @wait(%[[G]], %[[N]])
// KEPT-LABEL: func.func @backward
// KEPT: call @scatter
// KEPT: call @narrow
// KEPT: call @gather
func.func @backward(%x: tensor<4x8xf32>, %y: tensor<4x8xf64>) -> (tensor<4x8xf32>, tensor<8x8xf32>) attributes {bascule.graph} {
  %0 = call @gather(%x) : (tensor<4x8xf32>) -> tensor<8x8xf32>
  %1 = call @wait(%0, %x) : (tensor<8x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %2 = call @sin(%1) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = call @scatter(%2) : (tensor<8x8xf32>) -> tensor<4x8xf32>
  %4 = call @wait_scatter(%3, %2) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %5 = call @narrow(%y) : (tensor<4x8xf64>) -> tensor<4x8xf32>
  %6 = call @gather(%5) : (tensor<4x8xf32>) -> tensor<8x8xf32>
  %7 = call @wait(%6, %5) : (tensor<8x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  return %4, %7 : tensor<4x8xf32>, tensor<8x8xf32>
}

// A gather of what a collective made stays.
// CHECK-LABEL: func.func @needed
// CHECK: call @scatter
// CHECK: call @scatter
// CHECK: call @gather
func.func @needed(%x: tensor<8x8xf32>, %y: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<4x8xf32>) attributes {bascule.graph} {
  %0 = call @scatter(%x) : (tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = call @wait_scatter(%0, %x) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %2 = call @scatter(%y) : (tensor<8x8xf32>) -> tensor<4x8xf32>
  %3 = call @wait_scatter(%2, %y) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %4 = call @gather(%1) : (tensor<4x8xf32>) -> tensor<8x8xf32>
  %5 = call @wait(%4, %1) : (tensor<8x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  return %5, %3 : tensor<8x8xf32>, tensor<4x8xf32>
}

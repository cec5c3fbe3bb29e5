// RUN: bascule-opt %s --delay-weight-gradients | filecheck %s

#operand = #bascule.operand<0>
#second = #bascule.operand<1>
func.func private @scatter(tensor<64x64xf32>) -> tensor<16x64xf32> attributes {bascule.extern = "_c10d_functional.reduce_scatter_tensor.default", bascule.arguments = [#operand, "sum", 4, "0"], bascule.results = array<i64: 0>, bascule.effects, bascule.begins}
func.func private @wait(tensor<16x64xf32>, tensor<64x64xf32>) -> tensor<16x64xf32> attributes {bascule.extern = "_c10d_functional.wait_tensor.default", bascule.arguments = [#operand], bascule.results = array<i64: 0>, bascule.effects}
func.func private @scatter_large(tensor<256x64xf32>) -> tensor<64x64xf32> attributes {bascule.extern = "_c10d_functional.reduce_scatter_tensor.default", bascule.arguments = [#operand, "sum", 4, "0"], bascule.results = array<i64: 0>, bascule.effects, bascule.begins}
func.func private @wait_large(tensor<64x64xf32>, tensor<256x64xf32>) -> tensor<64x64xf32> attributes {bascule.extern = "_c10d_functional.wait_tensor.default", bascule.arguments = [#operand], bascule.results = array<i64: 0>, bascule.effects}
func.func private @mm(tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> attributes {bascule.extern = "aten.mm.default", bascule.arguments = [#operand, #second], bascule.results = array<i64: 0>}
func.func private @embed(tensor<64x64xf32>, tensor<64xi64>) -> tensor<256x64xf32> attributes {bascule.extern = "aten.embedding_dense_backward.default", bascule.arguments = [#operand, #second, 256, -1, false], bascule.results = array<i64: 0>}
func.func private @seen(tensor<64x64xf32>) -> () attributes {bascule.extern = "mylib.seen.default", bascule.arguments = [#operand], bascule.results = array<i64>, bascule.effects}

// The gradients of weights (arguments 1 and 2) are computed beside the reduction of the embedding's, which needs that of the input alone.
// CHECK-LABEL: func.func @backward
// CHECK: %[[X:.*]] = call @mm(%arg0, %arg3)
// CHECK: %[[E:.*]] = call @embed(%[[X]], %arg4)
// CHECK: call @scatter_large(%[[E]])
// CHECK: %[[W:.*]] = call @mm(%arg0, %arg1)
// CHECK: call @scatter(%[[W]])
// CHECK: %[[V:.*]] = call @mm(%[[X]], %arg2)
// CHECK: call @scatter(%[[V]])
func.func @backward(%d: tensor<64x64xf32>, %a: tensor<64x64xf32>, %b: tensor<64x64xf32>, %w: tensor<64x64xf32>, %ids: tensor<64xi64>) -> (tensor<16x64xf32>, tensor<16x64xf32>, tensor<64x64xf32>) attributes {bascule.graph} {
  %0 = call @mm(%d, %a) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = call @scatter(%0) : (tensor<64x64xf32>) -> tensor<16x64xf32>
  %2 = call @mm(%d, %w) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %3 = call @mm(%2, %b) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %4 = call @scatter(%3) : (tensor<64x64xf32>) -> tensor<16x64xf32>
  %5 = call @embed(%2, %ids) : (tensor<64x64xf32>, tensor<64xi64>) -> tensor<256x64xf32>
  %6 = call @scatter_large(%5) : (tensor<256x64xf32>) -> tensor<64x64xf32>
  %7 = call @wait(%1, %0) : (tensor<16x64xf32>, tensor<64x64xf32>) -> tensor<16x64xf32>
  %8 = call @wait(%4, %3) : (tensor<16x64xf32>, tensor<64x64xf32>) -> tensor<16x64xf32>
  %9 = call @wait_large(%6, %5) : (tensor<64x64xf32>, tensor<256x64xf32>) -> tensor<64x64xf32>
  return %7, %8, %9 : tensor<16x64xf32>, tensor<16x64xf32>, tensor<64x64xf32>
}

// Nothing passes a call that others may see, one of its size, or what it needs.
// CHECK-LABEL: func.func @kept
// CHECK: call @scatter(
// CHECK: call @seen
// CHECK: call @scatter_large
func.func @kept(%d: tensor<64x64xf32>, %a: tensor<64x64xf32>, %ids: tensor<64xi64>) -> (tensor<16x64xf32>, tensor<64x64xf32>) attributes {bascule.graph} {
  %0 = call @mm(%d, %a) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = call @scatter(%0) : (tensor<64x64xf32>) -> tensor<16x64xf32>
  call @seen(%d) : (tensor<64x64xf32>) -> ()
  %5 = call @embed(%d, %ids) : (tensor<64x64xf32>, tensor<64xi64>) -> tensor<256x64xf32>
  %6 = call @scatter_large(%5) : (tensor<256x64xf32>) -> tensor<64x64xf32>
  %7 = call @wait(%1, %0) : (tensor<16x64xf32>, tensor<64x64xf32>) -> tensor<16x64xf32>
  %9 = call @wait_large(%6, %5) : (tensor<64x64xf32>, tensor<256x64xf32>) -> tensor<64x64xf32>
  return %7, %9 : tensor<16x64xf32>, tensor<64x64xf32>
}

// CHECK-LABEL: func.func @of_one_size
// CHECK: call @mm
// CHECK: call @scatter
// CHECK: call @mm
// CHECK: call @scatter
func.func @of_one_size(%d: tensor<64x64xf32>, %a: tensor<64x64xf32>) -> (tensor<16x64xf32>, tensor<16x64xf32>) attributes {bascule.graph} {
  %0 = call @mm(%d, %a) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = call @scatter(%0) : (tensor<64x64xf32>) -> tensor<16x64xf32>
  %2 = call @mm(%a, %d) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %3 = call @scatter(%2) : (tensor<64x64xf32>) -> tensor<16x64xf32>
  %4 = call @wait(%1, %0) : (tensor<16x64xf32>, tensor<64x64xf32>) -> tensor<16x64xf32>
  %5 = call @wait(%3, %2) : (tensor<16x64xf32>, tensor<64x64xf32>) -> tensor<16x64xf32>
  return %4, %5 : tensor<16x64xf32>, tensor<16x64xf32>
}

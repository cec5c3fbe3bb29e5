// RUN: bascule-opt %s --order-program=gain=0 | filecheck %s
// RUN: bascule-opt %s --canonicalize --cse --group-launches --order-program=gain=0 | filecheck %s

// Whichever of two shards is larger, the collectives of their products come in the program's order; the products may change places.
#operand = #bascule.operand<0>
func.func private @all_reduce(tensor<8x8xf32>) -> tensor<8x8xf32> attributes {bascule.extern = "_c10d_functional.all_reduce.default", bascule.arguments = [#operand, "sum", "0"], bascule.results = array<i64: 0>, bascule.effects, bascule.begins}
func.func private @wait(tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> attributes {bascule.extern = "_c10d_functional.wait_tensor.default", bascule.arguments = [#operand], bascule.results = array<i64: 0>, bascule.effects}
func.func private @gram600(tensor<600x8xf32>) -> tensor<8x8xf32> attributes {bascule.extern = "mylib.gram.default", bascule.arguments = [#operand], bascule.results = array<i64: 0>}
func.func private @gram1400(tensor<1400x8xf32>) -> tensor<8x8xf32> attributes {bascule.extern = "mylib.gram.default", bascule.arguments = [#operand], bascule.results = array<i64: 0>}
func.func private @sin600(tensor<600x8xf32>) -> tensor<600x8xf32> attributes {bascule.extern = "aten.sin.default", bascule.arguments = [#operand], bascule.results = array<i64: 0>}
func.func private @sin1400(tensor<1400x8xf32>) -> tensor<1400x8xf32> attributes {bascule.extern = "aten.sin.default", bascule.arguments = [#operand], bascule.results = array<i64: 0>}

// CHECK-LABEL: func.func @larger_first
// CHECK: %[[P:.*]] = call @gram1400
// CHECK: %[[R:.*]] = call @all_reduce(%[[P]])
// CHECK: call @wait(%[[R]], %[[P]])
// CHECK: %[[Q:.*]] = call @gram600
// CHECK: %[[S:.*]] = call @all_reduce(%[[Q]])
// CHECK: call @wait(%[[S]], %[[Q]])
func.func @larger_first(%x: tensor<1400x8xf32>, %y: tensor<600x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) attributes {bascule.graph} {
  %0 = call @sin1400(%x) : (tensor<1400x8xf32>) -> tensor<1400x8xf32>
  %1 = call @sin600(%y) : (tensor<600x8xf32>) -> tensor<600x8xf32>
  %2 = call @gram1400(%0) : (tensor<1400x8xf32>) -> tensor<8x8xf32>
  %3 = call @all_reduce(%2) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %4 = call @wait(%3, %2) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %5 = call @gram600(%1) : (tensor<600x8xf32>) -> tensor<8x8xf32>
  %6 = call @all_reduce(%5) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %7 = call @wait(%6, %5) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %4, %7 : tensor<8x8xf32>, tensor<8x8xf32>
}

// CHECK-LABEL: func.func @larger_last
// CHECK: %[[P:.*]] = call @gram600
// CHECK: call @all_reduce(%[[P]])
// CHECK: %[[Q:.*]] = call @gram1400
// CHECK: call @all_reduce(%[[Q]])
func.func @larger_last(%x: tensor<600x8xf32>, %y: tensor<1400x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) attributes {bascule.graph} {
  %0 = call @sin600(%x) : (tensor<600x8xf32>) -> tensor<600x8xf32>
  %1 = call @sin1400(%y) : (tensor<1400x8xf32>) -> tensor<1400x8xf32>
  %2 = call @gram600(%0) : (tensor<600x8xf32>) -> tensor<8x8xf32>
  %3 = call @all_reduce(%2) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %4 = call @wait(%3, %2) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %5 = call @gram1400(%1) : (tensor<1400x8xf32>) -> tensor<8x8xf32>
  %6 = call @all_reduce(%5) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %7 = call @wait(%6, %5) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %4, %7 : tensor<8x8xf32>, tensor<8x8xf32>
}

// Two that are equal stay two, and what nothing uses stays.
// CHECK-LABEL: func.func @unused
// CHECK-COUNT-2: call @all_reduce
// CHECK: return
func.func @unused(%x: tensor<8x8xf32>) -> tensor<8x8xf32> attributes {bascule.graph} {
  %0 = call @all_reduce(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = call @wait(%0, %x) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = call @all_reduce(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = call @wait(%2, %x) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}

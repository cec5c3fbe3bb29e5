// RUN: bascule-opt %s --overlap-collectives=growth=50 | filecheck %s
// RUN: bascule-opt %s --overlap-collectives=growth=40 | filecheck %s --check-prefix=NEAR
// RUN: bascule-opt %s --overlap-collectives=growth=0 | filecheck %s --check-prefix=TIGHT

#operand = #bascule.operand<0>
#second = #bascule.operand<1>
func.func private @reduce(tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16> attributes {bascule.extern = "_c10d_functional.all_reduce.default", bascule.arguments = [#operand, "sum", "0"], bascule.results = array<i64: 0>, bascule.effects, bascule.begins}
func.func private @wait(tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16> attributes {bascule.extern = "_c10d_functional.wait_tensor.default", bascule.arguments = [#operand], bascule.results = array<i64: 0>, bascule.effects}
func.func private @mm(tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16> attributes {bascule.extern = "aten.mm.default", bascule.arguments = [#operand, #second], bascule.results = array<i64: 0>}
func.func private @gather(tensor<512x4096xbf16>) -> tensor<4096x4096xbf16> attributes {bascule.extern = "_c10d_functional.all_gather_into_tensor.default", bascule.arguments = [#operand, 8, "0"], bascule.results = array<i64: 0>, bascule.effects, bascule.begins}
func.func private @wait_gather(tensor<4096x4096xbf16>, tensor<512x4096xbf16>) -> tensor<4096x4096xbf16> attributes {bascule.extern = "_c10d_functional.wait_tensor.default", bascule.arguments = [#operand], bascule.results = array<i64: 0>, bascule.effects}

// The reduction begins as soon as its operand is there; a product that does not need it runs before the wait.
// CHECK-LABEL: func.func @tensor_parallel
// CHECK-SAME: bascule.overlap = {communication = {{.*}}, exposed = {{.*}}}
// CHECK: %[[P:.*]] = call @mm(%arg0, %arg1)
// CHECK: %[[R:.*]] = call @reduce(%[[P]])
// CHECK: call @mm(%arg1, %arg1)
// CHECK: %[[W:.*]] = call @wait(%[[R]], %[[P]])
// CHECK: call @mm(%[[W]], %arg0)
func.func @tensor_parallel(%x: tensor<4096x4096xbf16>, %y: tensor<4096x4096xbf16>) -> (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) attributes {bascule.graph} {
  %0 = call @mm(%x, %y) : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
  %1 = call @reduce(%0) : (tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
  %2 = call @wait(%1, %0) : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
  %3 = call @mm(%2, %x) : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
  %4 = call @mm(%y, %y) : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
  return %3, %4 : tensor<4096x4096xbf16>, tensor<4096x4096xbf16>
}

// The gather of the second product runs beside the first.
// NEAR-LABEL: func.func @gathers
// NEAR: %[[G:.*]] = call @gather(%arg1)
// NEAR: %[[W:.*]] = call @wait_gather(%[[G]], %arg1)
// NEAR: %[[H:.*]] = call @gather(%arg2)
// NEAR: %[[P:.*]] = call @mm(%arg0, %[[W]])
// NEAR: %[[V:.*]] = call @wait_gather(%[[H]], %arg2)
// NEAR: call @mm(%[[P]], %[[V]])
// Without more memory they stay where they are used.
// TIGHT-LABEL: func.func @gathers
// TIGHT: call @gather
// TIGHT: call @mm
// TIGHT: call @gather
// TIGHT: call @mm
// TIGHT: call @gather
// TIGHT: call @mm
func.func @gathers(%x: tensor<4096x4096xbf16>, %a: tensor<512x4096xbf16>, %b: tensor<512x4096xbf16>, %c: tensor<512x4096xbf16>) -> tensor<4096x4096xbf16> attributes {bascule.graph} {
  %0 = call @gather(%a) : (tensor<512x4096xbf16>) -> tensor<4096x4096xbf16>
  %1 = call @wait_gather(%0, %a) : (tensor<4096x4096xbf16>, tensor<512x4096xbf16>) -> tensor<4096x4096xbf16>
  %2 = call @mm(%x, %1) : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
  %3 = call @gather(%b) : (tensor<512x4096xbf16>) -> tensor<4096x4096xbf16>
  %4 = call @wait_gather(%3, %b) : (tensor<4096x4096xbf16>, tensor<512x4096xbf16>) -> tensor<4096x4096xbf16>
  %5 = call @mm(%2, %4) : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
  %6 = call @gather(%c) : (tensor<512x4096xbf16>) -> tensor<4096x4096xbf16>
  %7 = call @wait_gather(%6, %c) : (tensor<4096x4096xbf16>, tensor<512x4096xbf16>) -> tensor<4096x4096xbf16>
  %8 = call @mm(%5, %7) : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
  return %8 : tensor<4096x4096xbf16>
}

// Nothing to do where there are no collectives.
// CHECK-LABEL: func.func @alone
// CHECK-NOT: bascule.overlap
// CHECK: return
func.func @alone(%x: tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16> attributes {bascule.graph} {
  %0 = call @mm(%x, %x) : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
  return %0 : tensor<4096x4096xbf16>
}

// Nobody here needs the sum of a gradient: it is waited for when kernels have left it room, some products later.
// CHECK-LABEL: func.func @gradient
// CHECK: call @reduce
// CHECK-COUNT-6: call @mm
// CHECK-NEXT: call @wait
func.func @gradient(%x: tensor<4096x4096xbf16>, %y: tensor<4096x4096xbf16>) -> (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) attributes {bascule.graph} {
  %0 = call @mm(%x, %y) : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
  %1 = call @reduce(%0) : (tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
  %2 = call @wait(%1, %0) : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
  %3 = call @mm(%y, %x) : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
  %4 = call @mm(%3, %x) : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
  %5 = call @mm(%4, %x) : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
  %6 = call @mm(%5, %x) : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
  %7 = call @mm(%6, %x) : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
  %8 = call @mm(%7, %x) : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
  return %2, %8 : tensor<4096x4096xbf16>, tensor<4096x4096xbf16>
}

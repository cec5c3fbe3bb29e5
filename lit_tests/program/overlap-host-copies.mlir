// RUN: bascule-opt %s --overlap-host-copies | filecheck %s

#operand = #bascule.operand<0>
#second = #bascule.operand<1>
func.func private @to_host(tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16> attributes {bascule.extern = "bascule_host.to_host.default", bascule.arguments = [#operand], bascule.results = array<i64: 0>, bascule.effects, bascule.begins}
func.func private @to_device(tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16> attributes {bascule.extern = "bascule_host.to_device.default", bascule.arguments = [#operand, "cuda"], bascule.results = array<i64: 0>, bascule.effects, bascule.begins}
func.func private @wait(tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16> attributes {bascule.extern = "bascule_host.wait_tensor.default", bascule.arguments = [#operand], bascule.results = array<i64: 0>, bascule.effects}
func.func private @mm(tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16> attributes {bascule.extern = "aten.mm.default", bascule.arguments = [#operand, #second], bascule.results = array<i64: 0>}

// A copy to the host begins when there is what it copies, and is done before the product that needs all memory.
// CHECK-LABEL: func.func @forward
// CHECK-SAME: bascule.host_copies = {bytes = 33554432 : i64, exposed = {{.*}}, seconds = {{.*}}}
// CHECK: %[[X:.*]] = call @mm(%arg0, %arg1)
// CHECK: %[[H:.*]] = call @to_host(%[[X]])
// CHECK: call @mm(%[[X]], %arg1)
// CHECK: %[[W:.*]] = call @wait(%[[H]], %[[X]])
// CHECK: call @mm
// CHECK: return %[[W]]
func.func @forward(%x: tensor<4096x4096xbf16>, %y: tensor<4096x4096xbf16>) -> (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) attributes {bascule.graph} {
  %0 = call @mm(%x, %y) : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
  %1 = call @to_host(%0) : (tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
  %2 = call @wait(%1, %0) : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
  %3 = call @mm(%0, %y) : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
  %4 = call @mm(%3, %y) : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
  %5 = call @mm(%4, %y) : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
  return %2, %4, %5 : tensor<4096x4096xbf16>, tensor<4096x4096xbf16>, tensor<4096x4096xbf16>
}

// A copy back begins when there is memory for it, and is waited for right before what reads it.
// CHECK-LABEL: func.func @backward
// CHECK: call @mm(%arg1, %arg1)
// CHECK: call @mm
// CHECK: %[[D:.*]] = call @to_device(%arg0)
// CHECK: call @mm
// CHECK: %[[V:.*]] = call @wait(%[[D]], %arg0)
// CHECK: call @mm(%{{.*}}, %[[V]])
func.func @backward(%x: tensor<4096x4096xbf16>, %y: tensor<4096x4096xbf16> {bascule.dies}) -> tensor<4096x4096xbf16> attributes {bascule.graph} {
  %0 = call @to_device(%x) : (tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
  %1 = call @wait(%0, %x) : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
  %2 = call @mm(%y, %y) : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
  %3 = call @mm(%2, %y) : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
  %4 = call @mm(%3, %3) : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
  %5 = call @mm(%4, %1) : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
  return %5 : tensor<4096x4096xbf16>
}

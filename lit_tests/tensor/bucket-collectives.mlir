// RUN: bascule-opt %s --bucket-collectives | filecheck %s
// RUN: bascule-opt %s --bucket-collectives=bytes=300 | filecheck %s --check-prefix=SMALL

#operand = #bascule.operand<0>
func.func private @reduce(tensor<8x8xf32>) -> tensor<8x8xf32> attributes {bascule.extern = "_c10d_functional.all_reduce.default", bascule.arguments = [#operand, "sum", "0"], bascule.results = array<i64: 0>, bascule.effects, bascule.begins}
func.func private @reduce_of_others(tensor<8x8xf32>) -> tensor<8x8xf32> attributes {bascule.extern = "_c10d_functional.all_reduce.default", bascule.arguments = [#operand, "sum", "1"], bascule.results = array<i64: 0>, bascule.effects, bascule.begins}
func.func private @wait(tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> attributes {bascule.extern = "_c10d_functional.wait_tensor.default", bascule.arguments = [#operand], bascule.results = array<i64: 0>, bascule.effects}
func.func private @sin(tensor<8x8xf32>) -> tensor<8x8xf32> attributes {bascule.extern = "aten.sin.default", bascule.arguments = [#operand], bascule.results = array<i64: 0>}
func.func private @seen(tensor<8x8xf32>) -> () attributes {bascule.extern = "mylib.seen.default", bascule.arguments = [#operand], bascule.results = array<i64>, bascule.effects}
func.func private @check(tensor<8x8xf32>) -> () attributes {bascule.extern = "bascule.check_index.default", bascule.arguments = [#operand], bascule.results = array<i64>, bascule.effects}
func.func private @gather(tensor<4x8xf32>) -> tensor<8x8xf32> attributes {bascule.extern = "_c10d_functional.all_gather_into_tensor.default", bascule.arguments = [#operand, 2, "0"], bascule.results = array<i64: 0>, bascule.effects, bascule.begins}
func.func private @wait_gather(tensor<8x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32> attributes {bascule.extern = "_c10d_functional.wait_tensor.default", bascule.arguments = [#operand], bascule.results = array<i64: 0>, bascule.effects}

// The first waits for the operand of the second.
// CHECK-LABEL: func.func @independent
// CHECK: %[[S:.*]] = call @sin(%arg0)
// CHECK: %[[B:.*]]:2 = call @_c10d_functional.all_reduce_coalesced(%arg0, %[[S]])
// CHECK: call @wait(%[[B]]#0, %arg0)
// CHECK: call @wait(%[[B]]#1, %[[S]])
// SMALL-LABEL: func.func @independent
// SMALL-COUNT-2: call @reduce(
func.func @independent(%x: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) attributes {bascule.graph} {
  %0 = call @reduce(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = call @wait(%0, %x) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = call @sin(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = call @reduce(%2) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %4 = call @wait(%3, %2) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %1, %4 : tensor<8x8xf32>, tensor<8x8xf32>
}

// What needs the other's result stays, and so does what is of another group, and what another effect stands between.
// CHECK-LABEL: func.func @dependent
// CHECK: call @reduce(
// CHECK: call @reduce(
// CHECK: call @reduce_of_others(
// CHECK: call @seen
// CHECK: call @reduce(
func.func @dependent(%x: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) attributes {bascule.graph} {
  %0 = call @reduce(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = call @wait(%0, %x) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = call @sin(%1) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = call @reduce(%2) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %4 = call @wait(%3, %2) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %5 = call @reduce_of_others(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %6 = call @wait(%5, %x) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  call @seen(%x) : (tensor<8x8xf32>) -> ()
  %7 = call @reduce(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %8 = call @wait(%7, %x) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %4, %6, %8 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}

// Gathers of arguments begin where the first does, though a reduction that needs its result stands between.
// CHECK-LABEL: func.func @gathers
// CHECK: %[[G:.*]]:2 = call @_c10d_functional.all_gather_into_tensor_coalesced(%arg0, %arg1)
// CHECK: call @wait_gather(%[[G]]#0, %arg0)
// CHECK: call @reduce(
// CHECK: call @wait_gather(%[[G]]#1, %arg1)
func.func @gathers(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) attributes {bascule.graph} {
  %0 = call @gather(%x) : (tensor<4x8xf32>) -> tensor<8x8xf32>
  %1 = call @wait_gather(%0, %x) : (tensor<8x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %2 = call @reduce(%1) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = call @wait(%2, %1) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %4 = call @gather(%y) : (tensor<4x8xf32>) -> tensor<8x8xf32>
  %5 = call @wait_gather(%4, %y) : (tensor<8x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  return %3, %5 : tensor<8x8xf32>, tensor<8x8xf32>
}

// Reductions on both sides of one that needs the first are not put together.
// CHECK-LABEL: func.func @between
// CHECK-COUNT-3: call @reduce(
func.func @between(%x: tensor<8x8xf32>, %y: tensor<4x8xf32>) -> tensor<8x8xf32> attributes {bascule.graph} {
  %0 = call @reduce(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = call @wait(%0, %x) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = call @gather(%y) : (tensor<4x8xf32>) -> tensor<8x8xf32>
  %3 = call @wait_gather(%2, %y) : (tensor<8x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %4 = call @reduce(%1) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %5 = call @wait(%4, %1) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %6 = call @reduce(%5) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %7 = call @wait(%6, %5) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %7 : tensor<8x8xf32>
}

// A compute's region reads what is waited for: it stays behind.
// CHECK-LABEL: func.func @computes
// CHECK: %[[B:.*]]:2 = call @_c10d_functional.all_reduce_coalesced
// CHECK: %[[W:.*]] = call @wait(%[[B]]#0
// CHECK: "bascule.compute"
// CHECK: tensor.extract %[[W]]
func.func @computes(%x: tensor<8x8xf32>, %y: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) attributes {bascule.graph} {
  %0 = call @reduce(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = call @wait(%0, %x) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %1[%i, %j] : tensor<8x8xf32>
    %s = arith.addf %e, %e : f32
    "bascule.yield"(%s) : (f32) -> ()
  }) {ranges = affine_map<() -> (8, 8)>} : () -> tensor<8x8xf32>
  %3 = call @reduce(%y) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %4 = call @wait(%3, %y) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %2, %4 : tensor<8x8xf32>, tensor<8x8xf32>
}

// Checks of elements, which a rank without rows does not have, decide nothing.
// CHECK-LABEL: func.func @checked
// CHECK: call @_c10d_functional.all_reduce_coalesced(%arg0, %arg1)
// CHECK: call @check(%arg0)
// CHECK: call @check
func.func @checked(%x: tensor<8x8xf32>, %y: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) attributes {bascule.graph} {
  %0 = call @reduce(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = call @wait(%0, %x) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  call @check(%x) : (tensor<8x8xf32>) -> ()
  call @check(%1) : (tensor<8x8xf32>) -> ()
  %2 = call @reduce(%y) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = call @wait(%2, %y) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %1, %3 : tensor<8x8xf32>, tensor<8x8xf32>
}

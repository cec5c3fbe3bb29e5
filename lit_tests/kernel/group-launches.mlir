// RUN: bascule-opt %s '--pass-pipeline=builtin.module(group-launches{target=cuda})' | filecheck %s
// RUN: bascule-opt %s '--pass-pipeline=builtin.module(group-launches)' | filecheck %s --check-prefix=CPU
// RUN: bascule-opt %s '--pass-pipeline=builtin.module(group-launches{target=cuda sm-count=2})' | filecheck %s --check-prefix=SMALL
// RUN: bascule-run %s --function=step --pipeline='builtin.module(group-launches{target=cuda})'

// Three tensors scaled in place, one launch: a kernel without ranges, a domain a tensor. What comes later waits for all of them.
// CHECK-NOT: func.func private @scale(
// CHECK: func.func private @scale_x3(
// CHECK-COUNT-3: "bascule.foreach"
// CHECK: return %{{.*}}, %{{.*}}, %{{.*}} : tensor<600x600xf32>, tensor<600x600xf32>, tensor<600x600xf32>
// CHECK-LABEL: func.func @step(
// CHECK-SAME: %[[A:.*]]: tensor<600x600xf32>, %[[B:.*]]: tensor<600x600xf32>, %[[C:.*]]: tensor<600x600xf32>
// CHECK: %[[NEW:.*]]:3 = call @scale_x3(%[[A]], %[[B]], %[[C]])
// CHECK: "bascule.copy_into"(%[[NEW]]#0, %[[A]])
// CHECK: "bascule.copy_into"(%[[NEW]]#1, %[[B]])
// CHECK: return %[[NEW]]#2

// Two multiprocessors take longer to write a megabyte than a launch takes.
// SMALL-COUNT-3: call @scale(

// A call that needs another's result is not of its group, and what is read only for a while is not made early.
// CHECK-LABEL: func.func @chain(
// CHECK-COUNT-3: call @double(
// CPU-COUNT-3: call @scale(
// CPU: func.func @chain(
// CPU-COUNT-3: call @double(
func.func private @scale(%x: tensor<600x600xf32>) -> tensor<600x600xf32> {
  %out = bufferization.alloc_tensor() : tensor<600x600xf32>
  "bascule.kernel"() ({
  ^bb0(%i: index, %j: index):
    %two = arith.constant 2.0 : f32
    %e = tensor.extract %x[%i, %j] : tensor<600x600xf32>
    %f = arith.mulf %e, %two : f32
    "bascule.store"(%f, %out, %i, %j) : (f32, tensor<600x600xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (600, 600)>} : () -> ()
  return %out : tensor<600x600xf32>
}

func.func @step(%a: tensor<600x600xf32>, %b: tensor<600x600xf32>, %c: tensor<600x600xf32>) -> tensor<600x600xf32> attributes {bascule.graph} {
  %0 = call @scale(%a) : (tensor<600x600xf32>) -> tensor<600x600xf32>
  %1 = call @scale(%b) : (tensor<600x600xf32>) -> tensor<600x600xf32>
  %2 = call @scale(%c) : (tensor<600x600xf32>) -> tensor<600x600xf32>
  "bascule.copy_into"(%0, %a) : (tensor<600x600xf32>, tensor<600x600xf32>) -> ()
  "bascule.copy_into"(%1, %b) : (tensor<600x600xf32>, tensor<600x600xf32>) -> ()
  return %2 : tensor<600x600xf32>
}

func.func private @double(%x: tensor<300x300xf32>) -> tensor<300x300xf32> {
  %out = bufferization.alloc_tensor() : tensor<300x300xf32>
  "bascule.kernel"() ({
  ^bb0(%i: index, %j: index):
    %two = arith.constant 2.0 : f32
    %e = tensor.extract %x[%i, %j] : tensor<300x300xf32>
    %f = arith.mulf %e, %two : f32
    "bascule.store"(%f, %out, %i, %j) : (f32, tensor<300x300xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (300, 300)>} : () -> ()
  return %out : tensor<300x300xf32>
}

func.func @chain(%a: tensor<300x300xf32>, %b: tensor<300x300xf32>) -> (tensor<300x300xf32>, tensor<300x300xf32>) attributes {bascule.graph} {
  %0 = call @double(%a) : (tensor<300x300xf32>) -> tensor<300x300xf32>
  %1 = call @double(%0) : (tensor<300x300xf32>) -> tensor<300x300xf32>
  %2 = call @double(%b) : (tensor<300x300xf32>) -> tensor<300x300xf32>
  return %1, %2 : tensor<300x300xf32>, tensor<300x300xf32>
}

// What overwrites an argument comes after what reads its old contents, so that it may be made in the argument.
// CHECK-LABEL: func.func @late(
// CHECK-SAME: %[[P:.*]]: tensor<300x300xf32>, %[[Q:.*]]: tensor<300x300xf32>
// CHECK: %[[TWICE:.*]] = call @double(%[[P]])
// CHECK: %[[R:.*]]:2 = call @scaled_x2(%[[P]], %[[Q]])
// CHECK: %[[NEXT:.*]] = call @next(%[[P]])
// CHECK: "bascule.copy_into"(%[[NEXT]], %[[P]])
// CHECK: return
func.func private @next(%x: tensor<300x300xf32>) -> tensor<300x300xf32> {
  %out = bufferization.alloc_tensor() : tensor<300x300xf32>
  "bascule.kernel"() ({
  ^bb0(%i: index, %j: index):
    %one = arith.constant 1.0 : f32
    %e = tensor.extract %x[%i, %j] : tensor<300x300xf32>
    %f = arith.addf %e, %one : f32
    "bascule.store"(%f, %out, %i, %j) : (f32, tensor<300x300xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (300, 300)>} : () -> ()
  return %out : tensor<300x300xf32>
}

func.func private @scaled(%x: tensor<300x300xf32>) -> tensor<300x300xf32> {
  %out = bufferization.alloc_tensor() : tensor<300x300xf32>
  "bascule.kernel"() ({
  ^bb0(%i: index, %j: index):
    %three = arith.constant 3.0 : f32
    %e = tensor.extract %x[%i, %j] : tensor<300x300xf32>
    %f = arith.mulf %e, %three : f32
    "bascule.store"(%f, %out, %i, %j) : (f32, tensor<300x300xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (300, 300)>} : () -> ()
  return %out : tensor<300x300xf32>
}

func.func @late(%p: tensor<300x300xf32>, %q: tensor<300x300xf32>) -> (tensor<300x300xf32>, tensor<300x300xf32>, tensor<300x300xf32>) attributes {bascule.graph} {
  %0 = call @next(%p) : (tensor<300x300xf32>) -> tensor<300x300xf32>
  %1 = call @double(%p) : (tensor<300x300xf32>) -> tensor<300x300xf32>
  %2 = call @scaled(%p) : (tensor<300x300xf32>) -> tensor<300x300xf32>
  %3 = call @scaled(%q) : (tensor<300x300xf32>) -> tensor<300x300xf32>
  "bascule.copy_into"(%0, %p) : (tensor<300x300xf32>, tensor<300x300xf32>) -> ()
  return %1, %2, %3 : tensor<300x300xf32>, tensor<300x300xf32>, tensor<300x300xf32>
}

// Weights made ready before they are used, since a backward reads them again; what is only used now is made where it is used.
// CHECK-LABEL: func.func @layers(
// CHECK-SAME: %[[X:.*]]: tensor<300x300xf32>, %[[V:.*]]: tensor<300x300xf32>, %[[W:.*]]: tensor<300x300xf32>
// CHECK: %[[BOTH:.*]]:2 = call @double_x2(%[[V]], %[[W]])
// CHECK: call @mm(%[[X]], %[[BOTH]]#0)
// CHECK: call @mm(
// CHECK: return
// CHECK-LABEL: func.func @inference(
// CHECK: call @double(
// CHECK: call @mm(
// CHECK: call @double(
// CHECK: call @mm(
func.func private @mm(tensor<300x300xf32>, tensor<300x300xf32>) -> tensor<300x300xf32> attributes {bascule.extern = "aten.mm.default", bascule.arguments = [#bascule.operand<0>, #bascule.operand<1>], bascule.results = array<i64: 0>}

func.func @layers(%x: tensor<300x300xf32>, %v: tensor<300x300xf32>, %w: tensor<300x300xf32>)
    -> (tensor<300x300xf32>, tensor<300x300xf32>, tensor<300x300xf32>) attributes {bascule.graph} {
  %0 = call @double(%v) : (tensor<300x300xf32>) -> tensor<300x300xf32>
  %1 = call @mm(%x, %0) : (tensor<300x300xf32>, tensor<300x300xf32>) -> tensor<300x300xf32>
  %2 = call @double(%w) : (tensor<300x300xf32>) -> tensor<300x300xf32>
  %3 = call @mm(%1, %2) : (tensor<300x300xf32>, tensor<300x300xf32>) -> tensor<300x300xf32>
  return %3, %0, %2 : tensor<300x300xf32>, tensor<300x300xf32>, tensor<300x300xf32>
}

func.func @inference(%x: tensor<300x300xf32>, %v: tensor<300x300xf32>, %w: tensor<300x300xf32>) -> tensor<300x300xf32> attributes {bascule.graph} {
  %0 = call @double(%v) : (tensor<300x300xf32>) -> tensor<300x300xf32>
  %1 = call @mm(%x, %0) : (tensor<300x300xf32>, tensor<300x300xf32>) -> tensor<300x300xf32>
  %2 = call @double(%w) : (tensor<300x300xf32>) -> tensor<300x300xf32>
  %3 = call @mm(%1, %2) : (tensor<300x300xf32>, tensor<300x300xf32>) -> tensor<300x300xf32>
  return %3 : tensor<300x300xf32>
}

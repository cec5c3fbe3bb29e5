// RUN: bascule-opt %s --bufferize-kernels | filecheck %s
// RUN: bascule-run %s --interpret-only --pipeline=bufferize-kernels
// RUN: bascule-run %s --interpret-only --pipeline=order-program,bufferize-kernels,plan-memory

// A declaration takes its destinations last, if the operator has an overload for that; otherwise it returns new memory.
// CHECK: func.func private @aten.mm(memref<4x8xf32>, memref<8x4xf32>, memref<4x4xf32>)
func.func private @aten.mm(tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32> attributes {bascule.extern = "aten.mm.default", bascule.out = "aten.mm.out", bascule.arguments = [#bascule.operand<0>, #bascule.operand<1>], bascule.results = array<i64: 0>}
// CHECK: func.func private @aten.relu(memref<4x4xf32>) -> memref<4x4xf32>
func.func private @aten.relu(tensor<4x4xf32>) -> tensor<4x4xf32> attributes {bascule.extern = "aten.relu.default", bascule.arguments = [#bascule.operand<0>], bascule.results = array<i64: 0>}

// CHECK-LABEL: func.func private @double
// CHECK-SAME: (%[[X:.*]]: memref<4x8xf32>, %[[OUT:.*]]: memref<4x8xf32>) {
func.func private @double(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // CHECK-NOT: alloc
  %out = bufferization.alloc_tensor() : tensor<4x8xf32>
  "bascule.kernel"() ({
  ^bb0(%i: index, %j: index):
    // CHECK: %[[E:.*]] = memref.load %[[X]]
    %e = tensor.extract %x[%i, %j] : tensor<4x8xf32>
    %f = arith.addf %e, %e : f32
    // CHECK: "bascule.store"(%{{.*}}, %[[OUT]],
    "bascule.store"(%f, %out, %i, %j) : (f32, tensor<4x8xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (4, 8)>} : () -> ()
  // CHECK: return{{$}}
  return %out : tensor<4x8xf32>
}

// A kernel that starts from an operand's contents and reads nothing else of it does not take that operand.
// CHECK-LABEL: func.func private @put
// CHECK-SAME: (%{{.*}}: memref<8xf32>, %{{.*}}: memref<4x8xf32>) {
func.func private @put(%x: tensor<4x8xf32>, %row: tensor<8xf32>) -> tensor<4x8xf32> {
  %out = bufferization.alloc_tensor() copy(%x) : tensor<4x8xf32>
  "bascule.kernel"() ({
  ^bb0(%j: index):
    %two = arith.constant 2 : index
    %e = tensor.extract %row[%j] : tensor<8xf32>
    "bascule.store"(%e, %out, %two, %j) : (f32, tensor<4x8xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (8)>} : () -> ()
  return %out : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[A:.*]]: memref<4x8xf32>, %[[B:.*]]: memref<8x4xf32>, %[[C:.*]]: memref<4x8xf32>, %[[D:.*]]: memref<4x8xf32>, %[[R:.*]]: memref<8xf32>)
func.func @main(%a: tensor<4x8xf32>, %b: tensor<8x4xf32>, %c: tensor<4x8xf32>, %d: tensor<4x8xf32>, %r: tensor<8xf32>)
    -> (tensor<4x4xf32>, tensor<4x8xf32>) attributes {bascule.graph} {
  // The value is freed after its last use.
  // CHECK: %[[T0:.*]] = memref.alloc
  // CHECK: call @double(%[[A]], %[[T0]])
  %0 = call @double(%a) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: %[[T1:.*]] = memref.alloc
  // CHECK: call @aten.mm(%[[T0]], %[[B]], %[[T1]])
  // CHECK: memref.dealloc %[[T0]]
  %1 = call @aten.mm(%0, %b) : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  // CHECK: %[[T2:.*]] = call @aten.relu(%[[T1]])
  // CHECK: memref.dealloc %[[T1]]
  %2 = call @aten.relu(%1) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  // What starts from an argument starts from a copy of it,
  // CHECK: %[[T3:.*]] = memref.alloc
  // CHECK: memref.copy %[[A]], %[[T3]]
  // CHECK: call @put(%[[R]], %[[T3]])
  %3 = call @put(%a, %r) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  // from a value that nothing else needs, from that itself,
  // CHECK: %[[T4:.*]] = memref.alloc
  // CHECK: call @double(%[[T3]], %[[T4]])
  // CHECK-NOT: memref.copy
  // CHECK: call @put(%[[R]], %[[T4]])
  %4 = call @double(%3) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %5 = call @put(%4, %r) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  // from an argument that takes the result, from that one.
  // CHECK: call @put(%[[R]], %[[C]])
  %6 = call @put(%c, %r) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  // An argument that takes a result while its old contents are needed is copied to;
  // CHECK: %[[T5:.*]] = memref.alloc
  // CHECK: call @double(%[[C]], %[[T5]])
  %7 = call @double(%6) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: %[[T6:.*]] = memref.alloc
  // CHECK: call @double(%[[D]], %[[T6]])
  %8 = call @double(%d) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: memref.copy %[[T5]], %[[D]]
  "bascule.copy_into"(%7, %d) : (tensor<4x8xf32>, tensor<4x8xf32>) -> ()
  "bascule.copy_into"(%6, %c) : (tensor<4x8xf32>, tensor<4x8xf32>) -> ()
  // What is returned is not freed.
  // CHECK-NOT: memref.dealloc %[[T2]]
  // CHECK: return %[[T2]], %[[T6]]
  return %2, %8 : tensor<4x4xf32>, tensor<4x8xf32>
}

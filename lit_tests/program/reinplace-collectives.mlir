// RUN: bascule-opt %s --reinplace-collectives | filecheck %s
// RUN: bascule-opt %s --reinplace-collectives --plan-memory | filecheck %s --check-prefix=PLAN

#operand = #bascule.operand<0>
#second = #bascule.operand<1>
func.func private @reduce(memref<64x64xf32>) -> memref<64x64xf32> attributes {bascule.extern = "_c10d_functional.all_reduce.default", bascule.arguments = [#operand, "sum", "0"], bascule.results = array<i64: 0>, bascule.effects, bascule.begins, bascule.ranks = 4}
func.func private @both(memref<64x64xf32>, memref<64x64xf32>) -> (memref<64x64xf32>, memref<64x64xf32>) attributes {bascule.extern = "_c10d_functional.all_reduce_coalesced.default", bascule.arguments = [[#operand, #second], "sum", "0"], bascule.results = array<i64: 0, 1>, bascule.effects, bascule.begins}
func.func private @wait(memref<64x64xf32>, memref<64x64xf32>) -> memref<64x64xf32> attributes {bascule.extern = "_c10d_functional.wait_tensor.default", bascule.arguments = [#operand], bascule.results = array<i64: 0>, bascule.effects}
func.func private @mm(memref<64x64xf32>, memref<64x64xf32>, memref<64x64xf32>) attributes {bascule.extern = "aten.mm.default", bascule.out = "aten.mm.out", bascule.arguments = [#operand, #second], bascule.results = array<i64: 0>}

// CHECK-NOT: _c10d_functional.all_reduce.default
// CHECK-DAG: func.func private @[[REDUCE:.*]](memref<64x64xf32>) attributes {{.*}}"_c10d_functional.all_reduce_.default"{{.*}}bascule.ranks = 4
// CHECK-DAG: func.func private @[[BOTH:.*]](memref<64x64xf32>, memref<64x64xf32>) attributes {{.*}}"_c10d_functional.all_reduce_coalesced_.default"
// CHECK-DAG: func.func private @[[WAIT:.*]](memref<64x64xf32>) attributes {{.*}}"_c10d_functional.wait_tensor.default"

// What is read after the wait is the operand, which is freed after that. The arena has none of it.
// CHECK-LABEL: func.func @one
// CHECK: %[[A:.*]] = memref.alloc
// CHECK: call @mm(%arg0, %arg0, %[[A]])
// CHECK: call @[[REDUCE]](%[[A]])
// CHECK-NOT: dealloc
// CHECK: call @[[WAIT]](%[[A]])
// CHECK: call @mm(%[[A]], %arg0, %[[B:[a-z_0-9]+]])
// CHECK: memref.dealloc %[[A]]
// CHECK: return %[[B]]
// PLAN-LABEL: func.func @one
// PLAN-SAME: bascule.memory = {apart = 16384 : i64, arena = 0 : i64
func.func @one(%x: memref<64x64xf32>) -> memref<64x64xf32> attributes {bascule.graph} {
  %a = memref.alloc() : memref<64x64xf32>
  call @mm(%x, %x, %a) : (memref<64x64xf32>, memref<64x64xf32>, memref<64x64xf32>) -> ()
  %r = call @reduce(%a) : (memref<64x64xf32>) -> memref<64x64xf32>
  %w = call @wait(%r, %a) : (memref<64x64xf32>, memref<64x64xf32>) -> memref<64x64xf32>
  memref.dealloc %r : memref<64x64xf32>
  memref.dealloc %a : memref<64x64xf32>
  %b = memref.alloc() : memref<64x64xf32>
  call @mm(%w, %x, %b) : (memref<64x64xf32>, memref<64x64xf32>, memref<64x64xf32>) -> ()
  memref.dealloc %w : memref<64x64xf32>
  return %b : memref<64x64xf32>
}

// Two at once, then one of what was reduced before; what is returned is not freed.
// CHECK-LABEL: func.func @several
// CHECK: call @[[BOTH]](%[[A:[a-z_0-9]+]], %[[B:[a-z_0-9]+]])
// CHECK: call @[[WAIT]](%[[A]])
// CHECK: call @[[WAIT]](%[[B]])
// CHECK: call @[[REDUCE]](%[[A]])
// CHECK: call @[[WAIT]](%[[A]])
// CHECK: memref.dealloc %[[B]]
// CHECK-NOT: dealloc
// CHECK: return %[[A]]
func.func @several(%x: memref<64x64xf32>) -> memref<64x64xf32> attributes {bascule.graph} {
  %a = memref.alloc() : memref<64x64xf32>
  call @mm(%x, %x, %a) : (memref<64x64xf32>, memref<64x64xf32>, memref<64x64xf32>) -> ()
  %b = memref.alloc() : memref<64x64xf32>
  call @mm(%x, %x, %b) : (memref<64x64xf32>, memref<64x64xf32>, memref<64x64xf32>) -> ()
  %r:2 = call @both(%a, %b) : (memref<64x64xf32>, memref<64x64xf32>) -> (memref<64x64xf32>, memref<64x64xf32>)
  %v = call @wait(%r#0, %a) : (memref<64x64xf32>, memref<64x64xf32>) -> memref<64x64xf32>
  memref.dealloc %r#0 : memref<64x64xf32>
  memref.dealloc %a : memref<64x64xf32>
  %w = call @wait(%r#1, %b) : (memref<64x64xf32>, memref<64x64xf32>) -> memref<64x64xf32>
  memref.dealloc %r#1 : memref<64x64xf32>
  memref.dealloc %b : memref<64x64xf32>
  %s = call @reduce(%v) : (memref<64x64xf32>) -> memref<64x64xf32>
  %u = call @wait(%s, %v) : (memref<64x64xf32>, memref<64x64xf32>) -> memref<64x64xf32>
  memref.dealloc %s : memref<64x64xf32>
  memref.dealloc %v : memref<64x64xf32>
  memref.dealloc %w : memref<64x64xf32>
  return %u : memref<64x64xf32>
}

// A result of another shape than what was computed: this is the view.
// CHECK-LABEL: func.func @returned_in_another_shape
// CHECK: %[[A:[a-z_0-9]+]] = memref.alloc() : memref<64x64xf32>
// CHECK: %[[V:[a-z_0-9]+]] = memref.reinterpret_cast %[[A]] to offset: [0], sizes: [4096], strides: [1]
// CHECK: memref.copy %arg0, %[[V]]
// CHECK: call @[[REDUCE]](%[[A]])
// CHECK: call @[[WAIT]](%[[A]])
// CHECK-NEXT: return %[[A]]
func.func @returned_in_another_shape(%x: memref<4096xf32>) -> memref<64x64xf32> attributes {bascule.graph} {
  %a = memref.alloc() : memref<4096xf32>
  memref.copy %x, %a : memref<4096xf32> to memref<4096xf32>
  %v = memref.reinterpret_cast %a to offset: [0], sizes: [64, 64], strides: [64, 1] : memref<4096xf32> to memref<64x64xf32>
  %r = call @reduce(%v) : (memref<64x64xf32>) -> memref<64x64xf32>
  %w = call @wait(%r, %v) : (memref<64x64xf32>, memref<64x64xf32>) -> memref<64x64xf32>
  memref.dealloc %r : memref<64x64xf32>
  memref.dealloc %a : memref<4096xf32>
  return %w : memref<64x64xf32>
}

// Waits in another order than operands: one is returned in another shape, the other is not.
// CHECK-LABEL: func.func @waits_in_another_order
// CHECK: %[[A:[a-z_0-9]+]] = memref.alloc() : memref<64x64xf32>
// CHECK: %[[B:[a-z_0-9]+]] = memref.alloc() : memref<4096xf32>
// CHECK: %[[W:[a-z_0-9]+]] = memref.reinterpret_cast %[[B]]
// CHECK: call @[[BOTH]](%[[A]], %[[W]])
// CHECK: call @[[WAIT]](%[[W]])
// CHECK: call @[[WAIT]](%[[A]])
// CHECK: return %[[A]]
func.func @waits_in_another_order(%x: memref<4096xf32>, %y: memref<64x64xf32>) -> memref<64x64xf32> attributes {bascule.graph} {
  %a = memref.alloc() : memref<4096xf32>
  memref.copy %x, %a : memref<4096xf32> to memref<4096xf32>
  %u = memref.reinterpret_cast %a to offset: [0], sizes: [64, 64], strides: [64, 1] : memref<4096xf32> to memref<64x64xf32>
  %b = memref.alloc() : memref<4096xf32>
  memref.copy %x, %b : memref<4096xf32> to memref<4096xf32>
  %v = memref.reinterpret_cast %b to offset: [0], sizes: [64, 64], strides: [64, 1] : memref<4096xf32> to memref<64x64xf32>
  %r:2 = call @both(%u, %v) : (memref<64x64xf32>, memref<64x64xf32>) -> (memref<64x64xf32>, memref<64x64xf32>)
  %s = call @wait(%r#1, %v) : (memref<64x64xf32>, memref<64x64xf32>) -> memref<64x64xf32>
  memref.dealloc %r#1 : memref<64x64xf32>
  memref.dealloc %b : memref<4096xf32>
  %w = call @wait(%r#0, %u) : (memref<64x64xf32>, memref<64x64xf32>) -> memref<64x64xf32>
  memref.dealloc %r#0 : memref<64x64xf32>
  memref.dealloc %a : memref<4096xf32>
  call @mm(%s, %y, %w) : (memref<64x64xf32>, memref<64x64xf32>, memref<64x64xf32>) -> ()
  memref.dealloc %s : memref<64x64xf32>
  return %w : memref<64x64xf32>
}

// RUN: bascule-opt %s --reinplace-collectives | filecheck %s

// Collectives that work on a copy: what they are given is an argument, or needed later, or lies in one memory, or is returned as another shape.
#operand = #bascule.operand<0>
#second = #bascule.operand<1>
func.func private @reduce(memref<64x64xf32>) -> memref<64x64xf32> attributes {bascule.extern = "_c10d_functional.all_reduce.default", bascule.arguments = [#operand, "sum", "0"], bascule.results = array<i64: 0>, bascule.effects, bascule.begins}
func.func private @both(memref<64x64xf32>, memref<64x64xf32>) -> (memref<64x64xf32>, memref<64x64xf32>) attributes {bascule.extern = "_c10d_functional.all_reduce_coalesced.default", bascule.arguments = [[#operand, #second], "sum", "0"], bascule.results = array<i64: 0, 1>, bascule.effects, bascule.begins}
func.func private @wait(memref<64x64xf32>, memref<64x64xf32>) -> memref<64x64xf32> attributes {bascule.extern = "_c10d_functional.wait_tensor.default", bascule.arguments = [#operand], bascule.results = array<i64: 0>, bascule.effects}
func.func private @mm(memref<64x64xf32>, memref<64x64xf32>, memref<64x64xf32>) attributes {bascule.extern = "aten.mm.default", bascule.out = "aten.mm.out", bascule.arguments = [#operand, #second], bascule.results = array<i64: 0>}

// CHECK-NOT: all_reduce_.default
// CHECK-NOT: all_reduce_coalesced_.default

// CHECK-LABEL: func.func @argument
// CHECK: %[[R:.*]] = call @reduce(%arg0)
// CHECK: call @wait(%[[R]], %arg0)
func.func @argument(%x: memref<64x64xf32>) -> memref<64x64xf32> attributes {bascule.graph} {
  %r = call @reduce(%x) : (memref<64x64xf32>) -> memref<64x64xf32>
  %w = call @wait(%r, %x) : (memref<64x64xf32>, memref<64x64xf32>) -> memref<64x64xf32>
  memref.dealloc %r : memref<64x64xf32>
  return %w : memref<64x64xf32>
}

// CHECK-LABEL: func.func @read_beside
// CHECK: call @reduce
func.func @read_beside(%x: memref<64x64xf32>) -> (memref<64x64xf32>, memref<64x64xf32>) attributes {bascule.graph} {
  %a = memref.alloc() : memref<64x64xf32>
  call @mm(%x, %x, %a) : (memref<64x64xf32>, memref<64x64xf32>, memref<64x64xf32>) -> ()
  %r = call @reduce(%a) : (memref<64x64xf32>) -> memref<64x64xf32>
  %b = memref.alloc() : memref<64x64xf32>
  call @mm(%a, %x, %b) : (memref<64x64xf32>, memref<64x64xf32>, memref<64x64xf32>) -> ()
  %w = call @wait(%r, %a) : (memref<64x64xf32>, memref<64x64xf32>) -> memref<64x64xf32>
  memref.dealloc %r : memref<64x64xf32>
  memref.dealloc %a : memref<64x64xf32>
  return %w, %b : memref<64x64xf32>, memref<64x64xf32>
}

// A view of it is read.
// CHECK-LABEL: func.func @seen_by_a_view
// CHECK: call @reduce
func.func @seen_by_a_view(%x: memref<64x64xf32>) -> (memref<64x64xf32>, memref<64x64xf32>) attributes {bascule.graph} {
  %a = memref.alloc() : memref<64x64xf32>
  call @mm(%x, %x, %a) : (memref<64x64xf32>, memref<64x64xf32>, memref<64x64xf32>) -> ()
  %v = memref.reinterpret_cast %a to offset: [0], sizes: [64, 64], strides: [64, 1] : memref<64x64xf32> to memref<64x64xf32>
  %r = call @reduce(%a) : (memref<64x64xf32>) -> memref<64x64xf32>
  %w = call @wait(%r, %a) : (memref<64x64xf32>, memref<64x64xf32>) -> memref<64x64xf32>
  memref.dealloc %r : memref<64x64xf32>
  %b = memref.alloc() : memref<64x64xf32>
  call @mm(%v, %x, %b) : (memref<64x64xf32>, memref<64x64xf32>, memref<64x64xf32>) -> ()
  memref.dealloc %a : memref<64x64xf32>
  return %w, %b : memref<64x64xf32>, memref<64x64xf32>
}

// CHECK-LABEL: func.func @twice
// CHECK: call @both
func.func @twice(%x: memref<64x64xf32>) -> (memref<64x64xf32>, memref<64x64xf32>) attributes {bascule.graph} {
  %a = memref.alloc() : memref<64x64xf32>
  call @mm(%x, %x, %a) : (memref<64x64xf32>, memref<64x64xf32>, memref<64x64xf32>) -> ()
  %r:2 = call @both(%a, %a) : (memref<64x64xf32>, memref<64x64xf32>) -> (memref<64x64xf32>, memref<64x64xf32>)
  %v = call @wait(%r#0, %a) : (memref<64x64xf32>, memref<64x64xf32>) -> memref<64x64xf32>
  memref.dealloc %r#0 : memref<64x64xf32>
  %w = call @wait(%r#1, %a) : (memref<64x64xf32>, memref<64x64xf32>) -> memref<64x64xf32>
  memref.dealloc %r#1 : memref<64x64xf32>
  memref.dealloc %a : memref<64x64xf32>
  return %v, %w : memref<64x64xf32>, memref<64x64xf32>
}

// A result is no view of a larger tensor.
// CHECK-LABEL: func.func @returned_part
// CHECK: call @reduce
func.func @returned_part(%x: memref<8192xf32>) -> memref<64x64xf32> attributes {bascule.graph} {
  %a = memref.alloc() : memref<8192xf32>
  memref.copy %x, %a : memref<8192xf32> to memref<8192xf32>
  %v = memref.reinterpret_cast %a to offset: [0], sizes: [64, 64], strides: [64, 1] : memref<8192xf32> to memref<64x64xf32>
  %r = call @reduce(%v) : (memref<64x64xf32>) -> memref<64x64xf32>
  %w = call @wait(%r, %v) : (memref<64x64xf32>, memref<64x64xf32>) -> memref<64x64xf32>
  memref.dealloc %r : memref<64x64xf32>
  memref.dealloc %a : memref<8192xf32>
  return %w : memref<64x64xf32>
}

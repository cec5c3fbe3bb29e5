// RUN: bascule-opt %s --plan-memory | filecheck %s
// RUN: bascule-run %s --interpret-only --pipeline=plan-memory

// A kernel's result takes the memory of an operand of another shape, or of a view, where each element lies at one place in both.

#row = affine_map<(d0) -> (d0 floordiv 8)>
#column = affine_map<(d0) -> (d0 mod 8)>
func.func private @flat(%x: memref<8x8xf32>, %out: memref<64xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %r = affine.apply #row(%i)
    %c = affine.apply #column(%i)
    %e = memref.load %x[%r, %c] : memref<8x8xf32>
    %f = arith.addf %e, %e : f32
    "bascule.store"(%f, %out, %i) : (f32, memref<64xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (64)>} : () -> ()
  return
}

func.func private @turned(%x: memref<8x8xf32>, %out: memref<64xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %r = affine.apply #row(%i)
    %c = affine.apply #column(%i)
    %e = memref.load %x[%c, %r] : memref<8x8xf32>
    %f = arith.addf %e, %e : f32
    "bascule.store"(%f, %out, %i) : (f32, memref<64xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (64)>} : () -> ()
  return
}

// Each row is summed before it is overwritten.
#block = affine_map<(d0) -> (d0 floordiv 4)>
#inside = affine_map<(d0) -> (d0 mod 4)>
func.func private @rows(%x: memref<8x8xf32>, %out: memref<2x4x8xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = memref.load %x[%i, %k] : memref<8x8xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (8)>} : () -> f32
    %b = affine.apply #block(%i)
    %a = affine.apply #inside(%i)
    "bascule.foreach"() ({
    ^bb0(%j: index):
      %e = memref.load %x[%i, %j] : memref<8x8xf32>
      %f = arith.subf %e, %sum : f32
      "bascule.store"(%f, %out, %b, %a, %j) : (f32, memref<2x4x8xf32>, index, index, index) -> ()
      "bascule.yield"() : () -> ()
    }) {ranges = affine_map<() -> (8)>} : () -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (8)>} : () -> ()
  return
}

// Each column is summed, rows are written: what is overwritten is still to be summed.
func.func private @crossed(%x: memref<8x8xf32>, %out: memref<2x4x8xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = memref.load %x[%k, %i] : memref<8x8xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (8)>} : () -> f32
    %b = affine.apply #block(%i)
    %a = affine.apply #inside(%i)
    "bascule.foreach"() ({
    ^bb0(%j: index):
      %e = memref.load %x[%i, %j] : memref<8x8xf32>
      %f = arith.subf %e, %sum : f32
      "bascule.store"(%f, %out, %b, %a, %j) : (f32, memref<2x4x8xf32>, index, index, index) -> ()
      "bascule.yield"() : () -> ()
    }) {ranges = affine_map<() -> (8)>} : () -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (8)>} : () -> ()
  return
}

func.func private @start(%x: memref<8x8xf32>, %out: memref<8x8xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index, %j: index):
    %e = memref.load %x[%i, %j] : memref<8x8xf32>
    %f = arith.mulf %e, %e : f32
    "bascule.store"(%f, %out, %i, %j) : (f32, memref<8x8xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (8, 8)>} : () -> ()
  return
}

func.func private @end(%x: memref<64xf32>, %out: memref<64xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %e = memref.load %x[%i] : memref<64xf32>
    "bascule.store"(%e, %out, %i) : (f32, memref<64xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (64)>} : () -> ()
  return
}

func.func private @last(%x: memref<2x4x8xf32>, %out: memref<2x4x8xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index, %j: index, %k: index):
    %e = memref.load %x[%i, %j, %k] : memref<2x4x8xf32>
    "bascule.store"(%e, %out, %i, %j, %k) : (f32, memref<2x4x8xf32>, index, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (2, 4, 8)>} : () -> ()
  return
}

// CHECK-LABEL: func.func @one_place
// CHECK: memref.alloc() {bascule.arena} : memref<256xi8>
// CHECK: %[[A:.*]] = memref.view
// CHECK: call @start(%{{.*}}, %[[A]])
// CHECK: %[[B:.*]] = memref.reinterpret_cast %[[A]]
// CHECK: call @flat(%[[A]], %[[B]])
// CHECK: call @end(%[[B]], %{{.*}})
func.func @one_place(%x: memref<8x8xf32>) -> memref<64xf32> attributes {bascule.graph} {
  %a = memref.alloc() : memref<8x8xf32>
  call @start(%x, %a) : (memref<8x8xf32>, memref<8x8xf32>) -> ()
  %b = memref.alloc() : memref<64xf32>
  call @flat(%a, %b) : (memref<8x8xf32>, memref<64xf32>) -> ()
  memref.dealloc %a : memref<8x8xf32>
  %c = memref.alloc() : memref<64xf32>
  call @end(%b, %c) : (memref<64xf32>, memref<64xf32>) -> ()
  memref.dealloc %b : memref<64xf32>
  return %c : memref<64xf32>
}

// CHECK-LABEL: func.func @rows_in_one_place
// CHECK: memref.alloc() {bascule.arena} : memref<256xi8>
// CHECK: %[[A:.*]] = memref.view
// CHECK: call @start(%{{.*}}, %[[A]])
// CHECK: %[[B:.*]] = memref.reinterpret_cast %[[A]]
// CHECK: call @rows(%[[A]], %[[B]])
func.func @rows_in_one_place(%x: memref<8x8xf32>) -> memref<2x4x8xf32> attributes {bascule.graph} {
  %a = memref.alloc() : memref<8x8xf32>
  call @start(%x, %a) : (memref<8x8xf32>, memref<8x8xf32>) -> ()
  %b = memref.alloc() : memref<2x4x8xf32>
  call @rows(%a, %b) : (memref<8x8xf32>, memref<2x4x8xf32>) -> ()
  memref.dealloc %a : memref<8x8xf32>
  %c = memref.alloc() : memref<2x4x8xf32>
  call @last(%b, %c) : (memref<2x4x8xf32>, memref<2x4x8xf32>) -> ()
  memref.dealloc %b : memref<2x4x8xf32>
  return %c : memref<2x4x8xf32>
}

#unflat = affine_map<(d0) -> (d0 floordiv 8, d0 mod 8)>
// A view, from the start of its buffer, of an operand that dies.
// CHECK-LABEL: func.func @a_view
// CHECK: memref.alloc() {bascule.arena} : memref<256xi8>
// CHECK: %[[V:.*]] = "bascule.view"
// CHECK: call @end(%[[V]], %[[V]])
// CHECK: call @end(%[[V]], %{{.*}})

func.func @a_view(%x: memref<8x8xf32>) -> memref<64xf32> attributes {bascule.graph} {
  %a = memref.alloc() : memref<8x8xf32>
  call @start(%x, %a) : (memref<8x8xf32>, memref<8x8xf32>) -> ()
  %v = "bascule.view"(%a) {map = #unflat, shape = affine_map<() -> (64)>} : (memref<8x8xf32>) -> memref<64xf32>
  %b = memref.alloc() : memref<64xf32>
  call @end(%v, %b) : (memref<64xf32>, memref<64xf32>) -> ()
  memref.dealloc %a : memref<8x8xf32>
  %c = memref.alloc() : memref<64xf32>
  call @end(%b, %c) : (memref<64xf32>, memref<64xf32>) -> ()
  memref.dealloc %b : memref<64xf32>
  return %c : memref<64xf32>
}

// Other places, a column that is read late, a result: two places.
// CHECK-LABEL: func.func @two_places
// CHECK-NOT: reinterpret_cast
// CHECK: call @turned
// CHECK-NOT: reinterpret_cast
// CHECK: call @crossed
// CHECK-NOT: reinterpret_cast
// CHECK: call @flat
func.func @two_places(%x: memref<8x8xf32>) -> (memref<64xf32>, memref<2x4x8xf32>, memref<64xf32>) attributes {bascule.graph} {
  %a = memref.alloc() : memref<8x8xf32>
  call @start(%x, %a) : (memref<8x8xf32>, memref<8x8xf32>) -> ()
  %b = memref.alloc() : memref<64xf32>
  call @turned(%a, %b) : (memref<8x8xf32>, memref<64xf32>) -> ()
  memref.dealloc %a : memref<8x8xf32>
  %c = memref.alloc() : memref<64xf32>
  call @end(%b, %c) : (memref<64xf32>, memref<64xf32>) -> ()
  memref.dealloc %b : memref<64xf32>
  %d = memref.alloc() : memref<8x8xf32>
  call @start(%x, %d) : (memref<8x8xf32>, memref<8x8xf32>) -> ()
  %e = memref.alloc() : memref<2x4x8xf32>
  call @crossed(%d, %e) : (memref<8x8xf32>, memref<2x4x8xf32>) -> ()
  memref.dealloc %d : memref<8x8xf32>
  %f = memref.alloc() : memref<2x4x8xf32>
  call @last(%e, %f) : (memref<2x4x8xf32>, memref<2x4x8xf32>) -> ()
  memref.dealloc %e : memref<2x4x8xf32>
  %g = memref.alloc() : memref<8x8xf32>
  call @start(%x, %g) : (memref<8x8xf32>, memref<8x8xf32>) -> ()
  %h = memref.alloc() : memref<64xf32>
  call @flat(%g, %h) : (memref<8x8xf32>, memref<64xf32>) -> ()
  memref.dealloc %g : memref<8x8xf32>
  return %c, %f, %h : memref<64xf32>, memref<2x4x8xf32>, memref<64xf32>
}

// What is interpreted.
func.func @main(%x: memref<8x8xf32>) -> (memref<64xf32>, memref<2x4x8xf32>, memref<64xf32>, memref<64xf32>, memref<2x4x8xf32>) attributes {bascule.graph} {
  %a0 = memref.alloc() : memref<8x8xf32>
  call @start(%x, %a0) : (memref<8x8xf32>, memref<8x8xf32>) -> ()
  %b0 = memref.alloc() : memref<64xf32>
  call @flat(%a0, %b0) : (memref<8x8xf32>, memref<64xf32>) -> ()
  memref.dealloc %a0 : memref<8x8xf32>
  %c0 = memref.alloc() : memref<64xf32>
  call @end(%b0, %c0) : (memref<64xf32>, memref<64xf32>) -> ()
  memref.dealloc %b0 : memref<64xf32>
  %a1 = memref.alloc() : memref<8x8xf32>
  call @start(%x, %a1) : (memref<8x8xf32>, memref<8x8xf32>) -> ()
  %b1 = memref.alloc() : memref<2x4x8xf32>
  call @rows(%a1, %b1) : (memref<8x8xf32>, memref<2x4x8xf32>) -> ()
  memref.dealloc %a1 : memref<8x8xf32>
  %c1 = memref.alloc() : memref<2x4x8xf32>
  call @last(%b1, %c1) : (memref<2x4x8xf32>, memref<2x4x8xf32>) -> ()
  memref.dealloc %b1 : memref<2x4x8xf32>
  %a2 = memref.alloc() : memref<8x8xf32>
  call @start(%x, %a2) : (memref<8x8xf32>, memref<8x8xf32>) -> ()
  %v2 = "bascule.view"(%a2) {map = #unflat, shape = affine_map<() -> (64)>} : (memref<8x8xf32>) -> memref<64xf32>
  %b2 = memref.alloc() : memref<64xf32>
  call @end(%v2, %b2) : (memref<64xf32>, memref<64xf32>) -> ()
  memref.dealloc %a2 : memref<8x8xf32>
  %c2 = memref.alloc() : memref<64xf32>
  call @end(%b2, %c2) : (memref<64xf32>, memref<64xf32>) -> ()
  memref.dealloc %b2 : memref<64xf32>
  %a3 = memref.alloc() : memref<8x8xf32>
  call @start(%x, %a3) : (memref<8x8xf32>, memref<8x8xf32>) -> ()
  %b3 = memref.alloc() : memref<64xf32>
  call @turned(%a3, %b3) : (memref<8x8xf32>, memref<64xf32>) -> ()
  memref.dealloc %a3 : memref<8x8xf32>
  %c3 = memref.alloc() : memref<64xf32>
  call @end(%b3, %c3) : (memref<64xf32>, memref<64xf32>) -> ()
  memref.dealloc %b3 : memref<64xf32>
  %a4 = memref.alloc() : memref<8x8xf32>
  call @start(%x, %a4) : (memref<8x8xf32>, memref<8x8xf32>) -> ()
  %b4 = memref.alloc() : memref<2x4x8xf32>
  call @crossed(%a4, %b4) : (memref<8x8xf32>, memref<2x4x8xf32>) -> ()
  memref.dealloc %a4 : memref<8x8xf32>
  %c4 = memref.alloc() : memref<2x4x8xf32>
  call @last(%b4, %c4) : (memref<2x4x8xf32>, memref<2x4x8xf32>) -> ()
  memref.dealloc %b4 : memref<2x4x8xf32>
  return %c0, %c1, %c2, %c3, %c4 : memref<64xf32>, memref<2x4x8xf32>, memref<64xf32>, memref<64xf32>, memref<2x4x8xf32>
}

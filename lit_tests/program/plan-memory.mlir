// RUN: bascule-opt %s --plan-memory | filecheck %s
// RUN: bascule-run %s --interpret-only --pipeline=plan-memory

func.func private @double(%x: memref<64xf32>, %out: memref<64xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %e = memref.load %x[%i] : memref<64xf32>
    %f = arith.addf %e, %e : f32
    "bascule.store"(%f, %out, %i) : (f32, memref<64xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (64)>} : () -> ()
  return
}

#reverse = affine_map<(d0) -> (-d0 + 63)>
func.func private @reverse(%x: memref<64xf32>, %out: memref<64xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %j = affine.apply #reverse(%i)
    %e = memref.load %x[%j] : memref<64xf32>
    "bascule.store"(%e, %out, %i) : (f32, memref<64xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (64)>} : () -> ()
  return
}

// Each row is summed before it is overwritten.
func.func private @normalize(%x: memref<8x8xf32>, %out: memref<8x8xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = memref.load %x[%i, %k] : memref<8x8xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (8)>} : () -> f32
    "bascule.foreach"() ({
    ^bb0(%j: index):
      %e = memref.load %x[%i, %j] : memref<8x8xf32>
      %f = arith.subf %e, %sum : f32
      "bascule.store"(%f, %out, %i, %j) : (f32, memref<8x8xf32>, index, index) -> ()
      "bascule.yield"() : () -> ()
    }) {ranges = affine_map<() -> (8)>} : () -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (8)>} : () -> ()
  return
}

// Each column is summed, rows are written: what is overwritten is still to be summed.
func.func private @crossed(%x: memref<8x8xf32>, %out: memref<8x8xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = memref.load %x[%k, %i] : memref<8x8xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (8)>} : () -> f32
    "bascule.foreach"() ({
    ^bb0(%j: index):
      %e = memref.load %x[%i, %j] : memref<8x8xf32>
      %f = arith.subf %e, %sum : f32
      "bascule.store"(%f, %out, %i, %j) : (f32, memref<8x8xf32>, index, index) -> ()
      "bascule.yield"() : () -> ()
    }) {ranges = affine_map<() -> (8)>} : () -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (8)>} : () -> ()
  return
}

// Read and written at the same index: one place for all.
// CHECK-LABEL: func.func @in_place
// CHECK-SAME: %[[X:.*]]: memref<64xf32>) -> memref<64xf32> attributes {{.*}}bascule.memory = {arena = 0 : i64, asked = 256 : i64, live = 0 : i64}
// CHECK-NEXT: %[[B:.*]] = memref.alloc() : memref<64xf32>
// CHECK-NEXT: call @double(%[[X]], %[[B]])
// CHECK-NEXT: call @double(%[[B]], %[[B]])
// CHECK-NEXT: return %[[B]]
func.func @in_place(%x: memref<64xf32>) -> memref<64xf32> attributes {bascule.graph} {
  %a = memref.alloc() : memref<64xf32>
  call @double(%x, %a) : (memref<64xf32>, memref<64xf32>) -> ()
  %b = memref.alloc() : memref<64xf32>
  call @double(%a, %b) : (memref<64xf32>, memref<64xf32>) -> ()
  memref.dealloc %a : memref<64xf32>
  return %b : memref<64xf32>
}

// Read at another index: places of their own; the third buffer takes that of the first.
// CHECK-LABEL: func.func @places
// CHECK-SAME: bascule.memory = {arena = 512 : i64, asked = 768 : i64, live = 512 : i64}
// CHECK: %[[ARENA:.*]] = memref.alloc() {bascule.arena} : memref<512xi8>
// CHECK-DAG: %[[C0:.*]] = arith.constant 0 : index
// CHECK-DAG: %[[C256:.*]] = arith.constant 256 : index
// CHECK: %[[A:.*]] = memref.view %[[ARENA]][%[[C0]]][] : memref<512xi8> to memref<64xf32>
// CHECK: %[[B:.*]] = memref.view %[[ARENA]][%[[C256]]][]
// CHECK: call @reverse(%[[A]], %[[B]])
// CHECK: %[[C:.*]] = memref.view %[[ARENA]][%[[C0]]][]
// CHECK: call @reverse(%[[B]], %[[C]])
// CHECK-NOT: memref.dealloc
func.func @places(%x: memref<64xf32>) -> memref<64xf32> attributes {bascule.graph} {
  %a = memref.alloc() : memref<64xf32>
  call @double(%x, %a) : (memref<64xf32>, memref<64xf32>) -> ()
  %b = memref.alloc() : memref<64xf32>
  call @reverse(%a, %b) : (memref<64xf32>, memref<64xf32>) -> ()
  memref.dealloc %a : memref<64xf32>
  %c = memref.alloc() : memref<64xf32>
  call @reverse(%b, %c) : (memref<64xf32>, memref<64xf32>) -> ()
  memref.dealloc %b : memref<64xf32>
  %d = memref.alloc() : memref<64xf32>
  call @reverse(%c, %d) : (memref<64xf32>, memref<64xf32>) -> ()
  memref.dealloc %c : memref<64xf32>
  return %d : memref<64xf32>
}

// CHECK-LABEL: func.func @main
// CHECK-SAME: bascule.memory = {arena = 256 : i64, asked = 512 : i64, live = 256 : i64}
// CHECK: call @normalize(%[[ROWS:.*]], %[[ROWS]])
// CHECK-NOT: call @crossed(%[[ROWS]], %[[ROWS]])
func.func @main(%x: memref<8x8xf32>) -> memref<8x8xf32> attributes {bascule.graph} {
  %a = memref.alloc() : memref<8x8xf32>
  call @normalize(%x, %a) : (memref<8x8xf32>, memref<8x8xf32>) -> ()
  %b = memref.alloc() : memref<8x8xf32>
  call @normalize(%a, %b) : (memref<8x8xf32>, memref<8x8xf32>) -> ()
  memref.dealloc %a : memref<8x8xf32>
  %c = memref.alloc() : memref<8x8xf32>
  call @crossed(%b, %c) : (memref<8x8xf32>, memref<8x8xf32>) -> ()
  memref.dealloc %b : memref<8x8xf32>
  return %c : memref<8x8xf32>
}

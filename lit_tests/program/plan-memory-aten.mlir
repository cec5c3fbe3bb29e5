// RUN: bascule-opt %s --plan-memory | filecheck %s
// RUN: bascule-run %s --interpret-only --pipeline=plan-memory

func.func private @aten.sin(memref<64xf32>) -> memref<64xf32> attributes {bascule.extern = "aten.sin.default", bascule.arguments = [#bascule.operand<0>], bascule.results = array<i64: 0>}

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

// A kernel's result takes the memory of an operator's result that dies there; a result that is needed again keeps its own. The arena is made
// where it is first needed.
// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[X:.*]]: memref<64xf32>)
// CHECK-SAME: bascule.memory = {arena = 256 : i64, asked = 512 : i64, live = 256 : i64}
// CHECK-NEXT: %[[A:.*]] = call @aten.sin(%[[X]])
// CHECK-NEXT: call @double(%[[A]], %[[A]])
// CHECK-NEXT: %[[B:.*]] = call @aten.sin(%[[A]])
// CHECK-NEXT: memref.dealloc %[[A]]
// CHECK-NEXT: %[[ARENA:.*]] = memref.alloc() {bascule.arena} : memref<256xi8>
// CHECK: %[[C:.*]] = memref.view %[[ARENA]]
// CHECK-NEXT: call @double(%[[B]], %[[C]])
func.func @main(%x: memref<64xf32>) -> (memref<64xf32>, memref<64xf32>) attributes {bascule.graph} {
  %a = call @aten.sin(%x) : (memref<64xf32>) -> memref<64xf32>
  %0 = memref.alloc() : memref<64xf32>
  call @double(%a, %0) : (memref<64xf32>, memref<64xf32>) -> ()
  memref.dealloc %a : memref<64xf32>
  %b = call @aten.sin(%0) : (memref<64xf32>) -> memref<64xf32>
  memref.dealloc %0 : memref<64xf32>
  %1 = memref.alloc() : memref<64xf32>
  call @double(%b, %1) : (memref<64xf32>, memref<64xf32>) -> ()
  %c = call @aten.sin(%1) : (memref<64xf32>) -> memref<64xf32>
  memref.dealloc %1 : memref<64xf32>
  return %b, %c : memref<64xf32>, memref<64xf32>
}

// RUN: bascule-opt %s --separate-outputs | filecheck %s
// RUN: bascule-run %s --interpret-only --pipeline=separate-outputs

func.func private @aten.sin(memref<4x5xf32>, memref<4x5xf32>) attributes {bascule.extern = "aten.sin.default", bascule.out = "aten.sin.out", bascule.arguments = [#bascule.operand<0>], bascule.results = array<i64: 0>}

// The second result, of another storage, gets a copy; the third shares the first's. The argument may not be returned as a new tensor.
// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[X:.*]]: memref<4x5xf32>)
// CHECK: %[[Y:.*]] = memref.alloc() : memref<4x5xf32>
// CHECK: call @aten.sin(%[[X]], %[[Y]])
// CHECK: %[[T:.*]] = "bascule.view"(%[[Y]])
// CHECK: %[[COPY:.*]] = memref.alloc() : memref<4x5xf32>
// CHECK-NEXT: memref.copy %[[Y]], %[[COPY]]
// CHECK-NEXT: %[[MOVED:.*]] = "bascule.view"(%[[COPY]])
// CHECK-NEXT: %[[OWN:.*]] = memref.alloc() : memref<4x5xf32>
// CHECK-NEXT: memref.copy %[[X]], %[[OWN]]
// CHECK-NEXT: return %[[Y]], %[[MOVED]], %[[T]], %[[X]], %[[OWN]]
func.func @main(%x: memref<4x5xf32>) -> (memref<4x5xf32>, memref<5x4xf32, affine_map<(d0, d1) -> (d1 * 5 + d0)>>, memref<5x4xf32, affine_map<(d0, d1) -> (d1 * 5 + d0)>>, memref<4x5xf32>, memref<4x5xf32>)
    attributes {bascule.graph, bascule.storages = array<i64: 0, 1, 2, 1, 0, 3>} {
  %y = memref.alloc() : memref<4x5xf32>
  call @aten.sin(%x, %y) : (memref<4x5xf32>, memref<4x5xf32>) -> ()
  %t = "bascule.view"(%y) {map = affine_map<(d0, d1) -> (d1, d0)>, shape = affine_map<() -> (5, 4)>} : (memref<4x5xf32>) -> memref<5x4xf32, affine_map<(d0, d1) -> (d1 * 5 + d0)>>
  return %y, %t, %t, %x, %x : memref<4x5xf32>, memref<5x4xf32, affine_map<(d0, d1) -> (d1 * 5 + d0)>>, memref<5x4xf32, affine_map<(d0, d1) -> (d1 * 5 + d0)>>, memref<4x5xf32>, memref<4x5xf32>
}

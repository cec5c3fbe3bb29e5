// RUN: bascule-opt %s --bufferize-kernels --plan-memory | filecheck %s
// RUN: bascule-run %s --interpret-only --pipeline=bufferize-kernels,plan-memory --shapes s0=7
// RUN: bascule-run %s --interpret-only --pipeline=bufferize-kernels,plan-memory --shapes s0=1

#rows = #bascule.layout<affine_map<(d0, d1) -> (d0 * 4 + d1)>>
#wide = #bascule.layout<affine_map<(d0, d1) -> (d0 * 8 + d1)>>
#layout = #bascule.layout<affine_map<(d0, d1)[s0] -> (d0 * s0 + d1)>>

func.func private @flip(%n: index, %x: tensor<?x4xf32, #rows> {bascule.shape = affine_map<()[s0] -> (s0, 4)>}) -> tensor<?x4xf32, #rows> attributes {bascule.shapes = [affine_map<()[s0] -> (s0, 4)>]} {
  %out = bufferization.alloc_tensor(%n) : tensor<?x4xf32, #rows>
  "bascule.kernel"() ({
  ^bb0(%i: index, %j: index):
    %k = affine.apply affine_map<(d0)[s0] -> (s0 - d0 - 1)>(%i)[%n]
    %e = tensor.extract %x[%k, %j] : tensor<?x4xf32, #rows>
    "bascule.store"(%e, %out, %i, %j) : (f32, tensor<?x4xf32, #rows>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<()[s0] -> (s0, 4)>} : () -> ()
  return %out : tensor<?x4xf32, #rows>
}

// Rows 8 elements apart: the last row ends where no stride follows.
func.func private @spread(%n: index, %x: tensor<?x4xf32, #rows> {bascule.shape = affine_map<()[s0] -> (s0, 4)>}) -> tensor<?x4xf32, #wide> attributes {bascule.shapes = [affine_map<()[s0] -> (s0, 4)>]} {
  %out = bufferization.alloc_tensor(%n) : tensor<?x4xf32, #wide>
  "bascule.kernel"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %x[%i, %j] : tensor<?x4xf32, #rows>
    "bascule.store"(%e, %out, %i, %j) : (f32, tensor<?x4xf32, #wide>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<()[s0] -> (s0, 4)>} : () -> ()
  return %out : tensor<?x4xf32, #wide>
}

func.func private @gather(%n: index, %x: tensor<?x4xf32, #wide> {bascule.shape = affine_map<()[s0] -> (s0, 4)>}) -> tensor<?x4xf32, #rows> attributes {bascule.shapes = [affine_map<()[s0] -> (s0, 4)>]} {
  %out = bufferization.alloc_tensor(%n) : tensor<?x4xf32, #rows>
  "bascule.kernel"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %x[%i, %j] : tensor<?x4xf32, #wide>
    "bascule.store"(%e, %out, %i, %j) : (f32, tensor<?x4xf32, #rows>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<()[s0] -> (s0, 4)>} : () -> ()
  return %out : tensor<?x4xf32, #rows>
}

// The buffers of s0 * 16 bytes take two places in turn; that of another size lies behind them.
// CHECK-DAG: #[[SECOND:.*]] = affine_map<()[s0] -> (((s0 * 16) ceildiv 64) * 64)>
// CHECK-DAG: #[[BEHIND:.*]] = affine_map<()[s0] -> (((s0 * 16) ceildiv 64) * 128)>
// CHECK-LABEL: func.func @main
// CHECK: %[[ARENA:.*]] = memref.alloc(%{{.*}}) {bascule.arena} : memref<?xi8>
// CHECK-DAG: %[[P0:.*]] = arith.constant 0 : index
// CHECK-DAG: %[[P1:.*]] = affine.apply #[[SECOND]]()
// CHECK-DAG: %[[P2:.*]] = affine.apply #[[BEHIND]]()
// CHECK: memref.view %[[ARENA]][%[[P0]]]
// CHECK: memref.view %[[ARENA]][%[[P1]]]
// CHECK: memref.view %[[ARENA]][%[[P0]]]
// CHECK: memref.view %[[ARENA]][%[[P2]]]
func.func @main(%n: index, %x: tensor<?x4xf32, #rows> {bascule.shape = affine_map<()[s0] -> (s0, 4)>}) -> tensor<?x4xf32, #rows> attributes {bascule.graph, bascule.shapes = [affine_map<()[s0] -> (s0, 4)>]} {
  %0 = call @flip(%n, %x) : (index, tensor<?x4xf32, #rows>) -> tensor<?x4xf32, #rows>
  %1 = call @flip(%n, %0) : (index, tensor<?x4xf32, #rows>) -> tensor<?x4xf32, #rows>
  %2 = call @flip(%n, %1) : (index, tensor<?x4xf32, #rows>) -> tensor<?x4xf32, #rows>
  %3 = call @spread(%n, %2) : (index, tensor<?x4xf32, #rows>) -> tensor<?x4xf32, #wide>
  %4 = call @gather(%n, %3) : (index, tensor<?x4xf32, #wide>) -> tensor<?x4xf32, #rows>
  return %4 : tensor<?x4xf32, #rows>
}

// The size of what has no elements folds to a number, whatever its other sizes.
// CHECK-LABEL: func.func @empty
// CHECK-SAME: bascule.memory = {arena = 0 : i64, asked = 0 : i64, live = 0 : i64}
func.func private @none(%n: index, %x: tensor<0x?xf32, #layout> {bascule.shape = affine_map<()[s0] -> (0, s0)>}) -> tensor<0x?xf32, #layout> attributes {bascule.shapes = [affine_map<()[s0] -> (0, s0)>]} {
  %out = bufferization.alloc_tensor(%n) : tensor<0x?xf32, #layout>
  "bascule.kernel"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %x[%i, %j] : tensor<0x?xf32, #layout>
    "bascule.store"(%e, %out, %i, %j) : (f32, tensor<0x?xf32, #layout>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<()[s0] -> (0, s0)>} : () -> ()
  return %out : tensor<0x?xf32, #layout>
}
func.func @empty(%n: index, %x: tensor<0x?xf32, #layout> {bascule.shape = affine_map<()[s0] -> (0, s0)>}) -> tensor<0x?xf32, #layout> attributes {bascule.graph, bascule.shapes = [affine_map<()[s0] -> (0, s0)>]} {
  %0 = call @none(%n, %x) : (index, tensor<0x?xf32, #layout>) -> tensor<0x?xf32, #layout>
  %1 = call @none(%n, %x) : (index, tensor<0x?xf32, #layout>) -> tensor<0x?xf32, #layout>
  return %1 : tensor<0x?xf32, #layout>
}

// RUN: bascule-opt %s | bascule-opt | filecheck %s

// CHECK-LABEL: func.func @scatter
func.func @scatter(%init: tensor<10xf32>, %at: tensor<4xi64>, %v: tensor<4xf32>) -> tensor<10xf32> {
  // CHECK: "bascule.scatter"(%{{.*}}) ({
  // CHECK-NEXT: ^bb0(%{{.*}}: index, %[[DEST:.*]]: tensor<10xf32>):
  // CHECK: "bascule.store"(%{{.*}}, %[[DEST]], %{{.*}}) {mode = "add"}
  %out = "bascule.scatter"(%init) ({
  ^bb0(%i: index, %dest: tensor<10xf32>):
    %a = tensor.extract %at[%i] : tensor<4xi64>
    %row = arith.index_cast %a : i64 to index
    %e = tensor.extract %v[%i] : tensor<4xf32>
    "bascule.store"(%e, %dest, %row) {mode = "add"} : (f32, tensor<10xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (4)>} : (tensor<10xf32>) -> tensor<10xf32>
  return %out : tensor<10xf32>
}

// CHECK-LABEL: func.func @transposed
func.func @transposed(%x: tensor<4x8xf32>, %y: tensor<8x4xf32>) -> tensor<8x4xf32, #bascule.layout<affine_map<(d0, d1) -> (d1 * 8 + d0)>>> {
  // CHECK: "bascule.view"(%{{.*}}) {map = #{{.*}}, shape = #{{.*}}} : (tensor<4x8xf32>) -> tensor<8x4xf32, #bascule.layout<#{{.*}}>>
  %t = "bascule.view"(%x) {map = affine_map<(d0, d1) -> (d1, d0)>, shape = affine_map<() -> (8, 4)>}
      : (tensor<4x8xf32>) -> tensor<8x4xf32, #bascule.layout<affine_map<(d0, d1) -> (d1 * 8 + d0)>>>
  // CHECK: "bascule.copy_into"(%{{.*}}, %{{.*}})
  "bascule.copy_into"(%t, %y) : (tensor<8x4xf32, #bascule.layout<affine_map<(d0, d1) -> (d1 * 8 + d0)>>>, tensor<8x4xf32>) -> ()
  return %t : tensor<8x4xf32, #bascule.layout<affine_map<(d0, d1) -> (d1 * 8 + d0)>>>
}

// CHECK-LABEL: func.func @random
func.func @random(%seed: i64, %at: index) -> f32 {
  // CHECK: "bascule.random"(%{{.*}}, %{{.*}}) {distribution = "normal"} : (i64, index) -> f32
  %r = "bascule.random"(%seed, %at) {distribution = "normal"} : (i64, index) -> f32
  return %r : f32
}

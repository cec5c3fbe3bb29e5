// RUN: bascule-opt %s '--pass-pipeline=builtin.module(schedule-kernels{target=cuda})' | filecheck %s

// Sums over all points, each of what is in its row: what is read does not depend on the row. A program has all 32, and reads once for them.

// CHECK-LABEL: func.func private @rows(
// CHECK: axes = array<i64: 2, 1>
// CHECK-SAME: step = 256
// CHECK-SAME: order = array<i64: 0, 2, 1>
// CHECK-SAME: stages = 3
// CHECK-SAME: tile = array<i64: 1, 32>
// CHECK-SAME: warps = 8
func.func private @rows(%i: tensor<262144xi32>, %x: tensor<8x262144xf32>) -> tensor<128x32x8xf32> {
  %out = bufferization.alloc_tensor() : tensor<128x32x8xf32>
  "bascule.kernel"() ({
  ^bb0(%c: index, %row: index, %h: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %p = affine.apply affine_map<(d0, d1) -> (d0 * 2048 + d1)>(%c, %k)
      %b = tensor.extract %i[%p] : tensor<262144xi32>
      %to = arith.index_cast %b : i32 to index
      %own = arith.cmpi eq, %to, %row : index
      %e = tensor.extract %x[%h, %p] : tensor<8x262144xf32>
      %zero = arith.constant 0.0 : f32
      %v = arith.select %own, %e, %zero : f32
      "bascule.yield"(%v) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (2048)>} : () -> f32
    "bascule.store"(%sum, %out, %c, %row, %h) : (f32, tensor<128x32x8xf32>, index, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (128, 32, 8)>} : () -> ()
  return %out : tensor<128x32x8xf32>
}

// Memory runs along the rows' elements: some columns of all rows.

// CHECK-LABEL: func.func private @columns(
// CHECK: axes = array<i64: 1, 1, 1>
// CHECK-SAME: step = 64
// CHECK-SAME: order = array<i64: 0, 1, 2>
// CHECK-SAME: tile = array<i64: 1, 2, 64>
func.func private @columns(%i: tensor<16384xi64>, %x: tensor<16384x768xf32>) -> tensor<32x2x768xf32> {
  %out = bufferization.alloc_tensor() : tensor<32x2x768xf32>
  "bascule.kernel"() ({
  ^bb0(%c: index, %row: index, %j: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %p = affine.apply affine_map<(d0, d1) -> (d0 * 512 + d1)>(%c, %k)
      %b = tensor.extract %i[%p] : tensor<16384xi64>
      %to = arith.index_cast %b : i64 to index
      %own = arith.cmpi eq, %to, %row : index
      %e = tensor.extract %x[%p, %j] : tensor<16384x768xf32>
      %zero = arith.constant 0.0 : f32
      %v = arith.select %own, %e, %zero : f32
      "bascule.yield"(%v) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (512)>} : () -> f32
    "bascule.store"(%sum, %out, %c, %row, %j) : (f32, tensor<32x2x768xf32>, index, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (32, 2, 768)>} : () -> ()
  return %out : tensor<32x2x768xf32>
}

// Whether an element is read depends on the row: no program has several of them.

// CHECK-LABEL: func.func private @guarded(
// CHECK: axes = array<i64: 1>
// CHECK-SAME: step = 2048
// CHECK-SAME: tile = array<i64: 1>
func.func private @guarded(%i: tensor<2048xi32>, %x: tensor<2048xf32>) -> tensor<32xf32> {
  %out = bufferization.alloc_tensor() : tensor<32xf32>
  "bascule.kernel"() ({
  ^bb0(%row: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %b = tensor.extract %i[%k] : tensor<2048xi32>
      %to = arith.index_cast %b : i32 to index
      %own = arith.cmpi eq, %to, %row : index
      %zero = arith.constant 0.0 : f32
      %v = scf.if %own -> (f32) {
        %e = tensor.extract %x[%k] : tensor<2048xf32>
        scf.yield %e : f32
      } else {
        scf.yield %zero : f32
      }
      "bascule.yield"(%v) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (2048)>} : () -> f32
    "bascule.store"(%sum, %out, %row) : (f32, tensor<32xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (32)>} : () -> ()
  return %out : tensor<32xf32>
}

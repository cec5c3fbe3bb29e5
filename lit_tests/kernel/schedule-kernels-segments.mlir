// Rows in segments: a count of the ends before a row tells which matrix it is multiplied by, and a tile of rows is in one segment.
// RUN: bascule-opt %s --schedule-kernels=target=cuda | filecheck %s

// The matrix of the segment is a tensor descriptor's; rows have as many in a tile as a segment has on average.
// CHECK-LABEL: func.func private @grouped(
// CHECK: kind = "contraction"
// CHECK-SAME: loops = [{
// CHECK-SAME: segments = true, step = 8
// CHECK-SAME: descriptors = array<i64: 0, 1>, dot = true
// CHECK-SAME: tile = array<i64: 64, 64>
func.func private @grouped(%x: tensor<512x256xbf16>, %w: tensor<8x256x512xbf16>, %o: tensor<8xi32>) -> tensor<512x512xf32> {
  %out = bufferization.alloc_tensor() : tensor<512x512xf32>
  "bascule.kernel"() ({
  ^bb0(%m: index, %n: index):
    %count = "bascule.reduce"() ({
    ^bb0(%g: index):
      %end = tensor.extract %o[%g] : tensor<8xi32>
      %i = arith.index_cast %end : i32 to index
      %before = arith.cmpi sle, %i, %m : index
      %one = arith.extui %before : i1 to i32
      "bascule.yield"(%one) : (i32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (8)>} : () -> i32
    %seven = arith.constant 7 : index
    %number = arith.index_cast %count : i32 to index
    %group = arith.minsi %number, %seven : index
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %a = tensor.extract %x[%m, %k] : tensor<512x256xbf16>
      %c = arith.extf %a : bf16 to f32
      %d = tensor.extract %w[%group, %k, %n] : tensor<8x256x512xbf16>
      %e = arith.extf %d : bf16 to f32
      %p = arith.mulf %c, %e : f32
      "bascule.yield"(%p) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (256)>} : () -> f32
    "bascule.store"(%sum, %out, %m, %n) : (f32, tensor<512x512xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (512, 512)>} : () -> ()
  return %out : tensor<512x512xf32>
}

// Rows may be gathered, which no descriptor does.
// CHECK-LABEL: func.func private @gathered(
// CHECK: kind = "contraction"
// CHECK-SAME: segments = true
// CHECK-SAME: descriptors = array<i64: 1>, dot = true
func.func private @gathered(%x: tensor<512x256xbf16>, %w: tensor<8x256x512xbf16>, %o: tensor<8xi32>, %at: tensor<512xi64> {bascule.range = [0, 511]}) -> tensor<512x512xf32> {
  %out = bufferization.alloc_tensor() : tensor<512x512xf32>
  "bascule.kernel"() ({
  ^bb0(%m: index, %n: index):
    %place = tensor.extract %at[%m] : tensor<512xi64>
    %row = arith.index_cast %place : i64 to index
    %count = "bascule.reduce"() ({
    ^bb0(%g: index):
      %end = tensor.extract %o[%g] : tensor<8xi32>
      %i = arith.index_cast %end : i32 to index
      %before = arith.cmpi sle, %i, %m : index
      %one = arith.extui %before : i1 to i32
      "bascule.yield"(%one) : (i32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (8)>} : () -> i32
    %seven = arith.constant 7 : index
    %number = arith.index_cast %count : i32 to index
    %group = arith.minsi %number, %seven : index
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %a = tensor.extract %x[%row, %k] : tensor<512x256xbf16>
      %c = arith.extf %a : bf16 to f32
      %d = tensor.extract %w[%group, %k, %n] : tensor<8x256x512xbf16>
      %e = arith.extf %d : bf16 to f32
      %p = arith.mulf %c, %e : f32
      "bascule.yield"(%p) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (256)>} : () -> f32
    "bascule.store"(%sum, %out, %m, %n) : (f32, tensor<512x512xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (512, 512)>} : () -> ()
  return %out : tensor<512x512xf32>
}

// A matrix that each row chooses by itself is none of a tile's.
// CHECK-LABEL: func.func private @of_each_row(
// CHECK-NOT: dot = true
func.func private @of_each_row(%x: tensor<512x256xbf16>, %w: tensor<8x256x512xbf16>, %of: tensor<512xi64> {bascule.range = [0, 7]}) -> tensor<512x512xf32> {
  %out = bufferization.alloc_tensor() : tensor<512x512xf32>
  "bascule.kernel"() ({
  ^bb0(%m: index, %n: index):
    %number = tensor.extract %of[%m] : tensor<512xi64>
    %group = arith.index_cast %number : i64 to index
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %a = tensor.extract %x[%m, %k] : tensor<512x256xbf16>
      %c = arith.extf %a : bf16 to f32
      %d = tensor.extract %w[%group, %k, %n] : tensor<8x256x512xbf16>
      %e = arith.extf %d : bf16 to f32
      %p = arith.mulf %c, %e : f32
      "bascule.yield"(%p) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (256)>} : () -> f32
    "bascule.store"(%sum, %out, %m, %n) : (f32, tensor<512x512xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (512, 512)>} : () -> ()
  return %out : tensor<512x512xf32>
}

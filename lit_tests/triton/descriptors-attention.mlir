// Attention whose schedule has tensor descriptors load keys and values: those beyond the last are 0.
// RUN: bascule-opt %s --to-triton | filecheck %s

// CHECK: ^bb0({{.*}}, %[[KEYS:.*]]: !tt.tensordesc<tensor<1x64x32xf16>>, %[[VALUES:.*]]: !tt.tensordesc<tensor<1x64x64xf16>>):
// CHECK: %[[Q:.*]] = "tt.load"
// CHECK-SAME: tensor<64x32xf16>
// CHECK: scf.for %[[N:.*]] = %c0_i32
// CHECK: %[[K:.*]] = "tt.descriptor_load"(%[[KEYS]], %{{.*}}, %[[N]], %c0_i32)
// CHECK: %[[KT:.*]] = "tt.trans"(%[[K]])
// CHECK: "tt.dot"(%[[Q]], %[[KT]],
// CHECK: %[[V:.*]] = "tt.descriptor_load"(%[[VALUES]], %{{.*}}, %[[N]], %{{.*}})
// CHECK-SAME: tensor<64x64xf16>
// CHECK: "tt.dot"(%{{.*}}, %[[V]],
// CHECK: scf.yield
// The step that is not whole: scores beyond the last key are no scores, and there is nothing to leave out of values.
// CHECK: "tt.descriptor_load"(%[[KEYS]], %{{.*}}, %c64_i32, %c0_i32)
// CHECK: arith.select {{.*}} : tensor<64x64xi1>, tensor<64x64xf32>
// CHECK-NOT: tensor<64x64xi1>, tensor<64x64xf16>
// CHECK: "tt.store"
// CHECK: bascule.descriptors = [{{.*}}sizes = array<i64: 2, 70, 32>{{.*}}sizes = array<i64: 2, 70, 48>
func.func private @heads(%arg0: memref<2x40x32xf16>, %arg1: memref<2x70x32xf16>, %arg2: memref<2x70x48xf16>, %arg3: memref<2x40x48xf16>) {
  "bascule.kernel"() ({
  ^bb0(%arg4: index, %arg5: index, %arg6: index):
    %0 = "bascule.compute"() ({
    ^bb0(%arg7: index):
      %5 = "bascule.reduce"() ({
      ^bb0(%arg8: index):
        %7 = memref.load %arg0[%arg4, %arg5, %arg8] : memref<2x40x32xf16>
        %8 = arith.extf %7 : f16 to f32
        %9 = memref.load %arg1[%arg4, %arg7, %arg8] : memref<2x70x32xf16>
        %10 = arith.extf %9 : f16 to f32
        %11 = arith.mulf %8, %10 : f32
        "bascule.yield"(%11) : (f32) -> ()
      }) {kind = "sum", ranges = affine_map<() -> (32)>} : () -> f32
      %cst = arith.constant 1.250000e-01 : f32
      %6 = arith.mulf %5, %cst : f32
      "bascule.yield"(%6) : (f32) -> ()
    }) {ranges = affine_map<() -> (70)>} : () -> tensor<70xf32>
    %1:2 = "bascule.reduce"() ({
    ^bb0(%arg7: index):
      %extracted = tensor.extract %0[%arg7] : tensor<70xf32>
      "bascule.yield"(%extracted) : (f32) -> ()
    }) {kind = "softmax", ranges = affine_map<() -> (70)>} : () -> (f32, f32)
    %2 = "bascule.reduce"() ({
    ^bb0(%arg7: index):
      %extracted = tensor.extract %0[%arg7] : tensor<70xf32>
      %5 = arith.subf %extracted, %1#0 : f32
      %6 = math.exp %5 : f32
      %7 = arith.truncf %6 : f32 to f16
      %8 = arith.extf %7 : f16 to f32
      %9 = memref.load %arg2[%arg4, %arg7, %arg6] : memref<2x70x48xf16>
      %10 = arith.extf %9 : f16 to f32
      %11 = arith.mulf %8, %10 : f32
      "bascule.yield"(%11) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (70)>} : () -> f32
    %3 = arith.divf %2, %1#1 : f32
    %4 = arith.truncf %3 : f32 to f16
    "bascule.store"(%4, %arg3, %arg4, %arg5, %arg6) : (f16, memref<2x40x48xf16>, index, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (2, 40, 48)>, schedule = #bascule.schedule<{axes = array<i64: 1, 1, 1>, capability = 90 : i64, index_bits = 32 : i64, kind = "attention", loops = [{along = -1 : i64, dot = true, evict = "normal", fold = 0 : i64, loops = [{along = -1 : i64, descriptors = array<i64: 1>, dot = true, evict = "normal", fold = 0 : i64, loops = [], order = array<i64: 0>, step = 32 : i64, walk = 4 : i64}], order = array<i64: 0>, step = 64 : i64, walk = 0 : i64}, {along = -1 : i64, dot = true, evict = "normal", fold = 0 : i64, loops = [], order = array<i64: 0>, step = 64 : i64, walk = 0 : i64}, {along = -1 : i64, descriptors = array<i64: 1>, dot = true, evict = "normal", fold = 0 : i64, loops = [], order = array<i64: 0>, step = 64 : i64, walk = 0 : i64}], order = array<i64: 0, 1, 2>, stages = 2 : i64, target = "cuda", tile = array<i64: 1, 64, 64>, warps = 4 : i64}>} : () -> ()
  return
}

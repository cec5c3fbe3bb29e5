// Keys of an attention go into parts where it has few programs: of a cache in pages, a step to each part in turns; the last key stands for those
// that some part has too few of. Not where the keys are few. Where it is not known how many there are, a part has 512.
// RUN: bascule-opt %s --fuse-attention=target=cuda | filecheck %s
// RUN: bascule-run %s --function=few --interpret-only --pipeline='fuse-attention{target=cuda}'

// CHECK: #[[KEY:.*]] = affine_map<(d0, d1) -> ((d1 floordiv 64) * 2048 + d0 * 64 + d1 mod 64)>
// CHECK: #[[SIZE:.*]] = affine_map<() -> (256)>
// CHECK: #[[PARTS:.*]] = affine_map<() -> (32, 8, 4, 64)>

// CHECK-LABEL: func.func @pages
// CHECK: %[[OUT:.*]] = "bascule.compute"() ({
// CHECK-NEXT: ^bb0(%[[P:.*]]: index, %{{.*}}: index, %{{.*}}: index, %{{.*}}: index):
// CHECK: affine.apply #[[KEY]](%[[P]], %{{.*}})
// CHECK-NOT: bascule.tail
// CHECK: arith.divf
// CHECK: decision = "attention in 32 parts of 256 keys, 64 in turns", {{.*}}reason = "no score is in memory; 256 programs, predicted {{.*}} us; 8 without parts, {{.*}} us"}], bascule.together = 0 : i64, ranges = #[[PARTS]]} : () -> tensor<32x8x4x64xf32>
// CHECK: %[[MOST:.*]] = "bascule.compute"
// CHECK: bascule.together = 0 : i64, {{.*}} : () -> tensor<32x8x4x1xf32>
// CHECK: %[[TOTAL:.*]] = "bascule.compute"
// CHECK: bascule.together = 0 : i64, {{.*}} : () -> tensor<32x8x4x1xf32>
// CHECK: "bascule.compute"
// CHECK: tensor.extract %[[MOST]]
// CHECK: kind = "max"
// CHECK: math.exp
// CHECK: tensor.extract %[[TOTAL]]
// CHECK: arith.cmpf oeq
// CHECK: kind = "sum"
// CHECK: tensor.extract %[[OUT]]
// CHECK: kind = "sum"
// CHECK: arith.divf
func.func @pages(%arg0: tensor<1024x16x4x64xf16>, %arg1: tensor<2x512xi64>, %arg2: tensor<1024x16x4x64xf16>, %arg3: tensor<2x16x1x64xf16>, %arg4: tensor<2xi64>) -> (tensor<2x4x4x64xf16>) attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%arg5: index, %arg6: index, %arg7: index):
    %7 = "bascule.reduce"() ({
    ^bb0(%arg8: index):
      %9 = affine.apply affine_map<(d0) -> (d0 floordiv 4)>(%arg5)
      %10 = affine.apply affine_map<(d0, d1) -> ((d0 mod 4) * 4 + d1)>(%arg5, %arg6)
      %c0 = arith.constant 0 : index
      %extracted = tensor.extract %arg3[%9, %10, %c0, %arg8] : tensor<2x16x1x64xf16>
      %11 = arith.extf %extracted : f16 to f32
      %12 = affine.apply affine_map<(d0) -> (d0 floordiv 4)>(%arg5)
      %13 = affine.apply affine_map<(d0) -> (d0 mod 4)>(%arg5)
      %14 = affine.apply affine_map<(d0) -> (d0 floordiv 16)>(%arg7)
      %15 = affine.apply affine_map<(d0) -> (d0 mod 16)>(%arg7)
      %extracted_0 = tensor.extract %arg1[%12, %14] : tensor<2x512xi64>
      %16 = arith.index_cast %extracted_0 : i64 to index
      %c1024 = arith.constant 1024 : index
      %c0_1 = arith.constant 0 : index
      %17 = arith.cmpi slt, %16, %c0_1 : index
      %18 = arith.addi %16, %c1024 : index
      %19 = arith.select %17, %18, %16 : index
      %c1023 = arith.constant 1023 : index
      %c0_2 = arith.constant 0 : index
      %20 = arith.maxsi %19, %c0_2 : index
      %21 = arith.minsi %20, %c1023 {bascule.checked} : index
      %extracted_3 = tensor.extract %arg0[%21, %15, %13, %arg8] : tensor<1024x16x4x64xf16>
      %22 = arith.extf %extracted_3 : f16 to f32
      %23 = arith.mulf %11, %22 : f32
      "bascule.yield"(%23) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (64)>} : () -> f32
    %8 = arith.truncf %7 : f32 to f16
    "bascule.yield"(%8) : (f16) -> ()
  }) {ranges = affine_map<() -> (8, 4, 8192)>} : () -> tensor<8x4x8192xf16>
  %1 = "bascule.compute"() ({
  ^bb0(%arg5: index, %arg6: index, %arg7: index, %arg8: index):
    %7 = "bascule.reduce"() ({
    ^bb0(%arg9: index):
      %c0 = arith.constant 0 : index
      %c0_0 = arith.constant 0 : index
      %8 = arith.index_cast %arg9 : index to i64
      %c0_1 = arith.constant 0 : index
      %extracted = tensor.extract %arg4[%arg5] : tensor<2xi64>
      %9 = arith.cmpi sge, %8, %extracted : i64
      %cst = arith.constant 0xFF800000 : f32
      %10 = affine.apply affine_map<(d0, d1) -> (d0 * 4 + d1)>(%arg5, %arg6)
      %extracted_2 = tensor.extract %0[%10, %arg7, %arg9] : tensor<8x4x8192xf16>
      %11 = arith.extf %extracted_2 {bascule.cast} : f16 to f32
      %cst_3 = arith.constant 1.250000e-01 : f32
      %12 = arith.mulf %11, %cst_3 : f32
      %13 = arith.select %9, %cst, %12 : f32
      "bascule.yield"(%13) : (f32) -> ()
    }) {kind = "max", ranges = affine_map<() -> (8192)>} : () -> f32
    "bascule.yield"(%7) : (f32) -> ()
  }) {ranges = affine_map<() -> (2, 4, 4, 1)>} : () -> tensor<2x4x4x1xf32>
  %2 = "bascule.compute"() ({
  ^bb0(%arg5: index, %arg6: index, %arg7: index, %arg8: index):
    %c0 = arith.constant 0 : index
    %c0_0 = arith.constant 0 : index
    %7 = arith.index_cast %arg8 : index to i64
    %c0_1 = arith.constant 0 : index
    %extracted = tensor.extract %arg4[%arg5] : tensor<2xi64>
    %8 = arith.cmpi sge, %7, %extracted : i64
    %cst = arith.constant 0xFF800000 : f32
    %9 = affine.apply affine_map<(d0, d1) -> (d0 * 4 + d1)>(%arg5, %arg6)
    %extracted_2 = tensor.extract %0[%9, %arg7, %arg8] : tensor<8x4x8192xf16>
    %10 = arith.extf %extracted_2 {bascule.cast} : f16 to f32
    %cst_3 = arith.constant 1.250000e-01 : f32
    %11 = arith.mulf %10, %cst_3 : f32
    %12 = arith.select %8, %cst, %11 : f32
    %c0_4 = arith.constant 0 : index
    %extracted_5 = tensor.extract %1[%arg5, %arg6, %arg7, %c0_4] : tensor<2x4x4x1xf32>
    %13 = arith.subf %12, %extracted_5 : f32
    %14 = math.exp %13 : f32
    "bascule.yield"(%14) : (f32) -> ()
  }) {ranges = affine_map<() -> (2, 4, 4, 8192)>} : () -> tensor<2x4x4x8192xf32>
  %3 = "bascule.compute"() ({
  ^bb0(%arg5: index, %arg6: index, %arg7: index, %arg8: index):
    %7 = "bascule.reduce"() ({
    ^bb0(%arg9: index):
      %extracted = tensor.extract %2[%arg5, %arg6, %arg7, %arg9] : tensor<2x4x4x8192xf32>
      "bascule.yield"(%extracted) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (8192)>} : () -> f32
    "bascule.yield"(%7) : (f32) -> ()
  }) {ranges = affine_map<() -> (2, 4, 4, 1)>} : () -> tensor<2x4x4x1xf32>
  %4 = "bascule.compute"() ({
  ^bb0(%arg5: index, %arg6: index, %arg7: index, %arg8: index):
    %extracted = tensor.extract %2[%arg5, %arg6, %arg7, %arg8] : tensor<2x4x4x8192xf32>
    %c0 = arith.constant 0 : index
    %extracted_0 = tensor.extract %3[%arg5, %arg6, %arg7, %c0] : tensor<2x4x4x1xf32>
    %7 = arith.divf %extracted, %extracted_0 : f32
    %8 = arith.truncf %7 {bascule.cast} : f32 to f16
    "bascule.yield"(%8) : (f16) -> ()
  }) {ranges = affine_map<() -> (2, 4, 4, 8192)>} : () -> tensor<2x4x4x8192xf16>
  %5 = "bascule.compute"() ({
  ^bb0(%arg5: index, %arg6: index, %arg7: index):
    %7 = "bascule.reduce"() ({
    ^bb0(%arg8: index):
      %9 = affine.apply affine_map<(d0) -> (d0 floordiv 4)>(%arg5)
      %10 = affine.apply affine_map<(d0) -> (d0 mod 4)>(%arg5)
      %extracted = tensor.extract %4[%9, %10, %arg6, %arg8] : tensor<2x4x4x8192xf16>
      %11 = arith.extf %extracted : f16 to f32
      %12 = affine.apply affine_map<(d0) -> (d0 floordiv 4)>(%arg5)
      %13 = affine.apply affine_map<(d0) -> (d0 mod 4)>(%arg5)
      %14 = affine.apply affine_map<(d0) -> (d0 floordiv 16)>(%arg8)
      %15 = affine.apply affine_map<(d0) -> (d0 mod 16)>(%arg8)
      %extracted_0 = tensor.extract %arg1[%12, %14] : tensor<2x512xi64>
      %16 = arith.index_cast %extracted_0 : i64 to index
      %c1024 = arith.constant 1024 : index
      %c0 = arith.constant 0 : index
      %17 = arith.cmpi slt, %16, %c0 : index
      %18 = arith.addi %16, %c1024 : index
      %19 = arith.select %17, %18, %16 : index
      %c1023 = arith.constant 1023 : index
      %c0_1 = arith.constant 0 : index
      %20 = arith.maxsi %19, %c0_1 : index
      %21 = arith.minsi %20, %c1023 {bascule.checked} : index
      %extracted_2 = tensor.extract %arg2[%21, %15, %13, %arg7] : tensor<1024x16x4x64xf16>
      %22 = arith.extf %extracted_2 : f16 to f32
      %23 = arith.mulf %11, %22 : f32
      "bascule.yield"(%23) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (8192)>} : () -> f32
    %8 = arith.truncf %7 : f32 to f16
    "bascule.yield"(%8) : (f16) -> ()
  }) {ranges = affine_map<() -> (8, 4, 64)>} : () -> tensor<8x4x64xf16>
  %6 = "bascule.view"(%5) {map = affine_map<(d0, d1, d2, d3) -> (d0 * 4 + d1, d2, d3)>, shape = affine_map<() -> (2, 4, 4, 64)>} : (tensor<8x4x64xf16>) -> tensor<2x4x4x64xf16>
  return %6 : tensor<2x4x4x64xf16>
}

// CHECK-LABEL: func.func @ragged
// CHECK: arith.cmpi slt, %{{.*}}, %c8208{{.*}} : index
// CHECK: arith.minsi %{{.*}}, %c8207{{.*}} {bascule.tail} : index
// CHECK: decision = "attention in
func.func @ragged(%arg0: tensor<1024x16x4x64xf16>, %arg1: tensor<2x513xi64>, %arg2: tensor<1024x16x4x64xf16>, %arg3: tensor<2x16x1x64xf16>, %arg4: tensor<2xi64>) -> (tensor<2x4x4x64xf16>) attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%arg5: index, %arg6: index, %arg7: index):
    %7 = "bascule.reduce"() ({
    ^bb0(%arg8: index):
      %9 = affine.apply affine_map<(d0) -> (d0 floordiv 4)>(%arg5)
      %10 = affine.apply affine_map<(d0, d1) -> ((d0 mod 4) * 4 + d1)>(%arg5, %arg6)
      %c0 = arith.constant 0 : index
      %extracted = tensor.extract %arg3[%9, %10, %c0, %arg8] : tensor<2x16x1x64xf16>
      %11 = arith.extf %extracted : f16 to f32
      %12 = affine.apply affine_map<(d0) -> (d0 floordiv 4)>(%arg5)
      %13 = affine.apply affine_map<(d0) -> (d0 mod 4)>(%arg5)
      %14 = affine.apply affine_map<(d0) -> (d0 floordiv 16)>(%arg7)
      %15 = affine.apply affine_map<(d0) -> (d0 mod 16)>(%arg7)
      %extracted_0 = tensor.extract %arg1[%12, %14] : tensor<2x513xi64>
      %16 = arith.index_cast %extracted_0 : i64 to index
      %c1024 = arith.constant 1024 : index
      %c0_1 = arith.constant 0 : index
      %17 = arith.cmpi slt, %16, %c0_1 : index
      %18 = arith.addi %16, %c1024 : index
      %19 = arith.select %17, %18, %16 : index
      %c1023 = arith.constant 1023 : index
      %c0_2 = arith.constant 0 : index
      %20 = arith.maxsi %19, %c0_2 : index
      %21 = arith.minsi %20, %c1023 {bascule.checked} : index
      %extracted_3 = tensor.extract %arg0[%21, %15, %13, %arg8] : tensor<1024x16x4x64xf16>
      %22 = arith.extf %extracted_3 : f16 to f32
      %23 = arith.mulf %11, %22 : f32
      "bascule.yield"(%23) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (64)>} : () -> f32
    %8 = arith.truncf %7 : f32 to f16
    "bascule.yield"(%8) : (f16) -> ()
  }) {ranges = affine_map<() -> (8, 4, 8208)>} : () -> tensor<8x4x8208xf16>
  %1 = "bascule.compute"() ({
  ^bb0(%arg5: index, %arg6: index, %arg7: index, %arg8: index):
    %7 = "bascule.reduce"() ({
    ^bb0(%arg9: index):
      %c0 = arith.constant 0 : index
      %c0_0 = arith.constant 0 : index
      %8 = arith.index_cast %arg9 : index to i64
      %c0_1 = arith.constant 0 : index
      %extracted = tensor.extract %arg4[%arg5] : tensor<2xi64>
      %9 = arith.cmpi sge, %8, %extracted : i64
      %cst = arith.constant 0xFF800000 : f32
      %10 = affine.apply affine_map<(d0, d1) -> (d0 * 4 + d1)>(%arg5, %arg6)
      %extracted_2 = tensor.extract %0[%10, %arg7, %arg9] : tensor<8x4x8208xf16>
      %11 = arith.extf %extracted_2 {bascule.cast} : f16 to f32
      %cst_3 = arith.constant 1.250000e-01 : f32
      %12 = arith.mulf %11, %cst_3 : f32
      %13 = arith.select %9, %cst, %12 : f32
      "bascule.yield"(%13) : (f32) -> ()
    }) {kind = "max", ranges = affine_map<() -> (8208)>} : () -> f32
    "bascule.yield"(%7) : (f32) -> ()
  }) {ranges = affine_map<() -> (2, 4, 4, 1)>} : () -> tensor<2x4x4x1xf32>
  %2 = "bascule.compute"() ({
  ^bb0(%arg5: index, %arg6: index, %arg7: index, %arg8: index):
    %c0 = arith.constant 0 : index
    %c0_0 = arith.constant 0 : index
    %7 = arith.index_cast %arg8 : index to i64
    %c0_1 = arith.constant 0 : index
    %extracted = tensor.extract %arg4[%arg5] : tensor<2xi64>
    %8 = arith.cmpi sge, %7, %extracted : i64
    %cst = arith.constant 0xFF800000 : f32
    %9 = affine.apply affine_map<(d0, d1) -> (d0 * 4 + d1)>(%arg5, %arg6)
    %extracted_2 = tensor.extract %0[%9, %arg7, %arg8] : tensor<8x4x8208xf16>
    %10 = arith.extf %extracted_2 {bascule.cast} : f16 to f32
    %cst_3 = arith.constant 1.250000e-01 : f32
    %11 = arith.mulf %10, %cst_3 : f32
    %12 = arith.select %8, %cst, %11 : f32
    %c0_4 = arith.constant 0 : index
    %extracted_5 = tensor.extract %1[%arg5, %arg6, %arg7, %c0_4] : tensor<2x4x4x1xf32>
    %13 = arith.subf %12, %extracted_5 : f32
    %14 = math.exp %13 : f32
    "bascule.yield"(%14) : (f32) -> ()
  }) {ranges = affine_map<() -> (2, 4, 4, 8208)>} : () -> tensor<2x4x4x8208xf32>
  %3 = "bascule.compute"() ({
  ^bb0(%arg5: index, %arg6: index, %arg7: index, %arg8: index):
    %7 = "bascule.reduce"() ({
    ^bb0(%arg9: index):
      %extracted = tensor.extract %2[%arg5, %arg6, %arg7, %arg9] : tensor<2x4x4x8208xf32>
      "bascule.yield"(%extracted) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (8208)>} : () -> f32
    "bascule.yield"(%7) : (f32) -> ()
  }) {ranges = affine_map<() -> (2, 4, 4, 1)>} : () -> tensor<2x4x4x1xf32>
  %4 = "bascule.compute"() ({
  ^bb0(%arg5: index, %arg6: index, %arg7: index, %arg8: index):
    %extracted = tensor.extract %2[%arg5, %arg6, %arg7, %arg8] : tensor<2x4x4x8208xf32>
    %c0 = arith.constant 0 : index
    %extracted_0 = tensor.extract %3[%arg5, %arg6, %arg7, %c0] : tensor<2x4x4x1xf32>
    %7 = arith.divf %extracted, %extracted_0 : f32
    %8 = arith.truncf %7 {bascule.cast} : f32 to f16
    "bascule.yield"(%8) : (f16) -> ()
  }) {ranges = affine_map<() -> (2, 4, 4, 8208)>} : () -> tensor<2x4x4x8208xf16>
  %5 = "bascule.compute"() ({
  ^bb0(%arg5: index, %arg6: index, %arg7: index):
    %7 = "bascule.reduce"() ({
    ^bb0(%arg8: index):
      %9 = affine.apply affine_map<(d0) -> (d0 floordiv 4)>(%arg5)
      %10 = affine.apply affine_map<(d0) -> (d0 mod 4)>(%arg5)
      %extracted = tensor.extract %4[%9, %10, %arg6, %arg8] : tensor<2x4x4x8208xf16>
      %11 = arith.extf %extracted : f16 to f32
      %12 = affine.apply affine_map<(d0) -> (d0 floordiv 4)>(%arg5)
      %13 = affine.apply affine_map<(d0) -> (d0 mod 4)>(%arg5)
      %14 = affine.apply affine_map<(d0) -> (d0 floordiv 16)>(%arg8)
      %15 = affine.apply affine_map<(d0) -> (d0 mod 16)>(%arg8)
      %extracted_0 = tensor.extract %arg1[%12, %14] : tensor<2x513xi64>
      %16 = arith.index_cast %extracted_0 : i64 to index
      %c1024 = arith.constant 1024 : index
      %c0 = arith.constant 0 : index
      %17 = arith.cmpi slt, %16, %c0 : index
      %18 = arith.addi %16, %c1024 : index
      %19 = arith.select %17, %18, %16 : index
      %c1023 = arith.constant 1023 : index
      %c0_1 = arith.constant 0 : index
      %20 = arith.maxsi %19, %c0_1 : index
      %21 = arith.minsi %20, %c1023 {bascule.checked} : index
      %extracted_2 = tensor.extract %arg2[%21, %15, %13, %arg7] : tensor<1024x16x4x64xf16>
      %22 = arith.extf %extracted_2 : f16 to f32
      %23 = arith.mulf %11, %22 : f32
      "bascule.yield"(%23) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (8208)>} : () -> f32
    %8 = arith.truncf %7 : f32 to f16
    "bascule.yield"(%8) : (f16) -> ()
  }) {ranges = affine_map<() -> (8, 4, 64)>} : () -> tensor<8x4x64xf16>
  %6 = "bascule.view"(%5) {map = affine_map<(d0, d1, d2, d3) -> (d0 * 4 + d1, d2, d3)>, shape = affine_map<() -> (2, 4, 4, 64)>} : (tensor<8x4x64xf16>) -> tensor<2x4x4x64xf16>
  return %6 : tensor<2x4x4x64xf16>
}

// CHECK-LABEL: func.func @few
// CHECK: decision = "attention", {{.*}}reason = "no score is in memory"
func.func @few(%arg0: tensor<1024x16x4x64xf16>, %arg1: tensor<2x8xi64>, %arg2: tensor<1024x16x4x64xf16>, %arg3: tensor<2x16x1x64xf16>, %arg4: tensor<2xi64>) -> (tensor<2x4x4x64xf16>) attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%arg5: index, %arg6: index, %arg7: index):
    %7 = "bascule.reduce"() ({
    ^bb0(%arg8: index):
      %9 = affine.apply affine_map<(d0) -> (d0 floordiv 4)>(%arg5)
      %10 = affine.apply affine_map<(d0, d1) -> ((d0 mod 4) * 4 + d1)>(%arg5, %arg6)
      %c0 = arith.constant 0 : index
      %extracted = tensor.extract %arg3[%9, %10, %c0, %arg8] : tensor<2x16x1x64xf16>
      %11 = arith.extf %extracted : f16 to f32
      %12 = affine.apply affine_map<(d0) -> (d0 floordiv 4)>(%arg5)
      %13 = affine.apply affine_map<(d0) -> (d0 mod 4)>(%arg5)
      %14 = affine.apply affine_map<(d0) -> (d0 floordiv 16)>(%arg7)
      %15 = affine.apply affine_map<(d0) -> (d0 mod 16)>(%arg7)
      %extracted_0 = tensor.extract %arg1[%12, %14] : tensor<2x8xi64>
      %16 = arith.index_cast %extracted_0 : i64 to index
      %c1024 = arith.constant 1024 : index
      %c0_1 = arith.constant 0 : index
      %17 = arith.cmpi slt, %16, %c0_1 : index
      %18 = arith.addi %16, %c1024 : index
      %19 = arith.select %17, %18, %16 : index
      %c1023 = arith.constant 1023 : index
      %c0_2 = arith.constant 0 : index
      %20 = arith.maxsi %19, %c0_2 : index
      %21 = arith.minsi %20, %c1023 {bascule.checked} : index
      %extracted_3 = tensor.extract %arg0[%21, %15, %13, %arg8] : tensor<1024x16x4x64xf16>
      %22 = arith.extf %extracted_3 : f16 to f32
      %23 = arith.mulf %11, %22 : f32
      "bascule.yield"(%23) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (64)>} : () -> f32
    %8 = arith.truncf %7 : f32 to f16
    "bascule.yield"(%8) : (f16) -> ()
  }) {ranges = affine_map<() -> (8, 4, 128)>} : () -> tensor<8x4x128xf16>
  %1 = "bascule.compute"() ({
  ^bb0(%arg5: index, %arg6: index, %arg7: index, %arg8: index):
    %7 = "bascule.reduce"() ({
    ^bb0(%arg9: index):
      %c0 = arith.constant 0 : index
      %c0_0 = arith.constant 0 : index
      %8 = arith.index_cast %arg9 : index to i64
      %c0_1 = arith.constant 0 : index
      %extracted = tensor.extract %arg4[%arg5] : tensor<2xi64>
      %9 = arith.cmpi sge, %8, %extracted : i64
      %cst = arith.constant 0xFF800000 : f32
      %10 = affine.apply affine_map<(d0, d1) -> (d0 * 4 + d1)>(%arg5, %arg6)
      %extracted_2 = tensor.extract %0[%10, %arg7, %arg9] : tensor<8x4x128xf16>
      %11 = arith.extf %extracted_2 {bascule.cast} : f16 to f32
      %cst_3 = arith.constant 1.250000e-01 : f32
      %12 = arith.mulf %11, %cst_3 : f32
      %13 = arith.select %9, %cst, %12 : f32
      "bascule.yield"(%13) : (f32) -> ()
    }) {kind = "max", ranges = affine_map<() -> (128)>} : () -> f32
    "bascule.yield"(%7) : (f32) -> ()
  }) {ranges = affine_map<() -> (2, 4, 4, 1)>} : () -> tensor<2x4x4x1xf32>
  %2 = "bascule.compute"() ({
  ^bb0(%arg5: index, %arg6: index, %arg7: index, %arg8: index):
    %c0 = arith.constant 0 : index
    %c0_0 = arith.constant 0 : index
    %7 = arith.index_cast %arg8 : index to i64
    %c0_1 = arith.constant 0 : index
    %extracted = tensor.extract %arg4[%arg5] : tensor<2xi64>
    %8 = arith.cmpi sge, %7, %extracted : i64
    %cst = arith.constant 0xFF800000 : f32
    %9 = affine.apply affine_map<(d0, d1) -> (d0 * 4 + d1)>(%arg5, %arg6)
    %extracted_2 = tensor.extract %0[%9, %arg7, %arg8] : tensor<8x4x128xf16>
    %10 = arith.extf %extracted_2 {bascule.cast} : f16 to f32
    %cst_3 = arith.constant 1.250000e-01 : f32
    %11 = arith.mulf %10, %cst_3 : f32
    %12 = arith.select %8, %cst, %11 : f32
    %c0_4 = arith.constant 0 : index
    %extracted_5 = tensor.extract %1[%arg5, %arg6, %arg7, %c0_4] : tensor<2x4x4x1xf32>
    %13 = arith.subf %12, %extracted_5 : f32
    %14 = math.exp %13 : f32
    "bascule.yield"(%14) : (f32) -> ()
  }) {ranges = affine_map<() -> (2, 4, 4, 128)>} : () -> tensor<2x4x4x128xf32>
  %3 = "bascule.compute"() ({
  ^bb0(%arg5: index, %arg6: index, %arg7: index, %arg8: index):
    %7 = "bascule.reduce"() ({
    ^bb0(%arg9: index):
      %extracted = tensor.extract %2[%arg5, %arg6, %arg7, %arg9] : tensor<2x4x4x128xf32>
      "bascule.yield"(%extracted) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (128)>} : () -> f32
    "bascule.yield"(%7) : (f32) -> ()
  }) {ranges = affine_map<() -> (2, 4, 4, 1)>} : () -> tensor<2x4x4x1xf32>
  %4 = "bascule.compute"() ({
  ^bb0(%arg5: index, %arg6: index, %arg7: index, %arg8: index):
    %extracted = tensor.extract %2[%arg5, %arg6, %arg7, %arg8] : tensor<2x4x4x128xf32>
    %c0 = arith.constant 0 : index
    %extracted_0 = tensor.extract %3[%arg5, %arg6, %arg7, %c0] : tensor<2x4x4x1xf32>
    %7 = arith.divf %extracted, %extracted_0 : f32
    %8 = arith.truncf %7 {bascule.cast} : f32 to f16
    "bascule.yield"(%8) : (f16) -> ()
  }) {ranges = affine_map<() -> (2, 4, 4, 128)>} : () -> tensor<2x4x4x128xf16>
  %5 = "bascule.compute"() ({
  ^bb0(%arg5: index, %arg6: index, %arg7: index):
    %7 = "bascule.reduce"() ({
    ^bb0(%arg8: index):
      %9 = affine.apply affine_map<(d0) -> (d0 floordiv 4)>(%arg5)
      %10 = affine.apply affine_map<(d0) -> (d0 mod 4)>(%arg5)
      %extracted = tensor.extract %4[%9, %10, %arg6, %arg8] : tensor<2x4x4x128xf16>
      %11 = arith.extf %extracted : f16 to f32
      %12 = affine.apply affine_map<(d0) -> (d0 floordiv 4)>(%arg5)
      %13 = affine.apply affine_map<(d0) -> (d0 mod 4)>(%arg5)
      %14 = affine.apply affine_map<(d0) -> (d0 floordiv 16)>(%arg8)
      %15 = affine.apply affine_map<(d0) -> (d0 mod 16)>(%arg8)
      %extracted_0 = tensor.extract %arg1[%12, %14] : tensor<2x8xi64>
      %16 = arith.index_cast %extracted_0 : i64 to index
      %c1024 = arith.constant 1024 : index
      %c0 = arith.constant 0 : index
      %17 = arith.cmpi slt, %16, %c0 : index
      %18 = arith.addi %16, %c1024 : index
      %19 = arith.select %17, %18, %16 : index
      %c1023 = arith.constant 1023 : index
      %c0_1 = arith.constant 0 : index
      %20 = arith.maxsi %19, %c0_1 : index
      %21 = arith.minsi %20, %c1023 {bascule.checked} : index
      %extracted_2 = tensor.extract %arg2[%21, %15, %13, %arg7] : tensor<1024x16x4x64xf16>
      %22 = arith.extf %extracted_2 : f16 to f32
      %23 = arith.mulf %11, %22 : f32
      "bascule.yield"(%23) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (128)>} : () -> f32
    %8 = arith.truncf %7 : f32 to f16
    "bascule.yield"(%8) : (f16) -> ()
  }) {ranges = affine_map<() -> (8, 4, 64)>} : () -> tensor<8x4x64xf16>
  %6 = "bascule.view"(%5) {map = affine_map<(d0, d1, d2, d3) -> (d0 * 4 + d1, d2, d3)>, shape = affine_map<() -> (2, 4, 4, 64)>} : (tensor<8x4x64xf16>) -> tensor<2x4x4x64xf16>
  return %6 : tensor<2x4x4x64xf16>
}

// CHECK-LABEL: func.func @changing
// CHECK: arith.minsi %{{.*}} {bascule.tail} : index
// CHECK: decision = "attention in (s0 * 16) ceildiv 512 parts of 512 keys"
func.func @changing(%arg0: index, %arg1: tensor<2x?xi64, #bascule.layout<affine_map<(d0, d1)[s0] -> (d0 * s0 + d1)>>> {bascule.shape = affine_map<()[s0] -> (2, s0)>}, %arg2: tensor<32x16x2x64xbf16>, %arg3: tensor<32x16x2x64xbf16>, %arg4: tensor<2x8x1x64xbf16>, %arg5: tensor<2xi64>) -> (tensor<2x8x1x64xbf16>) attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%arg6: index, %arg7: index, %arg8: index):
    %7 = "bascule.reduce"() ({
    ^bb0(%arg9: index):
      %9 = affine.apply affine_map<(d0) -> (d0 floordiv 2)>(%arg6)
      %10 = affine.apply affine_map<(d0, d1) -> ((d0 mod 2) * 4 + d1)>(%arg6, %arg7)
      %c0 = arith.constant 0 : index
      %extracted = tensor.extract %arg4[%9, %10, %c0, %arg9] : tensor<2x8x1x64xbf16>
      %11 = arith.extf %extracted : bf16 to f32
      %12 = affine.apply affine_map<(d0) -> (d0 floordiv 2)>(%arg6)
      %13 = affine.apply affine_map<(d0) -> (d0 mod 2)>(%arg6)
      %14 = affine.apply affine_map<(d0) -> (d0 floordiv 16)>(%arg8)
      %15 = affine.apply affine_map<(d0) -> (d0 mod 16)>(%arg8)
      %extracted_0 = tensor.extract %arg1[%12, %14] : tensor<2x?xi64, #bascule.layout<affine_map<(d0, d1)[s0] -> (d0 * s0 + d1)>>>
      %16 = arith.index_cast %extracted_0 : i64 to index
      %c32 = arith.constant 32 : index
      %c0_1 = arith.constant 0 : index
      %17 = arith.cmpi slt, %16, %c0_1 : index
      %18 = arith.addi %16, %c32 : index
      %19 = arith.select %17, %18, %16 : index
      %c31 = arith.constant 31 : index
      %c0_2 = arith.constant 0 : index
      %20 = arith.maxsi %19, %c0_2 : index
      %21 = arith.minsi %20, %c31 {bascule.checked} : index
      %extracted_3 = tensor.extract %arg2[%21, %15, %13, %arg9] : tensor<32x16x2x64xbf16>
      %22 = arith.extf %extracted_3 : bf16 to f32
      %23 = arith.mulf %11, %22 : f32
      "bascule.yield"(%23) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (64)>} : () -> f32
    %8 = arith.truncf %7 : f32 to bf16
    "bascule.yield"(%8) : (bf16) -> ()
  }) {ranges = affine_map<()[s0] -> (4, 4, s0 * 16)>} : () -> tensor<4x4x?xbf16, #bascule.layout<affine_map<(d0, d1, d2)[s0] -> (d0 * (s0 * 64) + d1 * (s0 * 16) + d2)>>>
  %1 = "bascule.compute"() ({
  ^bb0(%arg6: index, %arg7: index, %arg8: index, %arg9: index):
    %7 = "bascule.reduce"() ({
    ^bb0(%arg10: index):
      %c0 = arith.constant 0 : index
      %c0_0 = arith.constant 0 : index
      %8 = arith.index_cast %arg10 : index to i64
      %c0_1 = arith.constant 0 : index
      %extracted = tensor.extract %arg5[%arg6] : tensor<2xi64>
      %9 = arith.cmpi sge, %8, %extracted : i64
      %cst = arith.constant 0xFF800000 : f32
      %10 = affine.apply affine_map<(d0, d1) -> (d0 * 2 + d1)>(%arg6, %arg7)
      %extracted_2 = tensor.extract %0[%10, %arg8, %arg10] : tensor<4x4x?xbf16, #bascule.layout<affine_map<(d0, d1, d2)[s0] -> (d0 * (s0 * 64) + d1 * (s0 * 16) + d2)>>>
      %11 = arith.extf %extracted_2 {bascule.cast} : bf16 to f32
      %cst_3 = arith.constant 1.250000e-01 : f32
      %12 = arith.mulf %11, %cst_3 : f32
      %13 = arith.select %9, %cst, %12 : f32
      "bascule.yield"(%13) : (f32) -> ()
    }) {kind = "max", ranges = affine_map<()[s0] -> (s0 * 16)>} : () -> f32
    "bascule.yield"(%7) : (f32) -> ()
  }) {ranges = affine_map<() -> (2, 2, 4, 1)>} : () -> tensor<2x2x4x1xf32>
  %2 = "bascule.compute"() ({
  ^bb0(%arg6: index, %arg7: index, %arg8: index, %arg9: index):
    %c0 = arith.constant 0 : index
    %c0_0 = arith.constant 0 : index
    %7 = arith.index_cast %arg9 : index to i64
    %c0_1 = arith.constant 0 : index
    %extracted = tensor.extract %arg5[%arg6] : tensor<2xi64>
    %8 = arith.cmpi sge, %7, %extracted : i64
    %cst = arith.constant 0xFF800000 : f32
    %9 = affine.apply affine_map<(d0, d1) -> (d0 * 2 + d1)>(%arg6, %arg7)
    %extracted_2 = tensor.extract %0[%9, %arg8, %arg9] : tensor<4x4x?xbf16, #bascule.layout<affine_map<(d0, d1, d2)[s0] -> (d0 * (s0 * 64) + d1 * (s0 * 16) + d2)>>>
    %10 = arith.extf %extracted_2 {bascule.cast} : bf16 to f32
    %cst_3 = arith.constant 1.250000e-01 : f32
    %11 = arith.mulf %10, %cst_3 : f32
    %12 = arith.select %8, %cst, %11 : f32
    %c0_4 = arith.constant 0 : index
    %extracted_5 = tensor.extract %1[%arg6, %arg7, %arg8, %c0_4] : tensor<2x2x4x1xf32>
    %13 = arith.subf %12, %extracted_5 : f32
    %14 = math.exp %13 : f32
    "bascule.yield"(%14) : (f32) -> ()
  }) {ranges = affine_map<()[s0] -> (2, 2, 4, s0 * 16)>} : () -> tensor<2x2x4x?xf32, #bascule.layout<affine_map<(d0, d1, d2, d3)[s0] -> (d0 * (s0 * 128) + d1 * (s0 * 64) + d2 * (s0 * 16) + d3)>>>
  %3 = "bascule.compute"() ({
  ^bb0(%arg6: index, %arg7: index, %arg8: index, %arg9: index):
    %7 = "bascule.reduce"() ({
    ^bb0(%arg10: index):
      %extracted = tensor.extract %2[%arg6, %arg7, %arg8, %arg10] : tensor<2x2x4x?xf32, #bascule.layout<affine_map<(d0, d1, d2, d3)[s0] -> (d0 * (s0 * 128) + d1 * (s0 * 64) + d2 * (s0 * 16) + d3)>>>
      "bascule.yield"(%extracted) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<()[s0] -> (s0 * 16)>} : () -> f32
    "bascule.yield"(%7) : (f32) -> ()
  }) {ranges = affine_map<() -> (2, 2, 4, 1)>} : () -> tensor<2x2x4x1xf32>
  %4 = "bascule.compute"() ({
  ^bb0(%arg6: index, %arg7: index, %arg8: index, %arg9: index):
    %extracted = tensor.extract %2[%arg6, %arg7, %arg8, %arg9] : tensor<2x2x4x?xf32, #bascule.layout<affine_map<(d0, d1, d2, d3)[s0] -> (d0 * (s0 * 128) + d1 * (s0 * 64) + d2 * (s0 * 16) + d3)>>>
    %c0 = arith.constant 0 : index
    %extracted_0 = tensor.extract %3[%arg6, %arg7, %arg8, %c0] : tensor<2x2x4x1xf32>
    %7 = arith.divf %extracted, %extracted_0 : f32
    %8 = arith.truncf %7 {bascule.cast} : f32 to bf16
    "bascule.yield"(%8) : (bf16) -> ()
  }) {ranges = affine_map<()[s0] -> (2, 2, 4, s0 * 16)>} : () -> tensor<2x2x4x?xbf16, #bascule.layout<affine_map<(d0, d1, d2, d3)[s0] -> (d0 * (s0 * 128) + d1 * (s0 * 64) + d2 * (s0 * 16) + d3)>>>
  %5 = "bascule.compute"() ({
  ^bb0(%arg6: index, %arg7: index, %arg8: index):
    %7 = "bascule.reduce"() ({
    ^bb0(%arg9: index):
      %9 = affine.apply affine_map<(d0) -> (d0 floordiv 2)>(%arg6)
      %10 = affine.apply affine_map<(d0) -> (d0 mod 2)>(%arg6)
      %extracted = tensor.extract %4[%9, %10, %arg7, %arg9] : tensor<2x2x4x?xbf16, #bascule.layout<affine_map<(d0, d1, d2, d3)[s0] -> (d0 * (s0 * 128) + d1 * (s0 * 64) + d2 * (s0 * 16) + d3)>>>
      %11 = arith.extf %extracted : bf16 to f32
      %12 = affine.apply affine_map<(d0) -> (d0 floordiv 2)>(%arg6)
      %13 = affine.apply affine_map<(d0) -> (d0 mod 2)>(%arg6)
      %14 = affine.apply affine_map<(d0) -> (d0 floordiv 16)>(%arg9)
      %15 = affine.apply affine_map<(d0) -> (d0 mod 16)>(%arg9)
      %extracted_0 = tensor.extract %arg1[%12, %14] : tensor<2x?xi64, #bascule.layout<affine_map<(d0, d1)[s0] -> (d0 * s0 + d1)>>>
      %16 = arith.index_cast %extracted_0 : i64 to index
      %c32 = arith.constant 32 : index
      %c0 = arith.constant 0 : index
      %17 = arith.cmpi slt, %16, %c0 : index
      %18 = arith.addi %16, %c32 : index
      %19 = arith.select %17, %18, %16 : index
      %c31 = arith.constant 31 : index
      %c0_1 = arith.constant 0 : index
      %20 = arith.maxsi %19, %c0_1 : index
      %21 = arith.minsi %20, %c31 {bascule.checked} : index
      %extracted_2 = tensor.extract %arg3[%21, %15, %13, %arg8] : tensor<32x16x2x64xbf16>
      %22 = arith.extf %extracted_2 : bf16 to f32
      %23 = arith.mulf %11, %22 : f32
      "bascule.yield"(%23) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<()[s0] -> (s0 * 16)>} : () -> f32
    %8 = arith.truncf %7 : f32 to bf16
    "bascule.yield"(%8) : (bf16) -> ()
  }) {ranges = affine_map<() -> (4, 4, 64)>} : () -> tensor<4x4x64xbf16>
  %6 = "bascule.view"(%5) {map = affine_map<(d0, d1, d2, d3) -> (d0 * 2 + d1 floordiv 4, d1 mod 4, d3)>, shape = affine_map<() -> (2, 8, 1, 64)>} : (tensor<4x4x64xbf16>) -> tensor<2x8x1x64xbf16>
  return %6 : tensor<2x8x1x64xbf16>
}

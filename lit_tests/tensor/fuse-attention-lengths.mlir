// Numbers of queries and of keys that are symbols, and a mask by places: one kernel, a tile of 64 queries, which walks the keys that it sees.
// RUN: bascule-opt %s --fuse-attention=target=cuda | filecheck %s
// RUN: bascule-opt %s '--pass-pipeline=builtin.module(fuse-attention{target=cuda},form-kernels{target=cuda},online-softmax{target=cuda},schedule-kernels{target=cuda})' | filecheck %s --check-prefix=SCHEDULE
// RUN: bascule-run %s --function=lengths --interpret-only --pipeline='fuse-attention{target=cuda}'

// CHECK-LABEL: func.func @lengths
// CHECK: %[[OUT:.*]] = "bascule.compute"
// CHECK: kind = "max"
// CHECK: arith.divf
// CHECK: reason = "no score is in memory"}
// CHECK-NEXT: return %[[OUT]]

// SCHEDULE: schedule = #bascule.schedule<{axes = array<i64: 1, 1, 1>{{.*}}kind = "attention"{{.*}}skip = true{{.*}}tile = array<i64: 1, 64, 64>
// SCHEDULE-NOT: bascule.kernel
func.func @lengths(%s0: index, %s1: index, %arg0: tensor<2x?x16xbf16, #bascule.layout<affine_map<(d0, d1, d2)[s0] -> (d0 * (s0 * 16) + d1 * 16 + d2)>>> {bascule.shape = affine_map<()[s0] -> (2, s0, 16)>}, %arg1: tensor<2x?x16xbf16, #bascule.layout<affine_map<(d0, d1, d2)[s0, s1] -> (d0 * (s1 * 16) + d1 * 16 + d2)>>> {bascule.shape = affine_map<()[s0, s1] -> (2, s1, 16)>}, %arg2: tensor<2x?x32xbf16, #bascule.layout<affine_map<(d0, d1, d2)[s0] -> (d0 * (s0 * 32) + d1 * 32 + d2)>>> {bascule.shape = affine_map<()[s0] -> (2, s0, 32)>}) -> (tensor<2x?x32xbf16, #bascule.layout<affine_map<(d0, d1, d2)[s0, s1] -> (d0 * (s1 * 32) + d1 * 32 + d2)>>>) attributes {bascule.graph, bascule.shapes = [affine_map<()[s0, s1] -> (2, s1, 32)>], bascule.symbols = ["s25", "s34"]} {
  %_to_copy = "bascule.compute"() ({
  ^bb0(%i: index, %j: index, %k: index):
    %c0 = arith.constant 0 : index
    %index_cast = arith.index_cast %k : index to i64
    %c0_1 = arith.constant 0 : index
    %index_cast_1 = arith.index_cast %j : index to i64
    %cmpi = arith.cmpi sgt, %index_cast, %index_cast_1 : i64
    %cst_f32 = arith.constant 0xFF800000 : f32
    %reduce_sum = "bascule.reduce"() ({
    ^bb0(%l: index):
      %extract = tensor.extract %arg1[%i, %j, %l] : tensor<2x?x16xbf16, #bascule.layout<affine_map<(d0, d1, d2)[s0, s1] -> (d0 * (s1 * 16) + d1 * 16 + d2)>>>
      %extf_3 = arith.extf %extract : bf16 to f32
      %extract_1 = tensor.extract %arg0[%i, %k, %l] : tensor<2x?x16xbf16, #bascule.layout<affine_map<(d0, d1, d2)[s0] -> (d0 * (s0 * 16) + d1 * 16 + d2)>>>
      %extf_4 = arith.extf %extract_1 : bf16 to f32
      %mulf_1 = arith.mulf %extf_3, %extf_4 : f32
      "bascule.yield"(%mulf_1) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (16)>} : () -> f32
    %truncf = arith.truncf %reduce_sum : f32 to bf16
    %extf = arith.extf %truncf : bf16 to f32
    %c0.25_f32 = arith.constant 2.500000e-01 : f32
    %mulf = arith.mulf %extf, %c0.25_f32 : f32
    %truncf_1 = arith.truncf %mulf : f32 to bf16
    %extf_1 = arith.extf %truncf_1 : bf16 to f32
    %select = arith.select %cmpi, %cst_f32, %extf_1 : f32
    %truncf_2 = arith.truncf %select : f32 to bf16
    %extf_2 = arith.extf %truncf_2 : bf16 to f32
    "bascule.yield"(%extf_2) : (f32) -> ()
  }) {ranges = affine_map<()[s0, s1] -> (2, s1, s0)>} : () -> tensor<2x?x?xf32, #bascule.layout<affine_map<(d0, d1, d2)[s0, s1] -> (d0 * (s0 * s1) + d1 * s0 + d2)>>>
  %amax = "bascule.compute"() ({
  ^bb0(%i: index, %j: index, %k: index):
    %reduce_max = "bascule.reduce"() ({
    ^bb0(%l: index):
      %extract = tensor.extract %_to_copy[%i, %j, %l] : tensor<2x?x?xf32, #bascule.layout<affine_map<(d0, d1, d2)[s0, s1] -> (d0 * (s0 * s1) + d1 * s0 + d2)>>>
      "bascule.yield"(%extract) : (f32) -> ()
    }) {kind = "max", ranges = affine_map<()[s0] -> (s0)>} : () -> f32
    "bascule.yield"(%reduce_max) : (f32) -> ()
  }) {ranges = affine_map<()[s0, s1] -> (2, s1, 1)>} : () -> tensor<2x?x1xf32, #bascule.layout<affine_map<(d0, d1, d2)[s0, s1] -> (d0 * s1 + d1 + d2)>>>
  %exp = "bascule.compute"() ({
  ^bb0(%i: index, %j: index, %k: index):
    %extract = tensor.extract %_to_copy[%i, %j, %k] : tensor<2x?x?xf32, #bascule.layout<affine_map<(d0, d1, d2)[s0, s1] -> (d0 * (s0 * s1) + d1 * s0 + d2)>>>
    %c0 = arith.constant 0 : index
    %extract_1 = tensor.extract %amax[%i, %j, %c0] : tensor<2x?x1xf32, #bascule.layout<affine_map<(d0, d1, d2)[s0, s1] -> (d0 * s1 + d1 + d2)>>>
    %subf = arith.subf %extract, %extract_1 : f32
    %expf = math.exp %subf : f32
    "bascule.yield"(%expf) : (f32) -> ()
  }) {ranges = affine_map<()[s0, s1] -> (2, s1, s0)>} : () -> tensor<2x?x?xf32, #bascule.layout<affine_map<(d0, d1, d2)[s0, s1] -> (d0 * (s0 * s1) + d1 * s0 + d2)>>>
  %sum = "bascule.compute"() ({
  ^bb0(%i: index, %j: index, %k: index):
    %reduce_sum = "bascule.reduce"() ({
    ^bb0(%l: index):
      %extract = tensor.extract %exp[%i, %j, %l] : tensor<2x?x?xf32, #bascule.layout<affine_map<(d0, d1, d2)[s0, s1] -> (d0 * (s0 * s1) + d1 * s0 + d2)>>>
      "bascule.yield"(%extract) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<()[s0] -> (s0)>} : () -> f32
    "bascule.yield"(%reduce_sum) : (f32) -> ()
  }) {ranges = affine_map<()[s0, s1] -> (2, s1, 1)>} : () -> tensor<2x?x1xf32, #bascule.layout<affine_map<(d0, d1, d2)[s0, s1] -> (d0 * s1 + d1 + d2)>>>
  %_to_copy_1 = "bascule.compute"() ({
  ^bb0(%i: index, %j: index, %k: index):
    %extract = tensor.extract %exp[%i, %j, %k] : tensor<2x?x?xf32, #bascule.layout<affine_map<(d0, d1, d2)[s0, s1] -> (d0 * (s0 * s1) + d1 * s0 + d2)>>>
    %c0 = arith.constant 0 : index
    %extract_1 = tensor.extract %sum[%i, %j, %c0] : tensor<2x?x1xf32, #bascule.layout<affine_map<(d0, d1, d2)[s0, s1] -> (d0 * s1 + d1 + d2)>>>
    %divf = arith.divf %extract, %extract_1 : f32
    %truncf = arith.truncf %divf : f32 to bf16
    "bascule.yield"(%truncf) : (bf16) -> ()
  }) {ranges = affine_map<()[s0, s1] -> (2, s1, s0)>} : () -> tensor<2x?x?xbf16, #bascule.layout<affine_map<(d0, d1, d2)[s0, s1] -> (d0 * (s0 * s1) + d1 * s0 + d2)>>>
  %bmm = "bascule.compute"() ({
  ^bb0(%i: index, %j: index, %k: index):
    %reduce_sum = "bascule.reduce"() ({
    ^bb0(%l: index):
      %extract = tensor.extract %_to_copy_1[%i, %j, %l] : tensor<2x?x?xbf16, #bascule.layout<affine_map<(d0, d1, d2)[s0, s1] -> (d0 * (s0 * s1) + d1 * s0 + d2)>>>
      %extf = arith.extf %extract : bf16 to f32
      %extract_1 = tensor.extract %arg2[%i, %l, %k] : tensor<2x?x32xbf16, #bascule.layout<affine_map<(d0, d1, d2)[s0] -> (d0 * (s0 * 32) + d1 * 32 + d2)>>>
      %extf_1 = arith.extf %extract_1 : bf16 to f32
      %mulf = arith.mulf %extf, %extf_1 : f32
      "bascule.yield"(%mulf) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<()[s0] -> (s0)>} : () -> f32
    %truncf = arith.truncf %reduce_sum : f32 to bf16
    "bascule.yield"(%truncf) : (bf16) -> ()
  }) {ranges = affine_map<()[s0, s1] -> (2, s1, 32)>} : () -> tensor<2x?x32xbf16, #bascule.layout<affine_map<(d0, d1, d2)[s0, s1] -> (d0 * (s1 * 32) + d1 * 32 + d2)>>>
  return %bmm : tensor<2x?x32xbf16, #bascule.layout<affine_map<(d0, d1, d2)[s0, s1] -> (d0 * (s1 * 32) + d1 * 32 + d2)>>>
}

// RUN: bascule-opt %s --split-reductions=parallel=8,min-size=64 | filecheck %s
// RUN: bascule-run %s --interpret-only --pipeline='split-reductions{parallel=8 min-size=64}' --shapes=s0=300
// RUN: bascule-opt %s --split-reductions=parallel=8,min-size=64 --canonicalize --form-kernels --remarks 2>&1 | filecheck %s --check-prefix=REMARK

#vector = #bascule.layout<affine_map<(d0) -> (d0)>>

// CHECK-DAG: #[[PIECE:map[0-9]*]] = affine_map<(d0, d1) -> (d0 * 64 + d1)>
// CHECK-DAG: #[[CHUNKS:map[0-9]*]] = affine_map<() -> (8)>
// CHECK-DAG: #[[INNER:map[0-9]*]] = affine_map<() -> (64)>
// CHECK-LABEL: func.func @main

// The sum of everything: eight partial sums, and the sum of those.
// CHECK: [[P:%[0-9]+]] = "bascule.compute"() ({
// CHECK-NEXT: ^bb0([[C:%[a-z0-9_]+]]: index):
// CHECK-NEXT: "bascule.reduce"() ({
// CHECK-NEXT: ^bb0([[R:%[a-z0-9_]+]]: index):
// CHECK-NEXT: [[I:%[0-9]+]] = affine.apply #[[PIECE]]([[C]], [[R]])
// CHECK-NEXT: tensor.extract %{{[a-z0-9]+}}[[[I]]]
// CHECK: kind = "sum", ranges = #[[INNER]]
// CHECK: bascule.chunks = {count = 8 : i64, ranges = array<i64: 512>, size = 64 : i64, split = 0 : i64}, ranges = #[[CHUNKS]]
// CHECK: "bascule.compute"() ({
// CHECK-NEXT: [[S:%[0-9]+]] = "bascule.reduce"() ({
// CHECK-NEXT: ^bb0([[K:%[a-z0-9_]+]]: index):
// CHECK-NEXT: tensor.extract [[P]][[[K]]]
// CHECK: kind = "sum", ranges = #[[CHUNKS]]
// CHECK: "bascule.yield"([[S]])

// A position: that of the first best chunk, then the one in it.
// CHECK: kind = "argmax", ranges = #[[INNER]]
// CHECK: kind = "max", ranges = #[[INNER]]
// CHECK: [[B:%[0-9]+]] = "bascule.reduce"() ({
// CHECK: kind = "argmax", ranges = #[[CHUNKS]]
// CHECK: [[FIRST:%[0-9]+]] = arith.muli [[B]], %{{.*}} : i64
// CHECK: arith.addi [[FIRST]]

// Welford: means and squares of the chunks, in no short chunk. The count is known.
// CHECK: kind = "welford", ranges = #[[INNER]]
// CHECK: kind = "welford", ranges = #[[INNER]]
// CHECK: kind = "sum", ranges = #[[CHUNKS]]
// CHECK: kind = "sum", ranges = #[[CHUNKS]]

// A prime number of elements: the last chunk is short, filled with what changes nothing.
// CHECK: [[OK:%[0-9]+]] = arith.cmpi slt
// CHECK: scf.if [[OK]] -> (f32)
// CHECK: } else {
// CHECK: arith.constant 0xFF800000 : f32
// CHECK: kind = "max"

// An unknown number of elements, and enough results: left alone.
// CHECK: bascule.reduce
// CHECK: kind = "sum", ranges = #{{map[0-9]*}}}
// CHECK-NOT: bascule.chunks
// CHECK: return

// REMARK-DAG: bascule.compute split into 8 chunks of 64: 1 results of 512 elements each
// REMARK-DAG: bascule.compute not split: the number of its elements is not known; 1 results of 256 elements each
func.func @main(%n: index, %x: tensor<512xf32>, %odd: tensor<509xf32>, %any: tensor<?xf32, #vector> {bascule.shape = affine_map<()[s0] -> (s0)>}, %rows: tensor<32x64xf32>)
    -> (tensor<f32>, tensor<i64>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<32xf32>) attributes {bascule.graph, bascule.symbols = ["s0"]} {
  %sum = "bascule.compute"() ({
    %r = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %x[%k] : tensor<512xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (512)>} : () -> f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> ()>} : () -> tensor<f32>
  %place = "bascule.compute"() ({
    %r = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %x[%k] : tensor<512xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "argmax", ranges = affine_map<() -> (512)>} : () -> i64
    "bascule.yield"(%r) : (i64) -> ()
  }) {ranges = affine_map<() -> ()>} : () -> tensor<i64>
  %squares = "bascule.compute"() ({
    %r:3 = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %x[%k] : tensor<512xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "welford", ranges = affine_map<() -> (512)>} : () -> (f32, f32, f32)
    "bascule.yield"(%r#1) : (f32) -> ()
  }) {ranges = affine_map<() -> ()>} : () -> tensor<f32>
  %most = "bascule.compute"() ({
    %r = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %odd[%k] : tensor<509xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "max", ranges = affine_map<() -> (509)>} : () -> f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> ()>} : () -> tensor<f32>
  %unknown = "bascule.compute"() ({
    %r = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %any[%k] : tensor<?xf32, #vector>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<()[s0] -> (s0)>} : () -> f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> ()>} : () -> tensor<f32>
  %many = "bascule.compute"() ({
  ^bb0(%i: index):
    %r = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %rows[%i, %k] : tensor<32x64xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (64)>} : () -> f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (32)>} : () -> tensor<32xf32>
  return %sum, %place, %squares, %most, %unknown, %many : tensor<f32>, tensor<i64>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<32xf32>
}

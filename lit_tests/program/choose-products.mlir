// RUN: bascule-opt %s --choose-products=onednn=true | filecheck %s
// RUN: bascule-opt %s --choose-products | filecheck %s --check-prefix=OFF
// RUN: bascule-run %s --interpret-only --pipeline='choose-products{onednn=true}'

func.func private @aten.mm(tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32> attributes {bascule.extern = "aten.mm.default", bascule.arguments = [#bascule.operand<0>, #bascule.operand<1>], bascule.results = array<i64: 0>, bascule.out = "aten.mm.out"}
func.func private @aten.mm_1(tensor<128x128xf32>, tensor<128x128xf32, #bascule.layout<affine_map<(d0, d1) -> (d0 + d1 * 128)>>>) -> tensor<128x128xf32> attributes {bascule.extern = "aten.mm.default", bascule.arguments = [#bascule.operand<0>, #bascule.operand<1>], bascule.results = array<i64: 0>, bascule.out = "aten.mm.out"}
func.func private @aten.mm_2(tensor<128x128xf32>, tensor<128x128xf32, #bascule.layout<affine_map<(d0, d1) -> (d0 * 256 + d1 * 2)>>>) -> tensor<128x128xf32> attributes {bascule.extern = "aten.mm.default", bascule.arguments = [#bascule.operand<0>, #bascule.operand<1>], bascule.results = array<i64: 0>, bascule.out = "aten.mm.out"}
func.func private @aten.mm_3(tensor<32x128xf32>, tensor<128x32xf32>) -> tensor<32x32xf32> attributes {bascule.extern = "aten.mm.default", bascule.arguments = [#bascule.operand<0>, #bascule.operand<1>], bascule.results = array<i64: 0>, bascule.out = "aten.mm.out"}
func.func private @aten.mm_4(tensor<128x128xf64>, tensor<128x128xf64>) -> tensor<128x128xf64> attributes {bascule.extern = "aten.mm.default", bascule.arguments = [#bascule.operand<0>, #bascule.operand<1>], bascule.results = array<i64: 0>, bascule.out = "aten.mm.out"}
func.func private @aten.addmm(tensor<128xf32>, tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32> attributes {bascule.extern = "aten.addmm.default", bascule.arguments = [#bascule.operand<0>, #bascule.operand<1>, #bascule.operand<2>, 1 : i64, 1 : i64], bascule.results = array<i64: 0>, bascule.out = "aten.addmm.out"}
func.func private @aten.addmm_1(tensor<128xf32>, tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32> attributes {bascule.extern = "aten.addmm.default", bascule.arguments = [#bascule.operand<0>, #bascule.operand<1>, #bascule.operand<2>, 2 : i64, 1 : i64], bascule.results = array<i64: 0>, bascule.out = "aten.addmm.out"}
func.func private @aten.addmm_2(tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32> attributes {bascule.extern = "aten.addmm.default", bascule.arguments = [#bascule.operand<0>, #bascule.operand<0>, #bascule.operand<1>, 1 : i64, 1 : i64], bascule.results = array<i64: 0>, bascule.out = "aten.addmm.out"}

// CHECK: #map2 = affine_map<(d0, d1) -> (d1, d0)>
// Declarations that nothing calls any more go.
// CHECK-NOT: func.func private @aten.mm(
// CHECK: func.func private @mkldnn._linear_pointwise{{.*}}#bascule.operand<2 : i64>, "none", [], ""], bascule.extern = "mkldnn._linear_pointwise.default"
// CHECK: func.func private @mkldnn._linear_pointwise{{.*}}#bascule.operand<1 : i64>, unit, "none", [], ""], bascule.extern = "mkldnn._linear_pointwise.default"
// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[X:.*]]: tensor<128x128xf32>, %[[W:.*]]: tensor<128x128xf32>, %[[R:.*]]: tensor<128xf32>,
// OFF-NOT: mkldnn
func.func @main(%x: tensor<128x128xf32>, %w: tensor<128x128xf32>, %r: tensor<128xf32>, %s: tensor<32x128xf32>, %t: tensor<128x32xf32>, %d: tensor<128x128xf64>, %z: tensor<128x128xf32, #bascule.layout<affine_map<(d0, d1) -> (d0 * 256 + d1 * 2)>>>) -> (tensor<128x128xf32>, tensor<128x128xf32>, tensor<128x128xf32>, tensor<128x128xf32>, tensor<128x128xf32>, tensor<128x128xf32>, tensor<32x32xf32>, tensor<128x128xf64>) attributes {bascule.graph} {
  // The second matrix is taken transposed.
  // CHECK: %[[V:.*]] = "bascule.view"(%[[W]]) {map = #map2
  // CHECK-NEXT: call @mkldnn._linear_pointwise{{.*}}(%[[X]], %[[V]])
  %0 = call @aten.mm(%x, %w) : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
  // Of a transposed view, its source.
  // CHECK: call @mkldnn._linear_pointwise{{.*}}(%[[X]], %[[W]])
  %v = "bascule.view"(%w) {map = affine_map<(d0, d1) -> (d1, d0)>, shape = affine_map<() -> (128, 128)>} : (tensor<128x128xf32>) -> tensor<128x128xf32, #bascule.layout<affine_map<(d0, d1) -> (d0 + d1 * 128)>>>
  %1 = call @aten.mm_1(%x, %v) : (tensor<128x128xf32>, tensor<128x128xf32, #bascule.layout<affine_map<(d0, d1) -> (d0 + d1 * 128)>>>) -> tensor<128x128xf32>
  // A row is added.
  // CHECK: call @mkldnn._linear_pointwise{{.*}}(%[[X]], %{{.*}}, %[[R]])
  %2 = call @aten.addmm(%r, %x, %w) : (tensor<128xf32>, tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
  // A factor; a matrix that is added; strides of two; few multiplications; f64: these stay.
  // CHECK: call @aten.addmm_1
  %3 = call @aten.addmm_1(%r, %x, %w) : (tensor<128xf32>, tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
  // CHECK: call @aten.addmm_2
  %4 = call @aten.addmm_2(%x, %w) : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
  // CHECK: call @aten.mm_2
  %5 = call @aten.mm_2(%x, %z) : (tensor<128x128xf32>, tensor<128x128xf32, #bascule.layout<affine_map<(d0, d1) -> (d0 * 256 + d1 * 2)>>>) -> tensor<128x128xf32>
  // CHECK: call @aten.mm_3
  %6 = call @aten.mm_3(%s, %t) : (tensor<32x128xf32>, tensor<128x32xf32>) -> tensor<32x32xf32>
  // CHECK: call @aten.mm_4
  %7 = call @aten.mm_4(%d, %d) : (tensor<128x128xf64>, tensor<128x128xf64>) -> tensor<128x128xf64>
  return %0, %1, %2, %3, %4, %5, %6, %7 : tensor<128x128xf32>, tensor<128x128xf32>, tensor<128x128xf32>, tensor<128x128xf32>, tensor<128x128xf32>, tensor<128x128xf32>, tensor<32x32xf32>, tensor<128x128xf64>
}

// oneDNN would copy a first matrix that is transposed: it does where that is little beside what the graph is given, or its step without a budget.
func.func private @aten.mm_5(tensor<128x128xf32, #bascule.layout<affine_map<(d0, d1) -> (d0 + d1 * 128)>>>, tensor<128x128xf32>) -> tensor<128x128xf32> attributes {bascule.extern = "aten.mm.default", bascule.arguments = [#bascule.operand<0>, #bascule.operand<1>], bascule.results = array<i64: 0>, bascule.out = "aten.mm.out"}

// CHECK-LABEL: func.func @little_given
// CHECK: call @aten.mm_5
func.func @little_given(%x: tensor<128x128xf32, #bascule.layout<affine_map<(d0, d1) -> (d0 + d1 * 128)>>>, %w: tensor<128x128xf32>) -> tensor<128x128xf32> attributes {bascule.graph} {
  %0 = call @aten.mm_5(%x, %w) : (tensor<128x128xf32, #bascule.layout<affine_map<(d0, d1) -> (d0 + d1 * 128)>>>, tensor<128x128xf32>) -> tensor<128x128xf32>
  return %0 : tensor<128x128xf32>
}

// CHECK-LABEL: func.func @more_without_a_budget
// CHECK: call @mkldnn._linear_pointwise
func.func @more_without_a_budget(%x: tensor<128x128xf32, #bascule.layout<affine_map<(d0, d1) -> (d0 + d1 * 128)>>>, %w: tensor<128x128xf32>) -> tensor<128x128xf32> attributes {bascule.graph, bascule.given_bytes = 2097152 : i64} {
  %0 = call @aten.mm_5(%x, %w) : (tensor<128x128xf32, #bascule.layout<affine_map<(d0, d1) -> (d0 + d1 * 128)>>>, tensor<128x128xf32>) -> tensor<128x128xf32>
  return %0 : tensor<128x128xf32>
}

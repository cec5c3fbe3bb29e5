// Products of f32 for tensor cores: their sums say that factors may be rounded to TF32, where PyTorch allows it.
// RUN: bascule-opt %s --expand-products='target=cuda contractions=true tf32=true' | filecheck %s
// RUN: bascule-opt %s --expand-products='target=cuda contractions=true' | filecheck %s --check-prefix=EXACT
// RUN: bascule-opt %s --expand-products='target=cuda tf32=true' | filecheck %s --check-prefix=EXACT
// RUN: bascule-opt %s --expand-grouped-products='target=cuda tf32=true' | filecheck %s --check-prefix=GROUPED
// RUN: bascule-opt %s --expand-grouped-products='target=cuda' | filecheck %s --check-prefix=LOOP

func.func private @aten.mm(tensor<64x48xf32>, tensor<48x80xf32>) -> tensor<64x80xf32> attributes {bascule.extern = "aten.mm.default", bascule.arguments = [#bascule.operand<0>, #bascule.operand<1>], bascule.results = array<i64: 0>, bascule.out = "aten.mm.out"}
func.func private @aten.mm_1(tensor<1x48xf32>, tensor<48x80xf32, #bascule.layout<affine_map<(d0, d1) -> (d0 + d1 * 48)>>>) -> tensor<1x80xf32> attributes {bascule.extern = "aten.mm.default", bascule.arguments = [#bascule.operand<0>, #bascule.operand<1>], bascule.results = array<i64: 0>, bascule.out = "aten.mm.out"}
func.func private @gmm(tensor<8192x512xf32>, tensor<8x512x3584xf32>, tensor<8xi32>) -> tensor<8192x3584xf32> attributes {bascule.arguments = [#bascule.operand<0>, #bascule.operand<1>, #bascule.operand<2>], bascule.extern = "bascule.grouped_mm.default", bascule.results = array<i64: 0>}
func.func private @sums(tensor<3584x8192xf32>, tensor<8192x512xf32>, tensor<8xi32>) -> tensor<8x3584x512xf32> attributes {bascule.arguments = [#bascule.operand<0>, #bascule.operand<1>, #bascule.operand<2>], bascule.extern = "bascule.grouped_mm.default", bascule.results = array<i64: 0>}

// CHECK-LABEL: func.func @products
// CHECK-NOT: call @
// CHECK: {bascule.input_precision = "tf32", kind = "sum"
// A row is read as fast as it is multiplied: no tensor core does.
// CHECK: "bascule.reduce"
// CHECK-NOT: input_precision
// CHECK: return
// EXACT-LABEL: func.func @products
// EXACT: call @aten.mm(
// EXACT-NOT: input_precision
func.func @products(%x: tensor<64x48xf32>, %w: tensor<48x80xf32>, %r: tensor<1x48xf32>, %v: tensor<48x80xf32, #bascule.layout<affine_map<(d0, d1) -> (d0 + d1 * 48)>>>) -> (tensor<64x80xf32>, tensor<1x80xf32>) attributes {bascule.graph} {
  %0 = call @aten.mm(%x, %w) : (tensor<64x48xf32>, tensor<48x80xf32>) -> tensor<64x80xf32>
  %1 = call @aten.mm_1(%r, %v) : (tensor<1x48xf32>, tensor<48x80xf32, #bascule.layout<affine_map<(d0, d1) -> (d0 + d1 * 48)>>>) -> tensor<1x80xf32>
  return %0, %1 : tensor<64x80xf32>, tensor<1x80xf32>
}

// What a loop on the host would multiply group by group is a kernel, if that is estimated to take less time. The count of the groups is no sum of
// products. Where sums are in groups one factor lies along the sum, here the first one.
// GROUPED-LABEL: func.func @grouped
// GROUPED-NOT: call @
// GROUPED: arith.cmpi sle
// GROUPED-NOT: input_precision
// GROUPED: arith.mulf
// GROUPED: {bascule.input_precision = "tf32", kind = "sum"
// GROUPED-NOT: bascule.stored
// GROUPED: arith.mulf
// GROUPED: {bascule.input_precision = "tf32", kind = "sum"
// LOOP: call @gmm
// LOOP: call @sums
// LOOP-SAME: reason = "a kernel would take {{[0-9]+}} us, a loop on the host takes {{[0-9]+}}"
func.func @grouped(%x: tensor<8192x512xf32>, %w: tensor<8x512x3584xf32>, %o: tensor<8xi32>, %g: tensor<3584x8192xf32>) -> (tensor<8192x3584xf32>, tensor<8x3584x512xf32>) attributes {bascule.graph} {
  %0 = call @gmm(%x, %w, %o) : (tensor<8192x512xf32>, tensor<8x512x3584xf32>, tensor<8xi32>) -> tensor<8192x3584xf32>
  %1 = call @sums(%g, %x, %o) : (tensor<3584x8192xf32>, tensor<8192x512xf32>, tensor<8xi32>) -> tensor<8x3584x512xf32>
  return %0, %1 : tensor<8192x3584xf32>, tensor<8x3584x512xf32>
}

func.func private @across(tensor<512x8192xf32, #bascule.layout<affine_map<(d0, d1) -> (d0 + d1 * 512)>>>, tensor<8192x1792xf32>, tensor<8xi32>) -> tensor<8x512x1792xf32> attributes {bascule.arguments = [#bascule.operand<0>, #bascule.operand<1>, #bascule.operand<2>], bascule.extern = "bascule.grouped_mm.default", bascule.results = array<i64: 0>}

// Where both lie across it the smaller one is copied.
// GROUPED-LABEL: func.func @both_across
// GROUPED: %[[copy:.*]] = "bascule.compute"
// GROUPED: {bascule.stored, {{.*}} -> tensor<512x8192xf32>
// GROUPED-NOT: bascule.stored
// GROUPED: tensor.extract %[[copy]][
// GROUPED: {bascule.input_precision = "tf32", kind = "sum"
func.func @both_across(%x: tensor<512x8192xf32, #bascule.layout<affine_map<(d0, d1) -> (d0 + d1 * 512)>>>, %y: tensor<8192x1792xf32>, %o: tensor<8xi32>) -> tensor<8x512x1792xf32> attributes {bascule.graph} {
  %0 = call @across(%x, %y, %o) : (tensor<512x8192xf32, #bascule.layout<affine_map<(d0, d1) -> (d0 + d1 * 512)>>>, tensor<8192x1792xf32>, tensor<8xi32>) -> tensor<8x512x1792xf32>
  return %0 : tensor<8x512x1792xf32>
}

// RUN: bascule-opt %s --expand-products='target=cuda sm-count=1' | filecheck %s
// RUN: bascule-opt %s --expand-products='target=cuda sm-count=1 capability=80' | filecheck %s --check-prefix=CALLS
// RUN: bascule-opt %s --expand-products='target=cuda sm-count=1 numerics=eager' | filecheck %s --check-prefix=CALLS
// RUN: bascule-opt %s --expand-products='target=cuda sm-count=2' | filecheck %s --check-prefix=CALLS

#transposed = #bascule.layout<affine_map<(d0, d1) -> (d0 + d1 * 64)>>
#same = affine_map<(d0, d1) -> (d0, d1)>

func.func private @aten.mm(tensor<128x64xbf16>, tensor<64x64xbf16, #transposed>) -> tensor<128x64xbf16> attributes {bascule.extern = "aten.mm.default", bascule.arguments = [#bascule.operand<0>, #bascule.operand<1>], bascule.results = array<i64: 0>, bascule.out = "aten.mm.out"}

// Both become computes: a pointwise op joins them, and only it reads them. They see the same of one matrix.
// CHECK-LABEL: func.func @joined(
// CHECK-NOT: call @
// CHECK: return
// CALLS-LABEL: func.func @joined(
// CALLS-COUNT-2: call @aten.mm
func.func @joined(%x: tensor<128x64xbf16>, %w: tensor<64x64xbf16, #transposed>, %v: tensor<64x64xbf16, #transposed>) -> tensor<128x64xbf16> attributes {bascule.graph} {
  %a = "bascule.view"(%x) {map = #same, shape = affine_map<() -> (128, 64)>} : (tensor<128x64xbf16>) -> tensor<128x64xbf16>
  %p = call @aten.mm(%a, %w) : (tensor<128x64xbf16>, tensor<64x64xbf16, #transposed>) -> tensor<128x64xbf16>
  %n = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %p[%i, %j] : tensor<128x64xbf16>
    %m = arith.negf %e : bf16
    "bascule.yield"(%m) : (bf16) -> ()
  }) {ranges = affine_map<() -> (128, 64)>} : () -> tensor<128x64xbf16>
  %b = "bascule.view"(%x) {map = #same, shape = affine_map<() -> (128, 64)>} : (tensor<128x64xbf16>) -> tensor<128x64xbf16>
  %q = call @aten.mm(%b, %v) : (tensor<128x64xbf16>, tensor<64x64xbf16, #transposed>) -> tensor<128x64xbf16>
  %r = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %n[%i, %j] : tensor<128x64xbf16>
    %f = tensor.extract %q[%i, %j] : tensor<128x64xbf16>
    %m = arith.mulf %e, %f : bf16
    "bascule.yield"(%m) : (bf16) -> ()
  }) {ranges = affine_map<() -> (128, 64)>} : () -> tensor<128x64xbf16>
  return %r : tensor<128x64xbf16>
}

// One is asked for itself, as where a backward needs it: the other is a kernel with what reads both.
// CHECK-LABEL: func.func @returned(
// CHECK: {bascule.tuned_product, kind = "sum"
// CHECK: call @aten.mm
// CHECK-NOT: decision
// CHECK: return
// CALLS-LABEL: func.func @returned(
// CALLS-COUNT-2: call @aten.mm
func.func @returned(%x: tensor<128x64xbf16>, %w: tensor<64x64xbf16, #transposed>, %v: tensor<64x64xbf16, #transposed>) -> (tensor<128x64xbf16>, tensor<128x64xbf16>) attributes {bascule.graph} {
  %p = call @aten.mm(%x, %w) : (tensor<128x64xbf16>, tensor<64x64xbf16, #transposed>) -> tensor<128x64xbf16>
  %q = call @aten.mm(%x, %v) : (tensor<128x64xbf16>, tensor<64x64xbf16, #transposed>) -> tensor<128x64xbf16>
  %r = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %p[%i, %j] : tensor<128x64xbf16>
    %f = tensor.extract %q[%i, %j] : tensor<128x64xbf16>
    %m = arith.mulf %e, %f : bf16
    "bascule.yield"(%m) : (bf16) -> ()
  }) {ranges = affine_map<() -> (128, 64)>} : () -> tensor<128x64xbf16>
  return %r, %q : tensor<128x64xbf16>, tensor<128x64xbf16>
}

// Of two matrices; and a row of what is joined is summed, which the kernel of the products would not be.
// One of two matrices is a kernel with what joins them.
// CHECK-LABEL: func.func @apart(
// CHECK: {bascule.tuned_product, kind = "sum"
// CHECK: call @aten.mm
// CHECK-SAME: that is computed with another product
// CALLS-LABEL: func.func @apart(
// CALLS-COUNT-2: call @aten.mm
func.func @apart(%x: tensor<128x64xbf16>, %y: tensor<128x64xbf16>, %w: tensor<64x64xbf16, #transposed>) -> tensor<128x64xbf16> attributes {bascule.graph} {
  %p = call @aten.mm(%x, %w) : (tensor<128x64xbf16>, tensor<64x64xbf16, #transposed>) -> tensor<128x64xbf16>
  %q = call @aten.mm(%y, %w) : (tensor<128x64xbf16>, tensor<64x64xbf16, #transposed>) -> tensor<128x64xbf16>
  %r = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %p[%i, %j] : tensor<128x64xbf16>
    %f = tensor.extract %q[%i, %j] : tensor<128x64xbf16>
    %m = arith.mulf %e, %f : bf16
    "bascule.yield"(%m) : (bf16) -> ()
  }) {ranges = affine_map<() -> (128, 64)>} : () -> tensor<128x64xbf16>
  return %r : tensor<128x64xbf16>
}

// CHECK-LABEL: func.func @summed(
// CHECK-COUNT-2: call @aten.mm
func.func @summed(%x: tensor<128x64xbf16>, %w: tensor<64x64xbf16, #transposed>, %v: tensor<64x64xbf16, #transposed>) -> tensor<128xbf16> attributes {bascule.graph} {
  %p = call @aten.mm(%x, %w) : (tensor<128x64xbf16>, tensor<64x64xbf16, #transposed>) -> tensor<128x64xbf16>
  %q = call @aten.mm(%x, %v) : (tensor<128x64xbf16>, tensor<64x64xbf16, #transposed>) -> tensor<128x64xbf16>
  %r = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %p[%i, %j] : tensor<128x64xbf16>
    %f = tensor.extract %q[%i, %j] : tensor<128x64xbf16>
    %m = arith.mulf %e, %f : bf16
    "bascule.yield"(%m) : (bf16) -> ()
  }) {ranges = affine_map<() -> (128, 64)>} : () -> tensor<128x64xbf16>
  %s = "bascule.compute"() ({
  ^bb0(%i: index):
    %t = "bascule.reduce"() ({
    ^bb0(%j: index):
      %e = tensor.extract %r[%i, %j] : tensor<128x64xbf16>
      "bascule.yield"(%e) : (bf16) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (64)>} : () -> bf16
    "bascule.yield"(%t) : (bf16) -> ()
  }) {ranges = affine_map<() -> (128)>} : () -> tensor<128xbf16>
  return %s : tensor<128xbf16>
}

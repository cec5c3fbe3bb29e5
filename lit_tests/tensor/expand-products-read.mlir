// RUN: bascule-opt %s --expand-products='target=cuda' | filecheck %s
// RUN: bascule-opt %s --expand-products='target=cuda capability=80' | filecheck %s --check-prefix=CALLS
// RUN: bascule-opt %s --expand-products='target=cuda numerics=eager' | filecheck %s --check-prefix=CALLS

// Products that a pointwise compute alone reads: kernels with it, where the model of the machine has them take less time.

func.func private @aten.mm(tensor<8192x768xbf16>, tensor<768x3072xbf16>) -> tensor<8192x3072xbf16> attributes {bascule.extern = "aten.mm.default", bascule.arguments = [#bascule.operand<0>, #bascule.operand<1>], bascule.results = array<i64: 0>, bascule.out = "aten.mm.out"}
func.func private @aten.mm_1(tensor<8192x3072xbf16>, tensor<3072x768xbf16>) -> tensor<8192x768xbf16> attributes {bascule.extern = "aten.mm.default", bascule.arguments = [#bascule.operand<0>, #bascule.operand<1>], bascule.results = array<i64: 0>, bascule.out = "aten.mm.out"}
func.func private @aten.mm_2(tensor<8192x770xbf16>, tensor<770x3072xbf16>) -> tensor<8192x3072xbf16> attributes {bascule.extern = "aten.mm.default", bascule.arguments = [#bascule.operand<0>, #bascule.operand<1>], bascule.results = array<i64: 0>, bascule.out = "aten.mm.out"}
func.func private @aten.mm_3(tensor<64x48xbf16>, tensor<48x80xbf16>) -> tensor<64x80xbf16> attributes {bascule.extern = "aten.mm.default", bascule.arguments = [#bascule.operand<0>, #bascule.operand<1>], bascule.results = array<i64: 0>, bascule.out = "aten.mm.out"}

// CALLS-NOT: "bascule.reduce"

// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<8192x768xbf16>, %w: tensor<768x3072xbf16>, %v: tensor<768x3072xbf16>, %u: tensor<3072x768xbf16>, %r: tensor<8192x768xbf16>, %y: tensor<8192x770xbf16>, %z: tensor<770x3072xbf16>, %s: tensor<64x48xbf16>, %t: tensor<48x80xbf16>) -> (tensor<8192x3072xbf16>, tensor<8192x768xbf16>, tensor<8192x3000xbf16>, tensor<8192x3072xbf16>, tensor<8192x3072xbf16>, tensor<8192x3072xbf16>, tensor<64x80xbf16>) attributes {bascule.graph} {
  // CHECK: {bascule.tuned_product, kind = "sum"
  // CHECK: decision = "with what reads it is a kernel"{{.*}}reason = "8192x768x3072 (rows, summed, columns): about {{.*}} us with what reads it, {{.*}} us as a call and a kernel behind it"
  %0 = call @aten.mm(%x, %w) : (tensor<8192x768xbf16>, tensor<768x3072xbf16>) -> tensor<8192x3072xbf16>
  %1 = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %0[%i, %j] : tensor<8192x3072xbf16>
    %f = arith.extf %e : bf16 to f32
    %g = math.erf %f : f32
    %h = arith.truncf %g : f32 to bf16
    "bascule.yield"(%h) : (bf16) -> ()
  }) {ranges = affine_map<() -> (8192, 3072)>} : () -> tensor<8192x3072xbf16>
  // Tiles in two turns, of which the second is half empty: a library has others.
  // CHECK: call @aten.mm_1
  // CHECK-SAME: decision = "with what reads it is no kernel"
  %2 = call @aten.mm_1(%1, %u) : (tensor<8192x3072xbf16>, tensor<3072x768xbf16>) -> tensor<8192x768xbf16>
  %3 = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %2[%i, %j] : tensor<8192x768xbf16>
    %f = tensor.extract %r[%i, %j] : tensor<8192x768xbf16>
    %g = arith.addf %e, %f : bf16
    "bascule.yield"(%g) : (bf16) -> ()
  }) {ranges = affine_map<() -> (8192, 768)>} : () -> tensor<8192x768xbf16>
  // A view is read through: what was padded is cut without a copy.
  // CHECK: {bascule.tuned_product, kind = "sum"
  %4 = call @aten.mm(%x, %v) : (tensor<8192x768xbf16>, tensor<768x3072xbf16>) -> tensor<8192x3072xbf16>
  %5 = "bascule.view"(%4) {map = affine_map<(d0, d1) -> (d0, d1)>, shape = affine_map<() -> (8192, 3000)>} : (tensor<8192x3072xbf16>) -> tensor<8192x3000xbf16, #bascule.layout<affine_map<(d0, d1) -> (d0 * 3072 + d1)>>>
  %6 = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %5[%i, %j] : tensor<8192x3000xbf16, #bascule.layout<affine_map<(d0, d1) -> (d0 * 3072 + d1)>>>
    "bascule.yield"(%e) : (bf16) -> ()
  }) {ranges = affine_map<() -> (8192, 3000)>} : () -> tensor<8192x3000xbf16>
  // It is returned too.
  // CHECK: call @aten.mm(
  // CHECK-NOT: decision
  %7 = call @aten.mm(%x, %v) : (tensor<8192x768xbf16>, tensor<768x3072xbf16>) -> tensor<8192x3072xbf16>
  %8 = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %7[%i, %j] : tensor<8192x3072xbf16>
    %f = arith.addf %e, %e : bf16
    "bascule.yield"(%f) : (bf16) -> ()
  }) {ranges = affine_map<() -> (8192, 3072)>} : () -> tensor<8192x3072xbf16>
  // Rows that no descriptor loads; few tiles.
  // CHECK: call @aten.mm_2
  %9 = call @aten.mm_2(%y, %z) : (tensor<8192x770xbf16>, tensor<770x3072xbf16>) -> tensor<8192x3072xbf16>
  %10 = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %9[%i, %j] : tensor<8192x3072xbf16>
    %f = arith.addf %e, %e : bf16
    "bascule.yield"(%f) : (bf16) -> ()
  }) {ranges = affine_map<() -> (8192, 3072)>} : () -> tensor<8192x3072xbf16>
  // CHECK: call @aten.mm_3
  %11 = call @aten.mm_3(%s, %t) : (tensor<64x48xbf16>, tensor<48x80xbf16>) -> tensor<64x80xbf16>
  %12 = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %11[%i, %j] : tensor<64x80xbf16>
    %f = arith.addf %e, %e : bf16
    "bascule.yield"(%f) : (bf16) -> ()
  }) {ranges = affine_map<() -> (64, 80)>} : () -> tensor<64x80xbf16>
  return %1, %3, %6, %7, %8, %10, %12 : tensor<8192x3072xbf16>, tensor<8192x768xbf16>, tensor<8192x3000xbf16>, tensor<8192x3072xbf16>, tensor<8192x3072xbf16>, tensor<8192x3072xbf16>, tensor<64x80xbf16>
}

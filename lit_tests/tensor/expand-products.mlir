// RUN: bascule-opt %s --expand-products='target=cuda rows=1' | filecheck %s
// RUN: bascule-opt %s --expand-products | filecheck %s --check-prefix=CPU
// RUN: bascule-opt %s --expand-products='target=cuda across=true rows=1' | filecheck %s --check-prefix=ACROSS
// RUN: bascule-opt %s --expand-products=target=cuda | filecheck %s --check-prefix=ROWS
// RUN: bascule-run %s --interpret-only --pipeline='expand-products{target=cuda rows=2 across=true}'

#transposed = #bascule.layout<affine_map<(d0, d1) -> (d0 + d1 * 64)>>

func.func private @aten.mm(tensor<1x64xbf16>, tensor<64x32xbf16, #transposed>) -> tensor<1x32xbf16> attributes {bascule.extern = "aten.mm.default", bascule.arguments = [#bascule.operand<0>, #bascule.operand<1>], bascule.results = array<i64: 0>, bascule.out = "aten.mm.out"}
func.func private @aten.addmm(tensor<1xf64>, tensor<32x64xf64>, tensor<64x1xf64>) -> tensor<32x1xf64> attributes {bascule.extern = "aten.addmm.default", bascule.arguments = [#bascule.operand<0>, #bascule.operand<1>, #bascule.operand<2>, 2.0 : f64, 3 : i64], bascule.results = array<i64: 0>, bascule.out = "aten.addmm.out"}
func.func private @aten.baddbmm(tensor<1xf32>, tensor<4x8x1xf32>, tensor<4x1x16xf32>) -> tensor<4x8x16xf32> attributes {bascule.extern = "aten.baddbmm.default", bascule.arguments = [#bascule.operand<0>, #bascule.operand<1>, #bascule.operand<2>, 0 : i64, 1 : i64], bascule.results = array<i64: 0>, bascule.out = "aten.baddbmm.out"}
func.func private @aten.mm_1(tensor<1x64xf32>, tensor<64x32xf32>) -> tensor<1x32xf32> attributes {bascule.extern = "aten.mm.default", bascule.arguments = [#bascule.operand<0>, #bascule.operand<1>], bascule.results = array<i64: 0>, bascule.out = "aten.mm.out"}
func.func private @aten.mm_2(tensor<2x64xf32>, tensor<64x32xf32, #transposed>) -> tensor<2x32xf32> attributes {bascule.extern = "aten.mm.default", bascule.arguments = [#bascule.operand<0>, #bascule.operand<1>], bascule.results = array<i64: 0>, bascule.out = "aten.mm.out"}
func.func private @aten.mm_3(tensor<32x64xf32>, tensor<64x32xf32, #transposed>) -> tensor<32x32xf32> attributes {bascule.extern = "aten.mm.default", bascule.arguments = [#bascule.operand<0>, #bascule.operand<1>], bascule.results = array<i64: 0>, bascule.out = "aten.mm.out"}
func.func private @aten.mm_4(tensor<1x64xi32>, tensor<64x32xi32, #transposed>) -> tensor<1x32xi32> attributes {bascule.extern = "aten.mm.default", bascule.arguments = [#bascule.operand<0>, #bascule.operand<1>], bascule.results = array<i64: 0>, bascule.out = "aten.mm.out"}

// On a CPU, the BLAS library's.
// CPU-NOT: bascule.compute
// CPU-COUNT-7: call @aten

// Declarations that nothing calls any more go.
// CHECK-NOT: func.func private @aten.mm(
// CHECK-NOT: func.func private @aten.addmm(
// CHECK-NOT: func.func private @aten.baddbmm(
// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[X:.*]]: tensor<1x64xbf16>, %[[W:.*]]: tensor<64x32xbf16, {{.*}}>, %[[M:.*]]: tensor<32x64xf64>, %[[C:.*]]: tensor<64x1xf64>, %[[B:.*]]: tensor<1xf64>
func.func @main(%x: tensor<1x64xbf16>, %w: tensor<64x32xbf16, #transposed>, %m: tensor<32x64xf64>, %c: tensor<64x1xf64>, %b: tensor<1xf64>, %o: tensor<4x8x1xf32>, %p: tensor<4x1x16xf32>, %z: tensor<1xf32>, %y: tensor<1x64xf32>, %v: tensor<64x32xf32>, %y2: tensor<2x64xf32>, %t: tensor<64x32xf32, #transposed>, %s: tensor<32x64xf32>, %i: tensor<1x64xi32>, %j: tensor<64x32xi32, #transposed>) -> (tensor<1x32xbf16>, tensor<32x1xf64>, tensor<4x8x16xf32>, tensor<1x32xf32>, tensor<2x32xf32>, tensor<32x32xf32>, tensor<1x32xi32>) attributes {bascule.graph} {
  // One row: summed in f32, rounded once.
  // CHECK: "bascule.compute"
  // CHECK-NEXT: ^bb0(%[[R:.*]]: index, %[[N:.*]]: index):
  // CHECK-NEXT: %[[SUM:.*]] = "bascule.reduce"
  // CHECK-NEXT: ^bb0(%[[K:.*]]: index):
  // CHECK-NEXT: %[[E:.*]] = tensor.extract %[[X]][%[[R]], %[[K]]]
  // CHECK-NEXT: %[[EF:.*]] = arith.extf %[[E]]
  // CHECK-NEXT: %[[F:.*]] = tensor.extract %[[W]][%[[K]], %[[N]]]
  // CHECK-NEXT: %[[FF:.*]] = arith.extf %[[F]]
  // CHECK-NEXT: %[[T:.*]] = arith.mulf %[[EF]], %[[FF]] : f32
  // CHECK-NEXT: "bascule.yield"(%[[T]])
  // CHECK-NEXT: {kind = "sum"
  // CHECK-NEXT: arith.truncf %[[SUM]] : f32 to bf16
  // CHECK: bascule.remarks = [{{.*}}decision = "expanded", kind = "passed", op = "func.call", pass = "expand-products", reason = "1x64x32 (rows, summed, columns)"}]
  %0 = call @aten.mm(%x, %w) : (tensor<1x64xbf16>, tensor<64x32xbf16, #transposed>) -> tensor<1x32xbf16>
  // One column, with factors; what is added broadcasts.
  // CHECK: %[[SUM:.*]] = "bascule.reduce"
  // CHECK: %[[THREE:.*]] = arith.constant 3.0
  // CHECK: %[[SCALED:.*]] = arith.mulf %[[SUM]], %[[THREE]] : f64
  // CHECK: tensor.extract %[[B]][
  // CHECK: arith.constant 2.0
  // CHECK: arith.addf %[[SCALED]]
  %1 = call @aten.addmm(%b, %m, %c) : (tensor<1xf64>, tensor<32x64xf64>, tensor<64x1xf64>) -> tensor<32x1xf64>
  // An outer product is pointwise; what is added times zero is not read.
  // CHECK: "bascule.compute"
  // CHECK-NOT: reduce
  // CHECK-NOT: addf
  // CHECK: -> tensor<4x8x16xf32>
  %2 = call @aten.baddbmm(%z, %o, %p) : (tensor<1xf32>, tensor<4x8x1xf32>, tensor<4x1x16xf32>) -> tensor<4x8x16xf32>
  // Memory runs along the results.
  // CHECK: call @aten.mm_1
  // CHECK-SAME: bascule.remarks = [{{.*}}decision = "of few rows stays a call", kind = "missed", op = "func.call", pass = "expand-products", reason = "memory does not run along what is summed"}]
  // ACROSS-NOT: call @aten.mm_1
  %3 = call @aten.mm_1(%y, %v) : (tensor<1x64xf32>, tensor<64x32xf32>) -> tensor<1x32xf32>
  // Two rows; many rows; integers.
  // CHECK: call @aten.mm_2
  // CHECK-SAME: bascule.remarks = [{{.*}}reason = "it has 2, more than 1
  // ROWS-NOT: call @aten.mm_2
  %4 = call @aten.mm_2(%y2, %t) : (tensor<2x64xf32>, tensor<64x32xf32, #transposed>) -> tensor<2x32xf32>
  // CHECK: call @aten.mm_3
  // CHECK-NOT: remarks
  %5 = call @aten.mm_3(%s, %t) : (tensor<32x64xf32>, tensor<64x32xf32, #transposed>) -> tensor<32x32xf32>
  // CHECK: call @aten.mm_4
  %6 = call @aten.mm_4(%i, %j) : (tensor<1x64xi32>, tensor<64x32xi32, #transposed>) -> tensor<1x32xi32>
  return %0, %1, %2, %3, %4, %5, %6 : tensor<1x32xbf16>, tensor<32x1xf64>, tensor<4x8x16xf32>, tensor<1x32xf32>, tensor<2x32xf32>, tensor<32x32xf32>, tensor<1x32xi32>
}

func.func private @aten.bmm_w(tensor<2x40x32xf32>, tensor<2x32x48xf32>) -> tensor<2x40x48xf32> attributes {bascule.extern = "aten.bmm.default", bascule.arguments = [#bascule.operand<0>, #bascule.operand<1>], bascule.results = array<i64: 0>, bascule.out = "aten.bmm.out"}

// A product in f32 of matrices that are widened is one of 16-bit numbers, which is not rounded. Marked, it is for tensor cores.
// CHECK-LABEL: func.func @widened
// CHECK-SAME: (%[[X:.*]]: tensor<2x40x32xbf16>, %[[Y:.*]]: tensor<2x32x48xbf16>)
// CHECK: "bascule.reduce"
// CHECK: tensor.extract %[[X]]
// CHECK: tensor.extract %[[Y]]
// CHECK-NOT: arith.truncf
// CHECK: return
func.func @widened(%x: tensor<2x40x32xbf16>, %y: tensor<2x32x48xbf16>) -> tensor<2x40x48xf32> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %d: index):
    %e = tensor.extract %x[%b, %i, %d] : tensor<2x40x32xbf16>
    %w = arith.extf %e : bf16 to f32
    "bascule.yield"(%w) : (f32) -> ()
  }) {ranges = affine_map<() -> (2, 40, 32)>} : () -> tensor<2x40x32xf32>
  %1 = "bascule.compute"() ({
  ^bb0(%b: index, %d: index, %n: index):
    %e = tensor.extract %y[%b, %d, %n] : tensor<2x32x48xbf16>
    %w = arith.extf %e : bf16 to f32
    "bascule.yield"(%w) : (f32) -> ()
  }) {ranges = affine_map<() -> (2, 32, 48)>} : () -> tensor<2x32x48xf32>
  %2 = call @aten.bmm_w(%0, %1) {bascule.fused} : (tensor<2x40x32xf32>, tensor<2x32x48xf32>) -> tensor<2x40x48xf32>
  return %2 : tensor<2x40x48xf32>
}

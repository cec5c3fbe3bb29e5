// RUN: bascule-opt %s --chunk-rows | filecheck %s
// RUN: bascule-opt %s '--chunk-rows=least=65536' | filecheck %s --check-prefix=ALL
// RUN: bascule-run %s --function=rows --pipeline=chunk-rows

func.func private @aten.mm(tensor<64x16xf32>, tensor<16x512xf32>) -> tensor<64x512xf32> attributes {bascule.extern = "aten.mm.default", bascule.arguments = [#bascule.operand<0>, #bascule.operand<1>], bascule.results = array<i64: 0>}
func.func private @aten.mm_0(tensor<16x64xf32>, tensor<64x512xf32>) -> tensor<16x512xf32> attributes {bascule.extern = "aten.mm.default", bascule.arguments = [#bascule.operand<0>, #bascule.operand<1>], bascule.results = array<i64: 0>}

// The product, the largest of each of its rows, and what sums over them: once for each of 8 chunks of 8 rows. The sum is added up.
// CHECK-LABEL: func.func @rows(
// CHECK-SAME: %[[X:.*]]: tensor<64x16xf32>, %[[W:.*]]: tensor<16x512xf32>
// CHECK: %[[X0:.*]] = "bascule.view"(%[[X]])
// CHECK: %[[P0:.*]] = call @aten.mm{{.*}}(%[[X0]], %[[W]]) {bascule.row_chunk = 0 : i64} : (tensor<8x16xf32>, tensor<16x512xf32>) -> tensor<8x512xf32>
// CHECK: tensor.extract %[[P0]][
// CHECK: bascule.row_chunk = 0 : i64, ranges = {{.*}} -> tensor<8xf32>
// CHECK: %[[S0:.*]] = call @aten.mm{{.*}}, %[[P0]]) {bascule.row_chunk = 0 : i64} : (tensor<16x8xf32, {{.*}}>, tensor<8x512xf32>) -> tensor<16x512xf32>
// CHECK: %[[P1:.*]] = call @aten.mm{{.*}} {bascule.row_chunk = 1 : i64}
// CHECK: tensor.extract %[[P1]][
// CHECK: call @aten.addmm(%[[S0]], {{.*}}, %[[P1]]) {bascule.row_chunk = 1 : i64}
// CHECK: call @aten.addmm({{.*}}) {bascule.row_chunk = 7 : i64}
// CHECK-NOT: tensor<64x512xf32>
// CHECK: return
// ALL-LABEL: func.func @rows(
// ALL: bascule.row_chunk
func.func @rows(%x: tensor<64x16xf32>, %w: tensor<16x512xf32>, %y: tensor<16x64xf32>) -> (tensor<64xf32>, tensor<16x512xf32>) attributes {bascule.graph, bascule.chunk_rows = 65536 : i64} {
  %p = call @aten.mm(%x, %w) : (tensor<64x16xf32>, tensor<16x512xf32>) -> tensor<64x512xf32>
  %m = "bascule.compute"() ({
  ^bb0(%i: index):
    %r = "bascule.reduce"() ({
    ^bb0(%j: index):
      %e = tensor.extract %p[%i, %j] : tensor<64x512xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "max", ranges = affine_map<() -> (512)>} : () -> f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (64)>} : () -> tensor<64xf32>
  %s = call @aten.mm_0(%y, %p) : (tensor<16x64xf32>, tensor<64x512xf32>) -> tensor<16x512xf32>
  return %m, %s : tensor<64xf32>, tensor<16x512xf32>
}

// One that is returned, and one that is read along no rows: columns are reduced, and each is divided by what they gave.
// CHECK-LABEL: func.func @whole(
// CHECK: call @aten.mm({{.*}}) {bascule.remarks = [{{.*}}not computed by chunks{{.*}}'func.return' needs it whole
// CHECK-NOT: row_chunk
// CHECK: return
func.func @whole(%x: tensor<64x16xf32>, %w: tensor<16x512xf32>) -> tensor<64x512xf32> attributes {bascule.graph, bascule.chunk_rows = 65536 : i64} {
  %p = call @aten.mm(%x, %w) : (tensor<64x16xf32>, tensor<16x512xf32>) -> tensor<64x512xf32>
  return %p : tensor<64x512xf32>
}

// Without the mark nothing is cut.
// CHECK-LABEL: func.func @unmarked(
// CHECK-NOT: row_chunk
// CHECK: return
// ALL-LABEL: func.func @unmarked(
// ALL: row_chunk
func.func @unmarked(%x: tensor<64x16xf32>, %w: tensor<16x512xf32>) -> tensor<64xf32> attributes {bascule.graph} {
  %p = call @aten.mm(%x, %w) : (tensor<64x16xf32>, tensor<16x512xf32>) -> tensor<64x512xf32>
  %m = "bascule.compute"() ({
  ^bb0(%i: index):
    %r = "bascule.reduce"() ({
    ^bb0(%j: index):
      %e = tensor.extract %p[%i, %j] : tensor<64x512xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (512)>} : () -> f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (64)>} : () -> tensor<64xf32>
  return %m : tensor<64xf32>
}

// An operand is written before its last reader: where it is read is left as it is.
// CHECK-LABEL: func.func @written(
// CHECK: call @aten.mm({{.*}}not computed by chunks{{.*}}an effect stands between its readers
// CHECK-NOT: row_chunk
// CHECK: return
func.func @written(%x: tensor<64x16xf32>, %w: tensor<16x512xf32>, %n: tensor<64x16xf32>) -> (tensor<64xf32>) attributes {bascule.graph, bascule.chunk_rows = 65536 : i64} {
  %p = call @aten.mm(%x, %w) : (tensor<64x16xf32>, tensor<16x512xf32>) -> tensor<64x512xf32>
  "bascule.copy_into"(%n, %x) : (tensor<64x16xf32>, tensor<64x16xf32>) -> ()
  %m = "bascule.compute"() ({
  ^bb0(%i: index):
    %r = "bascule.reduce"() ({
    ^bb0(%j: index):
      %e = tensor.extract %p[%i, %j] : tensor<64x512xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (512)>} : () -> f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (64)>} : () -> tensor<64xf32>
  return %m : tensor<64xf32>
}

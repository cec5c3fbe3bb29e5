// Grouped products become computes where what reads them is worth a kernel.
// RUN: bascule-opt %s --expand-grouped-products=target=cuda --split-input-file | filecheck %s
// RUN: bascule-opt %s --expand-grouped-products=target=cuda --split-input-file --remarks 2>&1 | filecheck %s --check-prefix=REMARK
// RUN: bascule-opt %s --expand-grouped-products='target=cuda capability=80' --split-input-file | filecheck %s --check-prefix=OLDER
// RUN: bascule-opt %s --expand-grouped-products=target=cpu --split-input-file | filecheck %s --check-prefix=OLDER
// RUN: bascule-opt %s --expand-grouped-products='target=cuda always=true' --split-input-file | filecheck %s --check-prefix=ALWAYS

// OLDER-COUNT-10: call @gmm

// The number of a row's group is how many offsets are at most the row; a row after the last group's is 0.
// CHECK-LABEL: func.func @pointwise(
// CHECK-NOT: call @
// CHECK: "bascule.compute"
// CHECK-NEXT: ^bb0(%[[ROW:.*]]: index, %[[COLUMN:.*]]: index):
// CHECK: %[[COUNT:.*]] = "bascule.reduce"
// CHECK: %[[LOW:.*]] = arith.maxsi
// CHECK: %[[END:.*]] = arith.minsi %[[LOW]], %{{.*}} : index
// CHECK-NEXT: arith.cmpi sle, %[[END]], %[[ROW]] : index
// CHECK: kind = "sum", ranges = #{{.*}}} : () -> i32
// CHECK: %[[NUMBER:.*]] = arith.index_cast %[[COUNT]] : i32 to index
// CHECK: %[[GROUP:.*]] = arith.minsi %[[NUMBER]]
// CHECK: tensor.extract %arg0[%[[ROW]], %[[K:.*]]]
// CHECK: tensor.extract %arg1[%[[GROUP]], %[[K]], %[[COLUMN]]]
// CHECK: kind = "sum", ranges = #{{.*}}} : () -> f32
// CHECK: %[[INSIDE:.*]] = arith.cmpi slt, %[[COUNT]]
// CHECK: arith.select %[[INSIDE]]
// REMARK: expanded: 8192x2048x5632x8 (rows, summed, columns, groups): it takes about 284 us in a kernel, 310 us as a call and one behind it
// ALWAYS-NOT: call @gmm(
func.func private @gmm(tensor<8192x2048xbf16>, tensor<8x2048x5632xbf16>, tensor<8xi32>) -> tensor<8192x5632xbf16> attributes {bascule.arguments = [#bascule.operand<0 : i64>, #bascule.operand<1 : i64>, #bascule.operand<2 : i64>, unit, unit], bascule.extern = "aten._grouped_mm.default", bascule.results = array<i64: 0>}
func.func @pointwise(%x: tensor<8192x2048xbf16>, %w: tensor<8x2048x5632xbf16>, %o: tensor<8xi32>) -> tensor<8192x5632xbf16> attributes {bascule.graph} {
  %p = call @gmm(%x, %w, %o) : (tensor<8192x2048xbf16>, tensor<8x2048x5632xbf16>, tensor<8xi32>) -> tensor<8192x5632xbf16>
  %r = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %p[%i, %j] : tensor<8192x5632xbf16>
    %n = arith.negf %e : bf16
    "bascule.yield"(%n) : (bf16) -> ()
  }) {ranges = affine_map<() -> (8192, 5632)>} : () -> tensor<8192x5632xbf16>
  return %r : tensor<8192x5632xbf16>
}

// -----

// Nothing reads it: ATen's product is as fast.
// CHECK-LABEL: func.func @alone(
// CHECK: call @gmm
// REMARK: grouped product stays a call: no pointwise computes read it, or others do too
func.func private @gmm(tensor<8192x2048xbf16>, tensor<8x2048x5632xbf16>, tensor<8xi32>) -> tensor<8192x5632xbf16> attributes {bascule.arguments = [#bascule.operand<0 : i64>, #bascule.operand<1 : i64>, #bascule.operand<2 : i64>, unit, unit], bascule.extern = "aten._grouped_mm.default", bascule.results = array<i64: 0>}
func.func @alone(%x: tensor<8192x2048xbf16>, %w: tensor<8x2048x5632xbf16>, %o: tensor<8xi32>) -> tensor<8192x5632xbf16> attributes {bascule.graph} {
  %p = call @gmm(%x, %w, %o) : (tensor<8192x2048xbf16>, tensor<8x2048x5632xbf16>, tensor<8xi32>) -> tensor<8192x5632xbf16>
  return %p : tensor<8192x5632xbf16>
}

// -----

// Its sums are so long that writing and reading it is little beside them.
// CHECK-LABEL: func.func @long(
// CHECK: call @gmm
// REMARK: grouped product stays a call: it takes about 370 us in a kernel, 366 us as a call and one behind it
func.func private @gmm(tensor<8192x16384xbf16>, tensor<8x16384x1024xbf16>, tensor<8xi32>) -> tensor<8192x1024xbf16> attributes {bascule.arguments = [#bascule.operand<0 : i64>, #bascule.operand<1 : i64>, #bascule.operand<2 : i64>, unit, unit], bascule.extern = "aten._grouped_mm.default", bascule.results = array<i64: 0>}
func.func @long(%x: tensor<8192x16384xbf16>, %w: tensor<8x16384x1024xbf16>, %o: tensor<8xi32>) -> tensor<8192x1024xbf16> attributes {bascule.graph} {
  %p = call @gmm(%x, %w, %o) : (tensor<8192x16384xbf16>, tensor<8x16384x1024xbf16>, tensor<8xi32>) -> tensor<8192x1024xbf16>
  %r = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %p[%i, %j] : tensor<8192x1024xbf16>
    %n = arith.negf %e : bf16
    "bascule.yield"(%n) : (bf16) -> ()
  }) {ranges = affine_map<() -> (8192, 1024)>} : () -> tensor<8192x1024xbf16>
  return %r : tensor<8192x1024xbf16>
}

// -----

// A compute at other elements reads it.
// CHECK-LABEL: func.func @transposed(
// CHECK: call @gmm
// REMARK: grouped product stays a call: no pointwise computes read it, or others do too
func.func private @gmm(tensor<8192x2048xbf16>, tensor<8x2048x8192xbf16>, tensor<8xi32>) -> tensor<8192x8192xbf16> attributes {bascule.arguments = [#bascule.operand<0 : i64>, #bascule.operand<1 : i64>, #bascule.operand<2 : i64>, unit, unit], bascule.extern = "aten._grouped_mm.default", bascule.results = array<i64: 0>}
func.func @transposed(%x: tensor<8192x2048xbf16>, %w: tensor<8x2048x8192xbf16>, %o: tensor<8xi32>) -> tensor<8192x8192xbf16> attributes {bascule.graph} {
  %p = call @gmm(%x, %w, %o) : (tensor<8192x2048xbf16>, tensor<8x2048x8192xbf16>, tensor<8xi32>) -> tensor<8192x8192xbf16>
  %r = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %p[%j, %i] : tensor<8192x8192xbf16>
    %n = arith.negf %e : bf16
    "bascule.yield"(%n) : (bf16) -> ()
  }) {ranges = affine_map<() -> (8192, 8192)>} : () -> tensor<8192x8192xbf16>
  return %r : tensor<8192x8192xbf16>
}

// -----

// The halves of its columns meet: each is a compute, and as the result is returned too, they are laid beside each other.
// CHECK-LABEL: func.func @halves(
// CHECK-NOT: call @
// CHECK: %[[GATE:.*]] = "bascule.compute"
// CHECK: %[[UP:.*]] = "bascule.compute"
// CHECK: %[[BOTH:.*]] = "bascule.scatter"
// CHECK: ^bb0(%[[I:.*]]: index, %[[J:.*]]: index, %[[DEST:.*]]: tensor<8192x5632xbf16>):
// CHECK-NEXT: %[[A:.*]] = tensor.extract %[[GATE]][%[[I]], %[[J]]]
// CHECK-NEXT: "bascule.store"(%[[A]], %[[DEST]], %[[I]], %[[J]])
// CHECK: %[[B:.*]] = tensor.extract %[[UP]][%[[I]], %[[J]]]
// CHECK-NEXT: "bascule.store"(%[[B]], %[[DEST]], %[[I]], %{{.*}})
// CHECK: bascule.whole
// CHECK: tensor.extract %[[GATE]]
// CHECK: tensor.extract %[[UP]]
// CHECK: return %[[BOTH]],
// REMARK: expanded: 8192x512x5632x8 (rows, summed, columns, groups): it takes about 99 us in a kernel, 108 us as a call and one behind it
func.func private @gmm(tensor<8192x512xbf16>, tensor<8x512x5632xbf16>, tensor<8xi32>) -> tensor<8192x5632xbf16> attributes {bascule.arguments = [#bascule.operand<0 : i64>, #bascule.operand<1 : i64>, #bascule.operand<2 : i64>, unit, unit], bascule.extern = "aten._grouped_mm.default", bascule.results = array<i64: 0>}
func.func @halves(%x: tensor<8192x512xbf16>, %w: tensor<8x512x5632xbf16>, %o: tensor<8xi32>) -> (tensor<8192x5632xbf16>, tensor<8192x2816xbf16>) attributes {bascule.graph} {
  %p = call @gmm(%x, %w, %o) : (tensor<8192x512xbf16>, tensor<8x512x5632xbf16>, tensor<8xi32>) -> tensor<8192x5632xbf16>
  %gate = "bascule.view"(%p) {map = affine_map<(d0, d1) -> (d0, d1)>, shape = affine_map<() -> (8192, 2816)>} : (tensor<8192x5632xbf16>) -> tensor<8192x2816xbf16, #bascule.layout<affine_map<(d0, d1) -> (d0 * 5632 + d1)>>>
  %up = "bascule.view"(%p) {map = affine_map<(d0, d1) -> (d0, d1 + 2816)>, shape = affine_map<() -> (8192, 2816)>} : (tensor<8192x5632xbf16>) -> tensor<8192x2816xbf16, #bascule.layout<affine_map<(d0, d1) -> (d0 * 5632 + d1)>>>
  %r = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %a = tensor.extract %gate[%i, %j] : tensor<8192x2816xbf16, #bascule.layout<affine_map<(d0, d1) -> (d0 * 5632 + d1)>>>
    %b = tensor.extract %up[%i, %j] : tensor<8192x2816xbf16, #bascule.layout<affine_map<(d0, d1) -> (d0 * 5632 + d1)>>>
    %n = arith.mulf %a, %b : bf16
    "bascule.yield"(%n) : (bf16) -> ()
  }) {ranges = affine_map<() -> (8192, 2816)>} : () -> tensor<8192x2816xbf16>
  return %p, %r : tensor<8192x5632xbf16>, tensor<8192x2816xbf16>
}

// -----

// What is computed from it and put beside it is laid there by its kernel.
// CHECK-LABEL: func.func @beside(
// CHECK-NOT: call @
// CHECK: %[[P:.*]] = "bascule.compute"
// CHECK: %[[N:.*]] = "bascule.compute"
// CHECK: "bascule.scatter"
// CHECK: tensor.extract %[[N]]
// CHECK: tensor.extract %[[P]]
// CHECK: bascule.whole
func.func private @gmm(tensor<8192x512xbf16>, tensor<8x512x2816xbf16>, tensor<8xi32>) -> tensor<8192x2816xbf16> attributes {bascule.arguments = [#bascule.operand<0 : i64>, #bascule.operand<1 : i64>, #bascule.operand<2 : i64>, unit, unit], bascule.extern = "aten._grouped_mm.default", bascule.results = array<i64: 0>}
func.func @beside(%x: tensor<8192x512xbf16>, %w: tensor<8x512x2816xbf16>, %o: tensor<8xi32>) -> tensor<8192x5632xbf16> attributes {bascule.graph} {
  %p = call @gmm(%x, %w, %o) : (tensor<8192x512xbf16>, tensor<8x512x2816xbf16>, tensor<8xi32>) -> tensor<8192x2816xbf16>
  %r = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %a = tensor.extract %p[%i, %j] : tensor<8192x2816xbf16>
    %n = arith.negf %a : bf16
    "bascule.yield"(%n) : (bf16) -> ()
  }) {ranges = affine_map<() -> (8192, 2816)>} : () -> tensor<8192x2816xbf16>
  %c = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %half = arith.constant 2816 : index
    %first = arith.cmpi slt, %j, %half : index
    %e = scf.if %first -> (bf16) {
      %a = tensor.extract %r[%i, %j] : tensor<8192x2816xbf16>
      scf.yield %a : bf16
    } else {
      %k = affine.apply affine_map<(d0) -> (d0 - 2816)>(%j)
      %a = tensor.extract %p[%i, %k] : tensor<8192x2816xbf16>
      scf.yield %a : bf16
    }
    "bascule.yield"(%e) : (bf16) -> ()
  }) {ranges = affine_map<() -> (8192, 5632)>} : () -> tensor<8192x5632xbf16>
  return %c : tensor<8192x5632xbf16>
}

// -----

// Two of one matrix and the same offsets.
// CHECK-LABEL: func.func @joined(
// CHECK-NOT: call @
// REMARK-COUNT-2: the two that meet take about 197 us in a kernel, 210 us as calls and one behind them
func.func private @gmm(tensor<8192x4096xbf16>, tensor<8x4096x1024xbf16>, tensor<8xi32>) -> tensor<8192x1024xbf16> attributes {bascule.arguments = [#bascule.operand<0 : i64>, #bascule.operand<1 : i64>, #bascule.operand<2 : i64>, unit, unit], bascule.extern = "aten._grouped_mm.default", bascule.results = array<i64: 0>}
func.func @joined(%x: tensor<8192x4096xbf16>, %w: tensor<8x4096x1024xbf16>, %v: tensor<8x4096x1024xbf16>, %o: tensor<8xi32>) -> tensor<8192x1024xbf16> attributes {bascule.graph} {
  %p = call @gmm(%x, %w, %o) : (tensor<8192x4096xbf16>, tensor<8x4096x1024xbf16>, tensor<8xi32>) -> tensor<8192x1024xbf16>
  %q = call @gmm(%x, %v, %o) : (tensor<8192x4096xbf16>, tensor<8x4096x1024xbf16>, tensor<8xi32>) -> tensor<8192x1024xbf16>
  %r = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %a = tensor.extract %p[%i, %j] : tensor<8192x1024xbf16>
    %b = tensor.extract %q[%i, %j] : tensor<8192x1024xbf16>
    %n = arith.mulf %a, %b : bf16
    "bascule.yield"(%n) : (bf16) -> ()
  }) {ranges = affine_map<() -> (8192, 1024)>} : () -> tensor<8192x1024xbf16>
  return %r : tensor<8192x1024xbf16>
}

// -----

// Groups of few rows fill no tiles; where sums are in groups (2 dims by 2) nothing is saved.
// CHECK-LABEL: func.func @refused(
// CHECK-COUNT-2: call @gmm
// REMARK: grouped product stays a call: its groups have 64 rows on average, fewer than 256
// REMARK: grouped product stays a call: its sums are in groups: a kernel would save nothing beside ATen
func.func private @gmm(tensor<4096x512xbf16>, tensor<64x512x2816xbf16>, tensor<64xi32>) -> tensor<4096x2816xbf16> attributes {bascule.arguments = [#bascule.operand<0 : i64>, #bascule.operand<1 : i64>, #bascule.operand<2 : i64>, unit, unit], bascule.extern = "aten._grouped_mm.default", bascule.results = array<i64: 0>}
func.func private @gmm_sums(tensor<512x4096xbf16>, tensor<4096x2816xbf16>, tensor<64xi32>) -> tensor<64x512x2816xbf16> attributes {bascule.arguments = [#bascule.operand<0 : i64>, #bascule.operand<1 : i64>, #bascule.operand<2 : i64>, unit, unit], bascule.extern = "aten._grouped_mm.default", bascule.results = array<i64: 0>}
func.func @refused(%x: tensor<4096x512xbf16>, %w: tensor<64x512x2816xbf16>, %y: tensor<512x4096xbf16>, %z: tensor<4096x2816xbf16>, %o: tensor<64xi32>) -> (tensor<4096x2816xbf16>, tensor<64x512x2816xbf16>) attributes {bascule.graph} {
  %p = call @gmm(%x, %w, %o) : (tensor<4096x512xbf16>, tensor<64x512x2816xbf16>, tensor<64xi32>) -> tensor<4096x2816xbf16>
  %r = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %a = tensor.extract %p[%i, %j] : tensor<4096x2816xbf16>
    %n = arith.negf %a : bf16
    "bascule.yield"(%n) : (bf16) -> ()
  }) {ranges = affine_map<() -> (4096, 2816)>} : () -> tensor<4096x2816xbf16>
  %q = call @gmm_sums(%y, %z, %o) : (tensor<512x4096xbf16>, tensor<4096x2816xbf16>, tensor<64xi32>) -> tensor<64x512x2816xbf16>
  return %r, %q : tensor<4096x2816xbf16>, tensor<64x512x2816xbf16>
}

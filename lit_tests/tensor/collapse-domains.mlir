// RUN: bascule-opt %s --collapse-domains --canonicalize | filecheck %s
// RUN: bascule-run %s --interpret-only --pipeline=collapse-domains
!split = tensor<4x8x16xf32>
!flat = tensor<32x16xf32>
#row = affine_map<(d0, d1) -> (d0 * 8 + d1)>
#outer = affine_map<(d0) -> (d0 floordiv 8)>
#inner = affine_map<(d0) -> (d0 mod 8)>

// CHECK-DAG: #[[WHOLE:map[0-9]*]] = affine_map<() -> (32, 16)>
// CHECK-DAG: #[[ROWS:map[0-9]*]] = affine_map<() -> (32)>
// CHECK-DAG: #[[APART:map[0-9]*]] = affine_map<() -> (4, 8, 16)>
// CHECK-DAG: #[[SEEN:map[0-9]*]] = affine_map<(d0, d1, d2) -> (d0 * 8 + d1, d2)>

// The sums of rows run over 32 rows; what uses them over 4x8, and so may it over 32. Its result is seen as before.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<32x16xf32>, %[[G:[a-z0-9]+]]: tensor<4x8x16xf32>
// CHECK: %[[SUM:[a-z0-9]+]] = "bascule.compute"()
// CHECK: {ranges = #[[ROWS]]} : () -> tensor<32xf32>
// CHECK: %[[Y:[a-z0-9]+]] = "bascule.compute"() ({
// CHECK-NEXT: ^bb0(%[[M:[a-z0-9]+]]: index, %[[K:[a-z0-9]+]]: index):
// CHECK: tensor.extract %[[X]][%[[M]], %[[K]]]
// CHECK: tensor.extract %[[SUM]][%[[M]]]
// CHECK: {ranges = #[[WHOLE]]} : () -> tensor<32x16xf32>
// CHECK: %[[V:[a-z0-9]+]] = "bascule.view"(%[[Y]]) {map = #[[SEEN]], shape = #[[APART]]}

// The sums of its columns have one range.
// CHECK: "bascule.reduce"() ({
// CHECK-NEXT: ^bb0(%[[R:[a-z0-9]+]]: index):
// CHECK-NEXT: tensor.extract %[[Y]][%[[R]], %
// CHECK: kind = "sum", ranges = #[[ROWS]]
// CHECK: return %[[V]]
func.func @main(%x: !flat, %g: !split) -> (!split, tensor<16xf32>) attributes {bascule.graph} {
  %sum = "bascule.compute"() ({
  ^bb0(%m: index):
    %s = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %x[%m, %k] : !flat
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (16)>} : () -> f32
    "bascule.yield"(%s) : (f32) -> ()
  }) {ranges = affine_map<() -> (32)>} : () -> tensor<32xf32>
  %y = "bascule.compute"() ({
  ^bb0(%i: index, %j: index, %k: index):
    %m = affine.apply #row(%i, %j)
    %a = tensor.extract %x[%m, %k] : !flat
    %b = tensor.extract %sum[%m] : tensor<32xf32>
    %c = tensor.extract %g[%i, %j, %k] : !split
    %d = arith.subf %a, %b : f32
    %r = arith.addf %c, %d : f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (4, 8, 16)>} : () -> !split
  %columns = "bascule.compute"() ({
  ^bb0(%k: index):
    %s = "bascule.reduce"() ({
    ^bb0(%i: index, %j: index):
      %e = tensor.extract %y[%i, %j, %k] : !split
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (4, 8)>} : () -> f32
    "bascule.yield"(%s) : (f32) -> ()
  }) {ranges = affine_map<() -> (16)>} : () -> tensor<16xf32>
  return %y, %columns : !split, tensor<16xf32>
}

// Left alone: a row of `times` is known by the inner index alone, so what reads it runs over two; what only it shares a tensor with, too.
// CHECK-LABEL: func.func @positions
// CHECK: {ranges = #[[APART]]} : () -> tensor<4x8x16xf32>
// CHECK: {ranges = #[[APART]]} : () -> tensor<4x8x16xf32>
// CHECK: {ranges = #[[ROWS]]} : () -> tensor<32xf32>
// CHECK-NOT: bascule.view
func.func @positions(%x: !split, %times: tensor<8x16xf32>) -> (!split, tensor<32xf32>) attributes {bascule.graph} {
  %y = "bascule.compute"() ({
  ^bb0(%i: index, %j: index, %k: index):
    %a = tensor.extract %x[%i, %j, %k] : !split
    %b = tensor.extract %times[%j, %k] : tensor<8x16xf32>
    %r = arith.addf %a, %b : f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (4, 8, 16)>} : () -> !split
  %z = "bascule.compute"() ({
  ^bb0(%i: index, %j: index, %k: index):
    %a = tensor.extract %y[%i, %j, %k] : !split
    %b = tensor.extract %x[%i, %j, %k] : !split
    %r = arith.mulf %a, %b : f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (4, 8, 16)>} : () -> !split
  %sum = "bascule.compute"() ({
  ^bb0(%m: index):
    %i = affine.apply #outer(%m)
    %j = affine.apply #inner(%m)
    %s = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %y[%i, %j, %k] : !split
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (16)>} : () -> f32
    "bascule.yield"(%s) : (f32) -> ()
  }) {ranges = affine_map<() -> (32)>} : () -> tensor<32xf32>
  return %z, %sum : !split, tensor<32xf32>
}

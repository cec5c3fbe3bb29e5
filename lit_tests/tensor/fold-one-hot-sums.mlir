// RUN: bascule-opt %s --fold-one-hot-sums | filecheck %s
// RUN: bascule-run %s --function=logits --interpret-only --pipeline=fold-one-hot-sums
// RUN: bascule-run %s --function=gradients --interpret-only --pipeline=fold-one-hot-sums
// RUN: bascule-run %s --function=narrow --interpret-only --pipeline=fold-one-hot-sums
// RUN: bascule-run %s --function=scaled --interpret-only --pipeline=fold-one-hot-sums

// The logit of each label is read where it is, if it is anywhere.
// CHECK-LABEL: func.func @logits(
// CHECK-NOT: bascule.reduce
// CHECK: %[[T:[a-z0-9_]+]] = tensor.extract %arg1[%{{[a-z0-9_]+}}] : tensor<16xi64>
// CHECK: %[[P:[a-z0-9_]+]] = arith.index_cast %[[T]] : i64 to index
// CHECK: %[[I:[a-z0-9_]+]] = arith.cmpi ult, %[[P]], %c128
// CHECK: %[[H:[a-z0-9_]+]] = arith.select %[[I]], %[[P]], %c0
// CHECK: %[[X:[a-z0-9_]+]] = tensor.extract %arg0[%{{[a-z0-9_]+}}, %[[H]]] : tensor<16x128xf32>
// CHECK: %[[R:[a-z0-9_]+]] = arith.select %[[I]], %[[X]], %cst
// CHECK: "bascule.yield"(%[[R]])
func.func @logits(%x: tensor<16x128xf32>, %t: tensor<16xi64>) -> tensor<16xf32> attributes {bascule.graph} {
  %r = "bascule.compute"() ({
  ^bb0(%i: index):
    %s = "bascule.reduce"() ({
    ^bb0(%k: index):
      %a = tensor.extract %t[%i] : tensor<16xi64>
      %n = arith.index_cast %k : index to i64
      %c = arith.cmpi eq, %n, %a : i64
      %b = tensor.extract %x[%i, %k] : tensor<16x128xf32>
      %z = arith.constant 0.0 : f32
      %v = arith.select %c, %b, %z : f32
      "bascule.yield"(%v) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (128)>} : () -> f32
    "bascule.yield"(%s) : (f32) -> ()
  }) {ranges = affine_map<() -> (16)>} : () -> tensor<16xf32>
  return %r : tensor<16xf32>
}

// What all other terms are, `0 * %a`, may be NaN: it is added once.
// CHECK-LABEL: func.func @gradients(
// CHECK-NOT: bascule.reduce
// CHECK: arith.mulf
// CHECK: %[[R:[a-z0-9_]+]] = arith.select
// CHECK: %[[Z:[a-z0-9_]+]] = arith.mulf
// CHECK: arith.addf %[[R]], %[[Z]] : f32
func.func @gradients(%x: tensor<16xf32>, %t: tensor<16xi64>) -> tensor<16xf32> attributes {bascule.graph} {
  %r = "bascule.compute"() ({
  ^bb0(%i: index):
    %s = "bascule.reduce"() ({
    ^bb0(%k: index):
      %l = tensor.extract %t[%i] : tensor<16xi64>
      %n = arith.index_cast %l : i64 to index
      %c = arith.cmpi eq, %k, %n : index
      %m = arith.constant -1.0 : f32
      %z = arith.constant 0.0 : f32
      %h = arith.select %c, %m, %z : f32
      %a = tensor.extract %x[%i] : tensor<16xf32>
      %v = arith.mulf %h, %a : f32
      "bascule.yield"(%v) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (128)>} : () -> f32
    "bascule.yield"(%s) : (f32) -> ()
  }) {ranges = affine_map<() -> (16)>} : () -> tensor<16xf32>
  return %r : tensor<16xf32>
}

// 8 bits do not tell 1000 indices apart.
// CHECK-LABEL: func.func @narrow(
// CHECK: bascule.reduce
func.func @narrow(%t: tensor<16xi8>) -> tensor<16xi64> attributes {bascule.graph} {
  %r = "bascule.compute"() ({
  ^bb0(%i: index):
    %s = "bascule.reduce"() ({
    ^bb0(%k: index):
      %a = tensor.extract %t[%i] : tensor<16xi8>
      %n = arith.index_cast %k : index to i8
      %c = arith.cmpi eq, %n, %a : i8
      %v = arith.extui %c : i1 to i64
      "bascule.yield"(%v) : (i64) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (1000)>} : () -> i64
    "bascule.yield"(%s) : (i64) -> ()
  }) {ranges = affine_map<() -> (16)>} : () -> tensor<16xi64>
  return %r : tensor<16xi64>
}

// Each other term is `0 * x` of an element of its own, which may be infinite.
// CHECK-LABEL: func.func @scaled(
// CHECK: bascule.reduce
func.func @scaled(%x: tensor<16x128xf32>, %t: tensor<16xi64>) -> tensor<16xf32> attributes {bascule.graph} {
  %r = "bascule.compute"() ({
  ^bb0(%i: index):
    %s = "bascule.reduce"() ({
    ^bb0(%k: index):
      %a = tensor.extract %t[%i] : tensor<16xi64>
      %n = arith.index_cast %k : index to i64
      %c = arith.cmpi eq, %n, %a : i64
      %h = arith.uitofp %c : i1 to f32
      %b = tensor.extract %x[%i, %k] : tensor<16x128xf32>
      %v = arith.mulf %h, %b : f32
      "bascule.yield"(%v) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (128)>} : () -> f32
    "bascule.yield"(%s) : (f32) -> ()
  }) {ranges = affine_map<() -> (16)>} : () -> tensor<16xf32>
  return %r : tensor<16xf32>
}

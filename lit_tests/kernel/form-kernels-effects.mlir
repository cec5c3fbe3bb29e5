// RUN: bascule-opt %s --form-kernels | filecheck %s

// What one call draws comes before what the next one draws: a compute that the first waits for shares no kernel with one that reads the second,
// where they read each other. What waits for neither is in that kernel.
!t = tensor<64x64xf32>
#operand = #bascule.operand<0>
func.func private @draw(!t) -> !t attributes {bascule.extern = "aten.bernoulli.default", bascule.arguments = [#operand, unit], bascule.results = array<i64: 0>, bascule.effects}

// CHECK-LABEL: func.func @main
// CHECK: %[[S:[0-9]+]] = call @sigmoid_0(%arg0)
// CHECK-NEXT: %[[A:.*]] = call @draw(%[[S]])
// CHECK-NEXT: %[[B:.*]] = call @draw(%arg1)
// CHECK-NEXT: %[[M:.*]] = call @mul_0(%[[S]], %[[B]])
// CHECK-NEXT: return %[[A]], %[[M]]
func.func @main(%x: !t, %y: !t) -> (!t, !t) attributes {bascule.graph} {
  %s = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %x[%i, %j] : !t
    %r = math.exp %e : f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (64, 64)>} : () -> !t loc("aten.sigmoid.default")
  %a = call @draw(%s) : (!t) -> !t
  %b = call @draw(%y) : (!t) -> !t
  %m = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %s[%i, %j] : !t
    %f = tensor.extract %b[%i, %j] : !t
    %r = arith.mulf %e, %f : f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (64, 64)>} : () -> !t loc("aten.mul.Tensor")
  return %a, %m : !t, !t
}

// Nor does what the order of kernels puts a call behind: one reads the second call, and comes before the first where it is all that counts.
// CHECK-LABEL: func.func @pulled
// CHECK: %[[A:.*]] = call @draw(%arg0)
// CHECK-NEXT: %[[B:.*]] = call @draw(%arg1)
// CHECK-NEXT: call @cos_sin_0(
func.func @pulled(%x: !t, %y: !t) -> (!t, !t, !t) attributes {bascule.graph} {
  %c = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %x[%i, %j] : !t
    %r = math.cos %e : f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (64, 64)>} : () -> !t loc("aten.cos.default")
  %n = call @plain(%c) : (!t) -> !t
  %a = call @draw(%x) : (!t) -> !t
  %b = call @draw(%y) : (!t) -> !t
  %m = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %c[%i, %j] : !t
    %f = tensor.extract %b[%i, %j] : !t
    %p = math.sin %f : f32
    %r = arith.mulf %e, %p : f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (64, 64)>} : () -> !t loc("aten.sin.default")
  return %n, %a, %m : !t, !t, !t
}
func.func private @plain(!t) -> !t attributes {bascule.extern = "aten.erf.default", bascule.arguments = [#operand], bascule.results = array<i64: 0>}

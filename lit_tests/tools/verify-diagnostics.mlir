// A diagnostic that no comment expects, and a comment that no diagnostic answers, each fail the run.
// RUN: not bascule-opt %s --split-input-file --verify-diagnostics 2>&1 | filecheck %s
// CHECK: verify-diagnostics.mlir:9:8: error: unexpected error: 'bascule.random' op has the unknown distribution 'x'
// CHECK-NEXT: verify-diagnostics.mlir:16: error: expected error "nothing like that" was not produced
// CHECK-NEXT: verify-diagnostics.mlir:24:8: error: unexpected error:
// CHECK-NEXT: verify-diagnostics.mlir:23: error: expected error "unknown distribution" was not produced
func.func @unexpected(%s: i64) {
  %a = arith.constant 1 : index
  %r = "bascule.random"(%s, %a) {distribution = "x"} : (i64, index) -> f32
  return
}

// -----

func.func @missing() {
  // expected-error @+0 {{nothing like that}}
  return
}

// -----

func.func @wrong_line(%s: i64, %p: index) {
  // expected-error @+0 {{unknown distribution}}
  %r = "bascule.random"(%s, %p) {distribution = "x"} : (i64, index) -> f32
  return
}

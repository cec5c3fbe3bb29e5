// Lines end where MLIR has them end, not at the other signs that Python ends lines at:      are in this one.
// RUN: bascule-opt %s --verify-diagnostics
// RUN: not bascule-opt %s 2>&1 | filecheck %s
// CHECK: verify-diagnostics-lines.mlir:8:10: error: use of undeclared SSA value name
// CHECK-NEXT: return %y : i32
func.func @f(%x: i32) -> i32 {
  // expected-error @+1 {{use of undeclared SSA value name}}
  return %y : i32
}

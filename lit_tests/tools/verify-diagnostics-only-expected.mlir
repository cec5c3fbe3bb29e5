// Diagnostics that nobody expects are let pass where that is asked for; what is expected has to be there all the same.
// RUN: bascule-opt %s --symbol-dce --split-input-file --verify-diagnostics=only-expected
// RUN: not bascule-opt %s --split-input-file --verify-diagnostics 2>&1 | filecheck %s --check-prefix=ALL
// RUN: not bascule-opt %s --split-input-file --verify-diagnostics=all 2>&1 | filecheck %s --check-prefix=ALL
// RUN: sed 's/requires/has/' %s | not bascule-opt --split-input-file --verify-diagnostics=only-expected 2>&1 | filecheck %s
// RUN: not bascule-opt %s --verify-diagnostics=some 2>&1 | filecheck %s --check-prefix=OTHER
// ALL: only-expected.mlir:13:3: error: unexpected error
// CHECK: :17: error: expected error "{{.*}}" was not produced
// CHECK-NOT: :13:
// OTHER: --verify-diagnostics: 'some' is neither true nor false
func.func @f() {
  // Nobody expects this.
  "arith.constant"() : () -> i32
}
// -----
// expected-error @+1 {{requires attribute}}
"arith.constant"() : () -> i32

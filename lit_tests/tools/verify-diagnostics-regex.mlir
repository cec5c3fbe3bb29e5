// After `-re`, what stands in inner braces is a regular expression; `@unknown` is a message without a place.
// RUN: bascule-opt %s --split-input-file --verify-diagnostics
// RUN: cd %S && not bascule-opt %s --split-input-file --verify-diagnostics --load-pass=pass_that_raises:Raises --raises 2>&1 | filecheck %s
// RUN: sed 's|// Nothing:|// expected-error-re @below|' %s > %t.mlir
// RUN: not bascule-opt %t.mlir --split-input-file --verify-diagnostics 2>&1 | filecheck %s --check-prefix=OPEN
// OPEN: regex{{.*}}.mlir:16: 'an {{.*}} opens' is no regular expression: unterminated character set
// CHECK: error: unexpected error: in your pass 'raises' (pass_that_raises.py:{{[0-9]+}}): KeyError: 'of a pass'
func.func @undeclared() {
  // expected-error-re @+1 {{use of {{un[a-z]+}} SSA value {{(name|number)}}}}
  %0 = arith.addi %x, %x : i32
  return
}

// -----

// Nothing: {{an {{[}} opens}}
func.func @fine() { return }

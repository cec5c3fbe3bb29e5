// An op that leaves a loop, or goes into one, is changed; a constant may stand anywhere.
// RUN: bascule-opt %s --canonicalize --loop-invariant-code-motion --print-ir-diff -o %t.mlir 2>&1 | filecheck %s
// CHECK: // -----// IR Difference by loop-invariant-code-motion //----- //
// CHECK-NEXT: @main
// CHECK-NEXT: ~ math.exp ({{.*}}): in scf.for becomes in func.func
// CHECK-NOT: {{[-+~]}}
func.func @main(%x: f32, %n: index) -> f32 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%s = %x) -> (f32) {
    %two = arith.constant 2.0 : f32
    %e = math.exp %x : f32
    %t = arith.mulf %s, %two : f32
    %u = arith.addf %t, %e : f32
    scf.yield %u : f32
  }
  return %r : f32
}

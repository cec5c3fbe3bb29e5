// What each pass changed, by structure: values numbered otherwise are no change, an op that moved is none.
// RUN: bascule-opt %s --canonicalize --cse --print-ir-diff -o %t.mlir 2>&1 | filecheck %s
// RUN: bascule-opt %s --print-ir-diff --schedule-kernels --verify-each -o %t.mlir 2>&1 | filecheck %s --check-prefix=NONE --allow-empty

// CHECK: // -----// IR Difference by canonicalize //----- //
// CHECK-NEXT: @main
// CHECK-NEXT: - arith.constant ({{.*}}:{{[0-9]+}}:11) : () -> (f32)
// CHECK-NEXT: - arith.addf
// CHECK-NEXT: ~ func.return ({{.*}}): operands from (arith.addf, math.sin, math.exp) become (math.exp, math.sin, math.exp)
// CHECK-NOT: math.sin
// CHECK: // -----// IR Difference by cse //----- //
// CHECK: - math.exp
// CHECK-NOT: {{^}}@
// NONE-NOT: IR Difference
func.func @main(%x: f32) -> (f32, f32, f32) {
  %zero = arith.constant -0.0 : f32
  %s = math.sin %x : f32
  %e = math.exp %x : f32
  %f = math.exp %x : f32
  %a = arith.addf %e, %zero : f32
  return %a, %s, %f : f32, f32, f32
}

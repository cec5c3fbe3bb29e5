// An op that went to another function, such as a kernel's, is told as one that moved: neither as gone nor as new.
// RUN: bascule-opt %s --form-kernels --print-ir-diff -o %t.mlir 2>&1 | filecheck %s
// RUN: bascule-run %s --pipeline=form-kernels | filecheck %s --check-prefix=NUMBERS
// NUMBERS: match
// CHECK: // -----// IR Difference by form-kernels //----- //
// CHECK-NEXT: @main
// CHECK-NEXT: > tensor.extract ({{.*}}:{{[0-9]+}}:10) : to @kernel_0
// CHECK-NEXT: > math.exp ({{.*}}:{{[0-9]+}}:10) : to @kernel_0
// CHECK-NOT: math.exp
// CHECK: - bascule.compute
// CHECK: ~ func.return {{.*}} operands from (bascule.compute) become (func.call)
// CHECK: @kernel_0
// CHECK-NOT: math.exp
// CHECK: + bascule.store
// CHECK-NOT: @main
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index):
    %e = tensor.extract %x[%i] : tensor<4xf32>
    %v = math.exp %e : f32
    "bascule.yield"(%v) : (f32) -> ()
  }) {ranges = affine_map<() -> (4)>} : () -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

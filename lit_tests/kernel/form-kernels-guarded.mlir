// RUN: bascule-opt %s --form-kernels | filecheck %s
// RUN: bascule-run %s --pipeline=form-kernels --compare | filecheck %s --check-prefix=NUMBERS
// NUMBERS: match (interpreted)
// NUMBERS: match (compiled)
// Under a condition there may be no such element: it is read where the condition holds, and no view shows it.
// CHECK-LABEL: func.func @guarded
// CHECK-NOT: bascule.view
func.func @guarded(%x: tensor<4xf32>) -> tensor<4xf32> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index):
    %c8 = arith.constant 8 : index
    %zero = arith.constant 0.0 : f32
    %holds = arith.cmpi ult, %c8, %i : index
    %r = scf.if %holds -> (f32) {
      %e = tensor.extract %x[%c8] : tensor<4xf32>
      scf.yield %e : f32
    } else {
      scf.yield %zero : f32
    }
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (4)>} : () -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

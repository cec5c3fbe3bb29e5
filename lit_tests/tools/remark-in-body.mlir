// A remark at an op of a body is told, at its line, with those of the op around it.
// RUN: bascule-opt %s --load-pass=tools.remark_in_body:NotePowers --note-powers --remarks --verify-diagnostics
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index):
    %e = tensor.extract %x[%i] : tensor<8xf32>
    // expected-remark @+1 {{not squared: its exponent is not known}}
    %p = math.powf %e, %e : f32
    "bascule.yield"(%p) : (f32) -> ()
  }) {ranges = affine_map<() -> (8)>} : () -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// RUN: bascule-opt %s --fold-views
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index):
    %e = tensor.extract %x[%i] : tensor<4xf32>
    %v = math.exp %e : f32
    "bascule.yield"(%v) : (f32) -> ()
  }) {ranges = affine_map<() -> (4)>} : () -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// A body reads tensors element by element, and has constants and symbols: what else it would take of its graph is refused at a place.
// RUN: bascule-opt %s --form-kernels --split-input-file --verify-diagnostics

func.func @cast(%x: tensor<4xf32>) -> tensor<4xf32> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index):
    // expected-error @+1 {{'tensor.cast' takes a value of the graph}}
    %y = tensor.cast %x : tensor<4xf32> to tensor<?xf32>
    %e = tensor.extract %x[%i] : tensor<4xf32>
    "bascule.yield"(%e) : (f32) -> ()
  }) {ranges = affine_map<() -> (4)>} : () -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @scalar(%x: tensor<4xf32>) -> tensor<4xf32> attributes {bascule.graph} {
  %c0 = arith.constant 0 : index
  %first = tensor.extract %x[%c0] : tensor<4xf32>
  %0 = "bascule.compute"() ({
  ^bb0(%i: index):
    %e = tensor.extract %x[%i] : tensor<4xf32>
    // expected-error @+1 {{'arith.addf' takes a value of the graph}}
    %s = arith.addf %e, %first : f32
    "bascule.yield"(%s) : (f32) -> ()
  }) {ranges = affine_map<() -> (4)>} : () -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// RUN: bascule-opt %s --split-input-file --verify-diagnostics

func.func @kind(%x: tensor<4xf32>) {
  // expected-error @+1 {{has the unknown kind 'welford'}}
  %r = "bascule.scan"() ({
  ^bb0(%i: index):
    %e = tensor.extract %x[%i] : tensor<4xf32>
    "bascule.yield"(%e) : (f32) -> ()
  }) {kind = "welford", dim = 0 : i64, ranges = affine_map<() -> (4)>} : () -> tensor<4xf32>
  return
}

// -----

func.func @dim(%x: tensor<4xf32>) {
  // expected-error @+1 {{scans dim 1 of 1 ranges}}
  %r = "bascule.scan"() ({
  ^bb0(%i: index):
    %e = tensor.extract %x[%i] : tensor<4xf32>
    "bascule.yield"(%e) : (f32) -> ()
  }) {kind = "sum", dim = 1 : i64, ranges = affine_map<() -> (4)>} : () -> tensor<4xf32>
  return
}

// -----

func.func @positions(%x: tensor<4xf32>) {
  // expected-error @+1 {{of kind 'argmax' yields f32, so its elements are i64, got f32}}
  %r = "bascule.scan"() ({
  ^bb0(%i: index):
    %e = tensor.extract %x[%i] : tensor<4xf32>
    "bascule.yield"(%e) : (f32) -> ()
  }) {kind = "argmax", dim = 0 : i64, ranges = affine_map<() -> (4)>} : () -> tensor<4xf32>
  return
}

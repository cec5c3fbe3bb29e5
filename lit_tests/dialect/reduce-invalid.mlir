// RUN: bascule-opt %s --split-input-file --verify-diagnostics

func.func @unknown_kind(%x: tensor<4xf32>) {
  // expected-error @+1 {{has the unknown kind 'average'; known: sum, prod}}
  %r = "bascule.reduce"() ({
  ^bb0(%k: index):
    %e = tensor.extract %x[%k] : tensor<4xf32>
    "bascule.yield"(%e) : (f32) -> ()
  }) {kind = "average", ranges = affine_map<() -> (4)>} : () -> f32
  return
}

// -----

func.func @wrong_result(%x: tensor<4xf32>) {
  // expected-error @+1 {{of kind 'argmax' yields f32, so its results are i64, got f32}}
  %r = "bascule.reduce"() ({
  ^bb0(%k: index):
    %e = tensor.extract %x[%k] : tensor<4xf32>
    "bascule.yield"(%e) : (f32) -> ()
  }) {kind = "argmax", ranges = affine_map<() -> (4)>} : () -> f32
  return
}

// -----

func.func @wrong_count(%x: tensor<4xf32>) {
  // expected-error @+1 {{of kind 'welford' has 3 result(s), got 1}}
  %r = "bascule.reduce"() ({
  ^bb0(%k: index):
    %e = tensor.extract %x[%k] : tensor<4xf32>
    "bascule.yield"(%e) : (f32) -> ()
  }) {kind = "welford", ranges = affine_map<() -> (4)>} : () -> f32
  return
}

// -----

func.func @any_of_floats(%x: tensor<4xf32>) {
  // expected-error @+1 {{of kind 'any' takes i1, got f32}}
  %r = "bascule.reduce"() ({
  ^bb0(%k: index):
    %e = tensor.extract %x[%k] : tensor<4xf32>
    "bascule.yield"(%e) : (f32) -> ()
  }) {kind = "any", ranges = affine_map<() -> (4)>} : () -> f32
  return
}

// -----

func.func @ranges_with_dims(%x: tensor<4xf32>) {
  // expected-error @+1 {{expects 'ranges' to be a map of symbols only}}
  %r = "bascule.reduce"() ({
  ^bb0(%k: index):
    %e = tensor.extract %x[%k] : tensor<4xf32>
    "bascule.yield"(%e) : (f32) -> ()
  }) {kind = "sum", ranges = affine_map<(d0) -> (d0)>} : () -> f32
  return
}

// -----

func.func @missing_index(%x: tensor<4x4xf32>, %i: index) {
  // expected-error @+1 {{expects a block of 2 arguments, one for each range, got 1}}
  %r = "bascule.reduce"() ({
  ^bb0(%k: index):
    %e = tensor.extract %x[%i, %k] : tensor<4x4xf32>
    "bascule.yield"(%e) : (f32) -> ()
  }) {kind = "sum", ranges = affine_map<() -> (4, 4)>} : () -> f32
  return
}

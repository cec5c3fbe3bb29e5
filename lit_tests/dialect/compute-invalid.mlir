// RUN: bascule-opt %s --split-input-file --verify-diagnostics

func.func @rank(%x: tensor<4xf32>) {
  // expected-error @+1 {{has 1 ranges but a result of rank 2}}
  %r = "bascule.compute"() ({
  ^bb0(%i: index):
    %e = tensor.extract %x[%i] : tensor<4xf32>
    "bascule.yield"(%e) : (f32) -> ()
  }) {ranges = affine_map<() -> (4)>} : () -> tensor<4x1xf32>
  return
}

// -----

func.func @size(%x: tensor<4xf32>) {
  // expected-error @+1 {{range 0 is 4 but the result's size there is 5}}
  %r = "bascule.compute"() ({
  ^bb0(%i: index):
    %e = tensor.extract %x[%i] : tensor<4xf32>
    "bascule.yield"(%e) : (f32) -> ()
  }) {ranges = affine_map<() -> (4)>} : () -> tensor<5xf32>
  return
}

// -----

func.func @element(%x: tensor<4xf32>) {
  // expected-error @+1 {{yields f32 for elements of type f64}}
  %r = "bascule.compute"() ({
  ^bb0(%i: index):
    %e = tensor.extract %x[%i] : tensor<4xf32>
    "bascule.yield"(%e) : (f32) -> ()
  }) {ranges = affine_map<() -> (4)>} : () -> tensor<4xf64>
  return
}

// -----

func.func @no_yield(%x: tensor<4xf32>) {
  // expected-error @+1 {{expects its region to end with 'bascule.yield'}}
  %r = "bascule.compute"() ({
  ^bb0(%i: index):
    %e = tensor.extract %x[%i] : tensor<4xf32>
  }) {ranges = affine_map<() -> (4)>} : () -> tensor<4xf32>
  return
}

// -----

func.func @negative(%x: tensor<4xf32>) {
  // expected-error @+1 {{has a negative range -4}}
  %r = "bascule.compute"() ({
  ^bb0(%i: index):
    %e = tensor.extract %x[%i] : tensor<4xf32>
    "bascule.yield"(%e) : (f32) -> ()
  }) {ranges = affine_map<() -> (-4)>} : () -> tensor<4xf32>
  return
}

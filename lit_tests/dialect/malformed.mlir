// What an operation lacks is told before its own verifier looks at it.
// RUN: bascule-opt %s --split-input-file --verify-diagnostics

func.func @no_attribute(%x: tensor<4xf32>) {
  // expected-error @+1 {{attribute "ranges" is expected but not provided}}
  %r = "bascule.compute"() ({
  ^bb0(%i: index):
    %e = tensor.extract %x[%i] : tensor<4xf32>
    "bascule.yield"(%e) : (f32) -> ()
  }) {range = affine_map<() -> (4)>} : () -> tensor<4xf32>
  return
}

// -----

func.func @other_attribute(%x: tensor<4xf32>) {
  // expected-error @+1 {{expected base attribute 'builtin.affine_map' but got 'builtin.integer'}}
  %r = "bascule.compute"() ({
  ^bb0(%i: index):
    %e = tensor.extract %x[%i] : tensor<4xf32>
    "bascule.yield"(%e) : (f32) -> ()
  }) {ranges = 4 : i64} : () -> tensor<4xf32>
  return
}

// -----

func.func @no_operand(%seed: i64) {
  // expected-error @+1 {{expects exactly 2 operands, but got 1}}
  %r = "bascule.random"(%seed) {distribution = "uniform"} : (i64) -> f32
  return
}

// -----

func.func @no_result(%x: tensor<4xf32>) {
  // expected-error @+1 {{expects exactly 1 results, but got 0}}
  "bascule.view"(%x) {map = affine_map<(d0) -> (d0)>, shape = affine_map<() -> (4)>} : (tensor<4xf32>) -> ()
  return
}

// -----

func.func @no_region() {
  // expected-error @+1 {{unexpected number of regions: expected 1 but got 0}}
  "bascule.foreach"() {ranges = affine_map<() -> (4)>} : () -> ()
  return
}

// -----

func.func @symbols(%n: index, %x: tensor<4xf32>) {
  // expected-error @+1 {{has a 'ranges' of 2 symbols in a function of 1}}
  "bascule.foreach"() ({
  ^bb0(%i: index):
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<()[s0, s1] -> (s1)>} : () -> ()
  return
}

// -----

func.func @yield(%v: f32) {
  // expected-error @+1 {{ends a region of an operation of this dialect, not of 'func.func'}}
  "bascule.yield"(%v) : (f32) -> ()
}

// -----

func.func @custom(%x: tensor<4xf32>) {
  // expected-error @+1 {{'bascule.compute' has no custom form}}
  %r = bascule.compute ranges(4) {} : tensor<4xf32>
  return
}

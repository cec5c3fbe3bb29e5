// RUN: bascule-opt %s --split-input-file --verify-diagnostics

func.func @scatter_type(%init: tensor<10xf32>) {
  // expected-error @+1 {{has a result of tensor<9xf32> for an init of tensor<10xf32>}}
  %out = "bascule.scatter"(%init) ({
  ^bb0(%i: index, %dest: tensor<9xf32>):
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (4)>} : (tensor<10xf32>) -> tensor<9xf32>
  return
}

// -----

func.func @scatter_block(%init: tensor<10xf32>) {
  // expected-error @+1 {{expects a block of 2 arguments}}
  %out = "bascule.scatter"(%init) ({
  ^bb0(%i: index):
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (4)>} : (tensor<10xf32>) -> tensor<10xf32>
  return
}

// -----

func.func @view_map(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{has a map of 1 dims to 2 results for ranks 2 and 2}}
  %t = "bascule.view"(%x) {map = affine_map<(d0) -> (d0, d0)>, shape = affine_map<() -> (8, 4)>} : (tensor<4x8xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @view_size(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{size 1 is 5 but the result's size there is 4}}
  %t = "bascule.view"(%x) {map = affine_map<(d0, d1) -> (d1, d0)>, shape = affine_map<() -> (8, 5)>} : (tensor<4x8xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @view_shape(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{expects 'shape' to give 2 sizes}}
  %t = "bascule.view"(%x) {map = affine_map<(d0, d1) -> (d1, d0)>, shape = affine_map<() -> (8)>} : (tensor<4x8xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @view_element(%x: tensor<4xf32>) {
  // expected-error @+1 {{changes the element type f32 to i32}}
  %t = "bascule.view"(%x) {map = affine_map<(d0) -> (d0)>, shape = affine_map<() -> (4)>} : (tensor<4xf32>) -> tensor<4xi32>
  return
}

// -----

func.func @copy(%x: tensor<4xf32>, %y: tensor<5xf32>) {
  // expected-error @+1 {{shapes and element types must be equal}}
  "bascule.copy_into"(%x, %y) : (tensor<4xf32>, tensor<5xf32>) -> ()
  return
}

// -----

func.func @distribution(%s: i64, %p: index) {
  // expected-error @+1 {{has the unknown distribution 'cauchy'; known: uniform, normal, bits}}
  %r = "bascule.random"(%s, %p) {distribution = "cauchy"} : (i64, index) -> f32
  return
}

// -----

func.func @random_type(%s: i64, %p: index) {
  // expected-error @+1 {{of distribution 'uniform' gives f32 or f64, got i32}}
  %r = "bascule.random"(%s, %p) {distribution = "uniform"} : (i64, index) -> i32
  return
}

// -----

func.func @position(%s: i64) {
  // expected-error @+1 {{takes a seed of type i64 and a position of type index}}
  %r = "bascule.random"(%s, %s) {distribution = "uniform"} : (i64, i64) -> f32
  return
}

// -----

func.func @copy_into_a_value(%x: tensor<4xf32>) {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index):
    %e = tensor.extract %x[%i] : tensor<4xf32>
    "bascule.yield"(%e) : (f32) -> ()
  }) {ranges = affine_map<() -> (4)>} : () -> tensor<4xf32>
  // expected-error @+1 {{'bascule.copy_into' op writes to what is no argument of the function}}
  "bascule.copy_into"(%x, %0) : (tensor<4xf32>, tensor<4xf32>) -> ()
  return
}

// Passes take functions that say what the strides and sizes of their tensors are.
// RUN: bascule-opt %s --split-input-file --verify-diagnostics --fold-views
// RUN: not bascule-opt %s --split-input-file --fold-views 2>&1 | filecheck %s
// A place is one in the file, whatever part it is in.
// CHECK: signatures.mlir:9:1: error: argument 0 of @layout
// CHECK: signatures.mlir:16:1: error: argument 1 of @no_layout

// expected-error @+1 {{argument 0 of @layout, tensor<4x4xf32, #bascule.layout<affine_map<(d0) -> (d0)>>>, has a layout of 1 dims and 1 results: 2 and 1 are needed}}
func.func @layout(%x: tensor<4x4xf32, #bascule.layout<affine_map<(d0) -> (d0)>>>) attributes {bascule.graph} {
  return
}

// -----

// expected-error @+1 {{argument 1 of @no_layout, tensor<?x4xf32>, is dynamic and has no #bascule.layout: its strides are not known}}
func.func @no_layout(%n: index, %x: tensor<?x4xf32>) attributes {bascule.graph} {
  return
}

// -----

// expected-error @+1 {{is dynamic and has no 'bascule.shape'}}
func.func @no_shape(%n: index, %x: tensor<?xf32, #bascule.layout<affine_map<(d0) -> (d0)>>>) attributes {bascule.graph} {
  return
}

// -----

// expected-error @+1 {{has a 'bascule.shape' of 2 symbols in a function of 1}}
func.func @symbols(%n: index, %x: tensor<?xf32, #bascule.layout<affine_map<(d0) -> (d0)>>> {bascule.shape = affine_map<()[s0, s1] -> (s1)>})
    attributes {bascule.graph} {
  return
}

// -----

// expected-error @+1 {{result 0 of @results, tensor<?xf32, #bascule.layout<affine_map<(d0) -> (d0)>>>, is dynamic and has no 'bascule.shapes'}}
func.func @results(%n: index, %x: tensor<?xf32, #bascule.layout<affine_map<(d0) -> (d0)>>> {bascule.shape = affine_map<()[s0] -> (s0)>})
    -> tensor<?xf32, #bascule.layout<affine_map<(d0) -> (d0)>>> attributes {bascule.graph} {
  return %x : tensor<?xf32, #bascule.layout<affine_map<(d0) -> (d0)>>>
}

// RUN: not bascule-opt %s --bufferize-kernels --split-input-file 2>&1 | filecheck %s

// CHECK: :6:8: error: 'bascule.compute' makes a tensor; at the kernel stage only calls and views do
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {bascule.graph} {

  %0 = "bascule.compute"() ({
  ^bb0(%i: index):
    %e = tensor.extract %x[%i] : tensor<4xf32>
    "bascule.yield"(%e) : (f32) -> ()
  }) {ranges = affine_map<() -> (4)>} : () -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// CHECK: error: 'tensor.extract' takes a tensor; at the kernel stage only calls, views and copies do
func.func @reads(%x: tensor<4xf32>) -> tensor<4xf32> attributes {bascule.graph} {
  %c0 = arith.constant 0 : index
  %e = tensor.extract %x[%c0] : tensor<4xf32>
  return %x : tensor<4xf32>
}

// -----

// CHECK: error: 'bascule.view' has its elements elsewhere than its type tells
// CHECK: hint: fold-views makes such a view a compute
func.func @scattered(%x: tensor<16xf32>) -> tensor<16xf32> attributes {bascule.graph} {
  %0 = "bascule.view"(%x) {map = affine_map<(d0) -> ((d0 mod 4) * 5)>, shape = affine_map<() -> (16)>} : (tensor<16xf32>) -> tensor<16xf32>
  return %0 : tensor<16xf32>
}

// -----

// CHECK: error: 'bufferize-kernels' takes tensors with no encoding but #bascule.layout: @encoded has others
func.func @encoded(%x: tensor<4xf32, "rows">) {
  return
}

// A pass refuses IR of a stage that it does not take, before it runs; functions in which nothing is ours are nobody's stage.
// RUN: bascule-opt %s --split-input-file --verify-diagnostics --fold-views
// RUN: not bascule-opt %s --split-input-file --fold-views 2>&1 | filecheck %s
// RUN: not bascule-opt %s --split-input-file --plan-memory 2>&1 | filecheck %s --check-prefix=PLAN
// RUN: not bascule-opt %s --split-input-file --schedule-kernels 2>&1 | filecheck %s --check-prefix=SCHEDULE
// RUN: not bascule-opt %s --split-input-file --unroll-windows 2>&1 | filecheck %s --check-prefix=UNROLL

// CHECK: error: 'fold-views' takes the tensor or kernel stage, whose values are tensors: those of @buffers are not
// CHECK: hint: run it before bufferize-kernels
// expected-error @+1 {{'fold-views' takes the tensor or kernel stage, whose values are tensors: those of @buffers are not}}
func.func @buffers(%x: memref<4x5xf32>) -> memref<5x4xf32, affine_map<(d0, d1) -> (d1 * 5 + d0)>> attributes {bascule.graph} {
  %t = "bascule.view"(%x) {map = affine_map<(d0, d1) -> (d1, d0)>, shape = affine_map<() -> (5, 4)>} : (memref<4x5xf32>) -> memref<5x4xf32, affine_map<(d0, d1) -> (d1 * 5 + d0)>>
  return %t : memref<5x4xf32, affine_map<(d0, d1) -> (d1 * 5 + d0)>>
}

// -----

// PLAN: error: 'plan-memory' takes the program stage, whose values are buffers: those of @values are not
// PLAN: hint: run bufferize-kernels first
func.func @values(%x: tensor<4x5xf32>) -> tensor<4x5xf32> {
  %y = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %x[%i, %j] : tensor<4x5xf32>
    "bascule.yield"(%e) : (f32) -> ()
  }) {ranges = affine_map<() -> (4, 5)>} : () -> tensor<4x5xf32>
  return %y : tensor<4x5xf32>
}

// -----

func.func @upstream(%x: memref<4xf32>, %i: index) -> f32 {
  %0 = memref.load %x[%i] : memref<4xf32>
  return %0 : f32
}

// -----

// PLAN: error: 'plan-memory' takes the program stage, whose values are buffers: those of @imported are not
// PLAN: hint: run the passes up to bufferize-kernels first
// SCHEDULE: error: 'schedule-kernels' takes the stages after the torch stage, whose values are tensors or buffers: those of @imported are not
// SCHEDULE: hint: run torch-to-bascule first
// UNROLL: error: 'unroll-windows' takes the stages after the torch stage, whose values are tensors or buffers: those of @imported are not
// expected-error @+1 {{'fold-views' takes the tensor or kernel stage, whose values are tensors: those of @imported are not}}
func.func @imported(%x: !torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32> attributes {bascule.graph} {
  %0 = torch.aten.sin %x : !torch.vtensor<[4],f32> -> !torch.vtensor<[4],f32>
  return %0 : !torch.vtensor<[4],f32>
}

// RUN: bascule-opt %s '--pass-pipeline=builtin.module(form-kernels,split-pieces{least=3})' | filecheck %s
// RUN: bascule-opt %s '--pass-pipeline=builtin.module(form-kernels,split-pieces{target=cuda least=3})' | filecheck %s --check-prefix=CUDA
// RUN: bascule-run %s --function=columns --pipeline='builtin.module(form-kernels,split-pieces{least=3})'
// RUN: bascule-run %s --function=rows --pipeline='builtin.module(form-kernels,split-pieces{least=3})'

// Pieces of the last index are loops; each has what is computed of its own piece, and what all share. For a GPU nothing changes.
// CHECK-LABEL: func.func private @kernel_0(
// CHECK-NOT: scf.if
// CHECK: "bascule.foreach"
// CHECK: tensor.extract
// CHECK-NOT: tensor.extract
// CHECK: math.exp
// CHECK: ranges = #[[FIRST:.*]]}
// CHECK: "bascule.foreach"
// CHECK: arith.negf
// CHECK: math.exp
// CHECK: "bascule.foreach"
// CHECK-NOT: "bascule.foreach"
// CUDA-LABEL: func.func private @kernel_0(
// CUDA: scf.if
// CUDA-NOT: "bascule.foreach"
func.func @columns(%x: tensor<8x5xf32>, %y: tensor<8x3xf32>, %z: tensor<8x4xf32>) -> tensor<8x12xf32> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %c5 = arith.constant 5 : index
    %c8 = arith.constant 8 : index
    %first = arith.cmpi slt, %j, %c5 : index
    %v = scf.if %first -> (f32) {
      %e = tensor.extract %x[%i, %j] : tensor<8x5xf32>
      scf.yield %e : f32
    } else {
      %last = arith.cmpi sge, %j, %c8 : index
      %w = scf.if %last -> (f32) {
        %k = affine.apply affine_map<(d0) -> (d0 - 8)>(%j)
        %e = tensor.extract %z[%i, %k] : tensor<8x4xf32>
        scf.yield %e : f32
      } else {
        %k = affine.apply affine_map<(d0) -> (d0 - 5)>(%j)
        %e = tensor.extract %y[%i, %k] : tensor<8x3xf32>
        %n = arith.negf %e : f32
        scf.yield %n : f32
      }
      scf.yield %w : f32
    }
    %r = math.exp %v : f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (8, 12)>} : () -> tensor<8x12xf32>
  return %0 : tensor<8x12xf32>
}

// Pieces of an outer index: all lanes are in one.
// CHECK-LABEL: func.func private @kernel_0_0(
// CHECK: scf.if
// CHECK-NOT: "bascule.foreach"
func.func @rows(%x: tensor<8xf32>, %y: tensor<8xf32>, %z: tensor<8xf32>) -> tensor<3x8xf32> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %first = arith.cmpi slt, %i, %c1 : index
    %v = scf.if %first -> (f32) {
      %e = tensor.extract %x[%j] : tensor<8xf32>
      scf.yield %e : f32
    } else {
      %second = arith.cmpi slt, %i, %c2 : index
      %w = scf.if %second -> (f32) {
        %e = tensor.extract %y[%j] : tensor<8xf32>
        scf.yield %e : f32
      } else {
        %e = tensor.extract %z[%j] : tensor<8xf32>
        scf.yield %e : f32
      }
      scf.yield %w : f32
    }
    "bascule.yield"(%v) : (f32) -> ()
  }) {ranges = affine_map<() -> (3, 8)>} : () -> tensor<3x8xf32>
  return %0 : tensor<3x8xf32>
}

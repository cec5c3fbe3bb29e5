// RUN: bascule-opt %s --inline-producers | filecheck %s
// RUN: bascule-opt %s '--pass-pipeline=builtin.module(inline-producers{target=cuda})' | filecheck %s --check-prefix=CUDA
// RUN: bascule-run %s --interpret-only --pipeline=inline-producers

// A small table of a function of indices, costly, of which each element is read 12 times: a CPU stores it, for it takes short rows element by
// element; a GPU does all of it in less than a launch takes.
// CHECK-LABEL: func.func @main(
// CHECK: math.cos
// CHECK: tensor.extract {{.*}} : tensor<16x4xf32>
// CUDA-LABEL: func.func @main(
// CUDA: tensor.extract {{.*}} : tensor<12x16x4xf32>
// CUDA: math.cos
// CUDA-NOT: tensor<16x4xf32>
func.func @main(%x: tensor<12x16x4xf32>) -> tensor<12x16x4xf32> attributes {bascule.graph} {
  %t = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %n = arith.index_cast %i : index to i64
    %a = arith.sitofp %n : i64 to f32
    %m = arith.index_cast %j : index to i64
    %b = arith.sitofp %m : i64 to f32
    %ab = arith.mulf %a, %b : f32
    %r = math.cos %ab : f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (16, 4)>} : () -> tensor<16x4xf32>
  %y = "bascule.compute"() ({
  ^bb0(%h: index, %i: index, %j: index):
    %a = tensor.extract %x[%h, %i, %j] : tensor<12x16x4xf32>
    %b = tensor.extract %t[%i, %j] : tensor<16x4xf32>
    %r = arith.mulf %a, %b : f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (12, 16, 4)>} : () -> tensor<12x16x4xf32>
  return %y : tensor<12x16x4xf32>
}

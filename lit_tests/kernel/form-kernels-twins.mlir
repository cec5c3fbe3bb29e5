// RUN: bascule-opt %s '--pass-pipeline=builtin.module(form-kernels{target=cuda})' | filecheck %s
// RUN: bascule-run %s --pipeline='builtin.module(form-kernels{target=cuda})'

// Two sums of columns, each of partial results that one kernel makes: on a GPU the second launch sums both.
// CHECK-LABEL: func.func @main(
// CHECK: %[[PARTS:.*]]:2 = call @
// CHECK: %[[SUMS:.*]]:2 = call @{{[a-z0-9_]+}}(%[[PARTS]]#0, %[[PARTS]]#1)
// CHECK: %[[Y:.*]] = call @{{[a-z0-9_]+}}(%{{[a-z0-9]+}}, %[[SUMS]]#0, %[[SUMS]]#1)
// CHECK: return %[[Y]]
func.func @main(%x: tensor<4096x64xf32>) -> tensor<4096x64xf32> attributes {bascule.graph} {
  %sums = "bascule.compute"() ({
  ^bb0(%c: index, %j: index):
    %s = "bascule.reduce"() ({
    ^bb0(%r: index):
      %i = affine.apply affine_map<(d0, d1) -> (d0 * 512 + d1)>(%c, %r)
      %e = tensor.extract %x[%i, %j] : tensor<4096x64xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (512)>} : () -> f32
    "bascule.yield"(%s) : (f32) -> ()
  }) {ranges = affine_map<() -> (8, 64)>} : () -> tensor<8x64xf32>
  %squares = "bascule.compute"() ({
  ^bb0(%c: index, %j: index):
    %s = "bascule.reduce"() ({
    ^bb0(%r: index):
      %i = affine.apply affine_map<(d0, d1) -> (d0 * 512 + d1)>(%c, %r)
      %e = tensor.extract %x[%i, %j] : tensor<4096x64xf32>
      %q = arith.mulf %e, %e : f32
      "bascule.yield"(%q) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (512)>} : () -> f32
    "bascule.yield"(%s) : (f32) -> ()
  }) {ranges = affine_map<() -> (8, 64)>} : () -> tensor<8x64xf32>
  %total = "bascule.compute"() ({
  ^bb0(%j: index):
    %s = "bascule.reduce"() ({
    ^bb0(%c: index):
      %e = tensor.extract %sums[%c, %j] : tensor<8x64xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (8)>} : () -> f32
    "bascule.yield"(%s) : (f32) -> ()
  }) {ranges = affine_map<() -> (64)>} : () -> tensor<64xf32>
  %power = "bascule.compute"() ({
  ^bb0(%j: index):
    %s = "bascule.reduce"() ({
    ^bb0(%c: index):
      %e = tensor.extract %squares[%c, %j] : tensor<8x64xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (8)>} : () -> f32
    "bascule.yield"(%s) : (f32) -> ()
  }) {ranges = affine_map<() -> (64)>} : () -> tensor<64xf32>
  %y = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %x[%i, %j] : tensor<4096x64xf32>
    %t = tensor.extract %total[%j] : tensor<64xf32>
    %p = tensor.extract %power[%j] : tensor<64xf32>
    %d = arith.subf %e, %t : f32
    %r = arith.mulf %d, %p : f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (4096, 64)>} : () -> tensor<4096x64xf32>
  return %y : tensor<4096x64xf32>
}

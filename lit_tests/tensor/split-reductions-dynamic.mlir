// RUN: bascule-opt %s --split-reductions=parallel=8,min-size=64 | filecheck %s
// RUN: bascule-run %s --interpret-only --pipeline='split-reductions{parallel=8 min-size=64}' --shapes=s0=3

// A range that is not known stays what it is where another is cut at a quotient; with it the reduction is not split.
#padded = #bascule.layout<affine_map<(d0, d1, d2) -> (d0 * 1024 + d1 * 128 + d2)>>

// CHECK: #[[RANGES:map[0-9]*]] = affine_map<()[s0] -> (s0, 8, 64)>
// CHECK-LABEL: func.func @main
// CHECK: kind = "sum", ranges = #[[RANGES]]
// CHECK: decision = "not split", {{.*}}reason = "the number of its elements is not known
func.func @main(%s: index, %x: tensor<?x8x64xf32, #padded> {bascule.shape = affine_map<()[s0] -> (s0, 8, 64)>})
    -> tensor<f32> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
    %sum = "bascule.reduce"() ({
    ^bb0(%i: index, %k: index):
      %q = affine.apply affine_map<(d0) -> (d0 floordiv 64)>(%k)
      %r = affine.apply affine_map<(d0) -> (d0 mod 64)>(%k)
      %e = tensor.extract %x[%i, %q, %r] : tensor<?x8x64xf32, #padded>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<()[s0] -> (s0, 512)>} : () -> f32
    "bascule.yield"(%sum) : (f32) -> ()
  }) {ranges = affine_map<() -> ()>} : () -> tensor<f32>
  return %0 : tensor<f32>
}

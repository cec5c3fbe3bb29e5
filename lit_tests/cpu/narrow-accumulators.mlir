// Reductions and running totals of 16-bit floats accumulate in f32 or wider, and round once.
// RUN: bascule-run %s --function=sum --compare | filecheck %s
// RUN: bascule-run %s --function=largest --compare | filecheck %s
// RUN: bascule-run %s --function=totals --compare | filecheck %s
// RUN: bascule-run %s --function=places --compare | filecheck %s
// CHECK: match (compiled)
func.func @sum(%x: tensor<16x70xbf16>) -> tensor<16xbf16> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index):
    %m = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %x[%i, %k] : tensor<16x70xbf16>
      "bascule.yield"(%e) : (bf16) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (70)>} : () -> bf16
    "bascule.yield"(%m) : (bf16) -> ()
  }) {ranges = affine_map<() -> (16)>} : () -> tensor<16xbf16>
  return %0 : tensor<16xbf16>
}
func.func @largest(%x: tensor<16x70xbf16>) -> tensor<70xbf16> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%k: index):
    %m = "bascule.reduce"() ({
    ^bb0(%i: index):
      %e = tensor.extract %x[%i, %k] : tensor<16x70xbf16>
      "bascule.yield"(%e) : (bf16) -> ()
    }) {kind = "max", ranges = affine_map<() -> (16)>} : () -> bf16
    "bascule.yield"(%m) : (bf16) -> ()
  }) {ranges = affine_map<() -> (70)>} : () -> tensor<70xbf16>
  return %0 : tensor<70xbf16>
}
func.func @totals(%x: tensor<16x70xf16>) -> tensor<16x70xf16> attributes {bascule.graph} {
  %0 = "bascule.scan"() ({
  ^bb0(%i: index, %k: index):
    %e = tensor.extract %x[%i, %k] : tensor<16x70xf16>
    "bascule.yield"(%e) : (f16) -> ()
  }) {kind = "sum", dim = 0 : i64, ranges = affine_map<() -> (16, 70)>} : () -> tensor<16x70xf16>
  return %0 : tensor<16x70xf16>
}
func.func @places(%x: tensor<16x70xbf16>) -> tensor<16x70xi64> attributes {bascule.graph} {
  %0 = "bascule.scan"() ({
  ^bb0(%i: index, %k: index):
    %e = tensor.extract %x[%i, %k] : tensor<16x70xbf16>
    "bascule.yield"(%e) : (bf16) -> ()
  }) {kind = "argmax", dim = 1 : i64, ranges = affine_map<() -> (16, 70)>} : () -> tensor<16x70xi64>
  return %0 : tensor<16x70xi64>
}

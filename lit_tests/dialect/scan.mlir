// RUN: bascule-opt %s | bascule-opt | filecheck %s

// CHECK-LABEL: func.func @cumsum
func.func @cumsum(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // CHECK: "bascule.scan"()
  // CHECK: dim = 1 : i64, kind = "sum"
  %out = "bascule.scan"() ({
  ^bb0(%i: index, %k: index):
    %e = tensor.extract %x[%i, %k] : tensor<4x8xf32>
    "bascule.yield"(%e) : (f32) -> ()
  }) {kind = "sum", dim = 1 : i64, ranges = affine_map<() -> (4, 8)>} : () -> tensor<4x8xf32>
  return %out : tensor<4x8xf32>
}

// RUN: bascule-opt %s | bascule-opt | filecheck %s

// CHECK-LABEL: func.func @kinds
func.func @kinds(%x: tensor<4x8xf32>, %b: tensor<4x8xi1>) -> tensor<4xf32> {
  // CHECK: "bascule.compute"()
  %out = "bascule.compute"() ({
  ^bb0(%i: index):
    // CHECK: "bascule.reduce"()
    // CHECK: kind = "sum", ranges = #[[EIGHT:.*]]} : () -> f32
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %x[%i, %k] : tensor<4x8xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (8)>} : () -> f32
    // CHECK: kind = "argmax", ranges = #[[EIGHT]]} : () -> i64
    %at = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %x[%i, %k] : tensor<4x8xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "argmax", ranges = affine_map<() -> (8)>} : () -> i64
    // CHECK: kind = "welford", ranges = #[[EIGHT]]} : () -> (f32, f32, f32)
    %mean, %m2, %count = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %x[%i, %k] : tensor<4x8xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "welford", ranges = affine_map<() -> (8)>} : () -> (f32, f32, f32)
    // CHECK: kind = "any", ranges = #[[EIGHT]]} : () -> i1
    %any = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %b[%i, %k] : tensor<4x8xi1>
      "bascule.yield"(%e) : (i1) -> ()
    }) {kind = "any", ranges = affine_map<() -> (8)>} : () -> i1
    %var = arith.divf %m2, %count : f32
    %f = arith.sitofp %at : i64 to f32
    %s = arith.select %any, %var, %f : f32
    %r = arith.addf %sum, %s : f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (4)>} : () -> tensor<4xf32>
  return %out : tensor<4xf32>
}

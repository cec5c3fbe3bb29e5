// RUN: bascule-opt %s

func.func @main(%x: tensor<4x6xf32>, %y: tensor<6xf32>) -> (tensor<4x6xf32>, tensor<4xf32>) attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %a = tensor.extract %x[%i, %j] : tensor<4x6xf32>
    %b = tensor.extract %y[%j] : tensor<6xf32>
    %c = arith.mulf %a, %b : f32
    %d = math.exp %c : f32
    "bascule.yield"(%d) : (f32) -> ()
  }) {ranges = affine_map<() -> (4, 6)>} : () -> tensor<4x6xf32>
  %1 = "bascule.compute"() ({
  ^bb0(%i: index):
    %sum = "bascule.reduce"() ({
    ^bb1(%j: index):
      %e = tensor.extract %0[%i, %j] : tensor<4x6xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (6)>} : () -> f32
    %log = math.log %sum : f32
    "bascule.yield"(%log) : (f32) -> ()
  }) {ranges = affine_map<() -> (4)>} : () -> tensor<4xf32>
  return %0, %1 : tensor<4x6xf32>, tensor<4xf32>
}

// RUN: bascule-opt %s --form-kernels=max-parts=1 --drop-roundings --cse | filecheck %s

// What is rounded for its store only is kept in a row as it was before; what the user's cast rounded is kept rounded.
// CHECK-LABEL: func.func private @
// CHECK: [[ROW:%[0-9]+]] = "bascule.compute"() ({
// CHECK: [[E:%[0-9]+]] = math.exp
// CHECK-NEXT: "bascule.yield"([[E]]) : (f32)
// CHECK: -> tensor<64xf32>
// CHECK: "bascule.reduce"() ({
// CHECK: [[V:%[a-z0-9_]+]] = tensor.extract [[ROW]]
// CHECK-NOT: arith
// CHECK: "bascule.yield"([[V]])
// CHECK: arith.divf
// CHECK: arith.truncf
// CHECK-LABEL: func.func private @
// CHECK: math.exp
// CHECK-NEXT: [[R:%[0-9]+]] = arith.truncf
// CHECK-NEXT: "bascule.yield"([[R]]) : (bf16)
// CHECK: -> tensor<64xbf16>
func.func @main(%x: tensor<16x64xbf16>, %y: tensor<16x64xbf16>) -> (tensor<16x64xbf16>, tensor<16x64xbf16>) attributes {bascule.graph} {
  %e = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %v = tensor.extract %x[%i, %j] : tensor<16x64xbf16>
    %f = arith.extf %v : bf16 to f32
    %p = math.exp %f : f32
    %r = arith.truncf %p : f32 to bf16
    "bascule.yield"(%r) : (bf16) -> ()
  }) {ranges = affine_map<() -> (16, 64)>} : () -> tensor<16x64xbf16>
  %s = "bascule.compute"() ({
  ^bb0(%i: index):
    %r = "bascule.reduce"() ({
    ^bb0(%k: index):
      %v = tensor.extract %e[%i, %k] : tensor<16x64xbf16>
      %f = arith.extf %v : bf16 to f32
      "bascule.yield"(%f) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (64)>} : () -> f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (16)>} : () -> tensor<16xf32>
  %p = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %v = tensor.extract %e[%i, %j] : tensor<16x64xbf16>
    %f = arith.extf %v : bf16 to f32
    %t = tensor.extract %s[%i] : tensor<16xf32>
    %q = arith.divf %f, %t : f32
    %r = arith.truncf %q : f32 to bf16
    "bascule.yield"(%r) : (bf16) -> ()
  }) {ranges = affine_map<() -> (16, 64)>} : () -> tensor<16x64xbf16>
  %e2 = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %v = tensor.extract %y[%i, %j] : tensor<16x64xbf16>
    %f = arith.extf %v : bf16 to f32
    %g = math.exp %f : f32
    %r = arith.truncf %g to_nearest_even : f32 to bf16
    "bascule.yield"(%r) : (bf16) -> ()
  }) {ranges = affine_map<() -> (16, 64)>} : () -> tensor<16x64xbf16>
  %s2 = "bascule.compute"() ({
  ^bb0(%i: index):
    %r = "bascule.reduce"() ({
    ^bb0(%k: index):
      %v = tensor.extract %e2[%i, %k] : tensor<16x64xbf16>
      %f = arith.extf %v : bf16 to f32
      "bascule.yield"(%f) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (64)>} : () -> f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (16)>} : () -> tensor<16xf32>
  %p2 = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %v = tensor.extract %e2[%i, %j] : tensor<16x64xbf16>
    %f = arith.extf %v : bf16 to f32
    %t = tensor.extract %s2[%i] : tensor<16xf32>
    %q = arith.divf %f, %t : f32
    %r = arith.truncf %q : f32 to bf16
    "bascule.yield"(%r) : (bf16) -> ()
  }) {ranges = affine_map<() -> (16, 64)>} : () -> tensor<16x64xbf16>
  return %p, %p2 : tensor<16x64xbf16>, tensor<16x64xbf16>
}

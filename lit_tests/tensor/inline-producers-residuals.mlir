// RUN: bascule-opt %s '--pass-pipeline=builtin.module(inline-producers{target=cuda})' | filecheck %s
// RUN: bascule-opt %s '--pass-pipeline=builtin.module(inline-producers)' | filecheck %s --check-prefix=CPU
// RUN: bascule-run %s --function=residual --interpret-only --pipeline='inline-producers{target=cuda}'
// RUN: bascule-run %s --function=widened --interpret-only --pipeline='inline-producers{target=cuda}'

// A residual: a norm reads a sum, and the next sum reads it after a product. One kernel would store the sum for the other, which reads its two
// terms instead of it: as many bytes, and no rounding.
// CHECK-LABEL: func.func @residual(
// CHECK-COUNT-2: "bascule.compute"
// CHECK: call @product
// CHECK-NEXT: "bascule.compute"
// CHECK: tensor.extract %arg0
// CHECK: tensor.extract %arg1
// CHECK-NOT: "bascule.compute"
// CHECK: return
// CPU-LABEL: func.func @residual(
// CPU-COUNT-4: "bascule.compute"
// CPU: return
func.func @residual(%x: tensor<256x4096xbf16>, %p: tensor<256x4096xbf16>) -> tensor<256x4096xbf16> attributes {bascule.graph} {
  %y = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %a_ = tensor.extract %x[%i, %j] : tensor<256x4096xbf16>
    %a = arith.extf %a_ : bf16 to f32
    %b_ = tensor.extract %p[%i, %j] : tensor<256x4096xbf16>
    %b = arith.extf %b_ : bf16 to f32
    %r = arith.addf %a, %b : f32
    %rt = arith.truncf %r : f32 to bf16
    "bascule.yield"(%rt) : (bf16) -> ()
  }) {ranges = affine_map<() -> (256, 4096)>} : () -> tensor<256x4096xbf16>
  %s = "bascule.compute"() ({
  ^bb0(%i: index):
    %t = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e_ = tensor.extract %y[%i, %k] : tensor<256x4096xbf16>
      %e = arith.extf %e_ : bf16 to f32
      %q = arith.mulf %e, %e : f32
      "bascule.yield"(%q) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (4096)>} : () -> f32
    "bascule.yield"(%t) : (f32) -> ()
  }) {ranges = affine_map<() -> (256)>} : () -> tensor<256xf32>
  %n = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e_ = tensor.extract %y[%i, %j] : tensor<256x4096xbf16>
    %e = arith.extf %e_ : bf16 to f32
    %w = tensor.extract %s[%i] : tensor<256xf32>
    %r = arith.divf %e, %w : f32
    %rt = arith.truncf %r : f32 to bf16
    "bascule.yield"(%rt) : (bf16) -> ()
  }) {ranges = affine_map<() -> (256, 4096)>} : () -> tensor<256x4096xbf16>
  %m = call @product(%n) : (tensor<256x4096xbf16>) -> tensor<256x4096xbf16>
  %z = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e_ = tensor.extract %y[%i, %j] : tensor<256x4096xbf16>
    %e = arith.extf %e_ : bf16 to f32
    %w_ = tensor.extract %m[%i, %j] : tensor<256x4096xbf16>
    %w = arith.extf %w_ : bf16 to f32
    %r = arith.addf %e, %w : f32
    %rt = arith.truncf %r : f32 to bf16
    "bascule.yield"(%rt) : (bf16) -> ()
  }) {ranges = affine_map<() -> (256, 4096)>} : () -> tensor<256x4096xbf16>
  return %z : tensor<256x4096xbf16>
}

// The sum is f32, one of its terms not: fewer bytes.
// CHECK-LABEL: func.func @widened(
// CHECK-COUNT-3: "bascule.compute"
// CHECK-NOT: "bascule.compute"
// CHECK: return
func.func @widened(%x: tensor<256x4096xf32>, %p: tensor<256x4096xbf16>) -> tensor<256x4096xf32> attributes {bascule.graph} {
  %y = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %a = tensor.extract %x[%i, %j] : tensor<256x4096xf32>
    %b_ = tensor.extract %p[%i, %j] : tensor<256x4096xbf16>
    %b = arith.extf %b_ : bf16 to f32
    %r = arith.addf %a, %b : f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (256, 4096)>} : () -> tensor<256x4096xf32>
  %s = "bascule.compute"() ({
  ^bb0(%i: index):
    %t = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %y[%i, %k] : tensor<256x4096xf32>
      %q = arith.mulf %e, %e : f32
      "bascule.yield"(%q) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (4096)>} : () -> f32
    "bascule.yield"(%t) : (f32) -> ()
  }) {ranges = affine_map<() -> (256)>} : () -> tensor<256xf32>
  %n = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %y[%i, %j] : tensor<256x4096xf32>
    %w = tensor.extract %s[%i] : tensor<256xf32>
    %r = arith.divf %e, %w : f32
    %rt = arith.truncf %r : f32 to bf16
    "bascule.yield"(%rt) : (bf16) -> ()
  }) {ranges = affine_map<() -> (256, 4096)>} : () -> tensor<256x4096xbf16>
  %m = call @product(%n) : (tensor<256x4096xbf16>) -> tensor<256x4096xbf16>
  %z = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %y[%i, %j] : tensor<256x4096xf32>
    %w_ = tensor.extract %m[%i, %j] : tensor<256x4096xbf16>
    %w = arith.extf %w_ : bf16 to f32
    %r = arith.addf %e, %w : f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (256, 4096)>} : () -> tensor<256x4096xf32>
  return %z : tensor<256x4096xf32>
}

// All of it is f32: as many bytes, and nothing that is rounded.
// CHECK-LABEL: func.func @exact(
// CHECK-COUNT-4: "bascule.compute"
// CHECK: return
func.func @exact(%x: tensor<256x4096xf32>, %p: tensor<256x4096xf32>) -> tensor<256x4096xf32> attributes {bascule.graph} {
  %y = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %a = tensor.extract %x[%i, %j] : tensor<256x4096xf32>
    %b = tensor.extract %p[%i, %j] : tensor<256x4096xf32>
    %r = arith.addf %a, %b : f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (256, 4096)>} : () -> tensor<256x4096xf32>
  %s = "bascule.compute"() ({
  ^bb0(%i: index):
    %t = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %y[%i, %k] : tensor<256x4096xf32>
      %q = arith.mulf %e, %e : f32
      "bascule.yield"(%q) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (4096)>} : () -> f32
    "bascule.yield"(%t) : (f32) -> ()
  }) {ranges = affine_map<() -> (256)>} : () -> tensor<256xf32>
  %n = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %y[%i, %j] : tensor<256x4096xf32>
    %w = tensor.extract %s[%i] : tensor<256xf32>
    %r = arith.divf %e, %w : f32
    %rt = arith.truncf %r : f32 to bf16
    "bascule.yield"(%rt) : (bf16) -> ()
  }) {ranges = affine_map<() -> (256, 4096)>} : () -> tensor<256x4096xbf16>
  %m = call @product(%n) : (tensor<256x4096xbf16>) -> tensor<256x4096xbf16>
  %z = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %y[%i, %j] : tensor<256x4096xf32>
    %w_ = tensor.extract %m[%i, %j] : tensor<256x4096xbf16>
    %w = arith.extf %w_ : bf16 to f32
    %r = arith.addf %e, %w : f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (256, 4096)>} : () -> tensor<256x4096xf32>
  return %z : tensor<256x4096xf32>
}

// No call stands between the readers: one kernel holds them all.
// CHECK-LABEL: func.func @together(
// CHECK-COUNT-3: "bascule.compute"
// CHECK: return
func.func @together(%x: tensor<256x4096xbf16>, %p: tensor<256x4096xbf16>) -> tensor<256x4096xbf16> attributes {bascule.graph} {
  %y = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %a_ = tensor.extract %x[%i, %j] : tensor<256x4096xbf16>
    %a = arith.extf %a_ : bf16 to f32
    %b_ = tensor.extract %p[%i, %j] : tensor<256x4096xbf16>
    %b = arith.extf %b_ : bf16 to f32
    %r = arith.addf %a, %b : f32
    %rt = arith.truncf %r : f32 to bf16
    "bascule.yield"(%rt) : (bf16) -> ()
  }) {ranges = affine_map<() -> (256, 4096)>} : () -> tensor<256x4096xbf16>
  %s = "bascule.compute"() ({
  ^bb0(%i: index):
    %t = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e_ = tensor.extract %y[%i, %k] : tensor<256x4096xbf16>
      %e = arith.extf %e_ : bf16 to f32
      %q = arith.mulf %e, %e : f32
      "bascule.yield"(%q) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (4096)>} : () -> f32
    "bascule.yield"(%t) : (f32) -> ()
  }) {ranges = affine_map<() -> (256)>} : () -> tensor<256xf32>
  %n = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e_ = tensor.extract %y[%i, %j] : tensor<256x4096xbf16>
    %e = arith.extf %e_ : bf16 to f32
    %w = tensor.extract %s[%i] : tensor<256xf32>
    %r = arith.divf %e, %w : f32
    %rt = arith.truncf %r : f32 to bf16
    "bascule.yield"(%rt) : (bf16) -> ()
  }) {ranges = affine_map<() -> (256, 4096)>} : () -> tensor<256x4096xbf16>
  %z = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e_ = tensor.extract %y[%i, %j] : tensor<256x4096xbf16>
    %e = arith.extf %e_ : bf16 to f32
    %w_ = tensor.extract %n[%i, %j] : tensor<256x4096xbf16>
    %w = arith.extf %w_ : bf16 to f32
    %r = arith.addf %e, %w : f32
    %rt = arith.truncf %r : f32 to bf16
    "bascule.yield"(%rt) : (bf16) -> ()
  }) {ranges = affine_map<() -> (256, 4096)>} : () -> tensor<256x4096xbf16>
  return %z : tensor<256x4096xbf16>
}
func.func private @product(tensor<256x4096xbf16>) -> tensor<256x4096xbf16> attributes {bascule.extern = "aten.sigmoid.default", bascule.arguments = [#bascule.operand<0>], bascule.results = array<i64: 0>, bascule.out = "aten.sigmoid.out"}

// RUN: bascule-opt %s --widen-intermediates | filecheck %s
// RUN: bascule-run %s --function=gate --interpret-only --pipeline=widen-intermediates
// RUN: bascule-run %s --function=small --interpret-only --pipeline=widen-intermediates
// RUN: bascule-run %s --function=factor --interpret-only --pipeline=widen-intermediates
// RUN: bascule-run %s --function=cast --interpret-only --pipeline=widen-intermediates

// Each element of the gate is for 128 others: it is not rounded.
// CHECK-LABEL: func.func @gate(
// CHECK: %[[G:[a-z0-9]+]] = "bascule.compute"
// CHECK-NOT: arith.truncf
// CHECK: () -> tensor<64xf32>
// CHECK: %[[E:[a-z0-9_]+]] = tensor.extract %[[G]][%{{[a-z0-9]+}}] : tensor<64xf32>
// CHECK-NEXT: arith.mulf %{{[a-z0-9]+}}, %[[E]] : f32
func.func @gate(%x: tensor<64x128xbf16>, %s: tensor<64xf32>) -> tensor<64x128xbf16> attributes {bascule.graph} {
  %g = "bascule.compute"() ({
  ^bb0(%i: index):
    %a = tensor.extract %s[%i] : tensor<64xf32>
    %b = math.tanh %a : f32
    %c = arith.truncf %b : f32 to bf16
    "bascule.yield"(%c) : (bf16) -> ()
  }) {ranges = affine_map<() -> (64)>} : () -> tensor<64xbf16>
  %z = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %a = tensor.extract %x[%i, %j] : tensor<64x128xbf16>
    %b = arith.extf %a : bf16 to f32
    %c = tensor.extract %g[%i] : tensor<64xbf16>
    %d = arith.extf %c : bf16 to f32
    %e = arith.mulf %b, %d : f32
    %f = arith.truncf %e : f32 to bf16
    "bascule.yield"(%f) : (bf16) -> ()
  }) {ranges = affine_map<() -> (64, 128)>} : () -> tensor<64x128xbf16>
  return %z : tensor<64x128xbf16>
}

// Of the user's own cast what is rounded need not be seen by arithmetic on 16 bits either.
// CHECK-LABEL: func.func @cast(
// CHECK: %[[G:[a-z0-9]+]] = "bascule.compute"
// CHECK-NOT: arith.truncf
// CHECK: () -> tensor<64xf32>
// CHECK: %[[E:[a-z0-9_]+]] = tensor.extract %[[G]][%{{[a-z0-9]+}}] : tensor<64xf32>
// CHECK-NEXT: arith.mulf %{{[a-z0-9]+}}, %[[E]] : f32
func.func @cast(%x: tensor<64x128xbf16>, %s: tensor<64xf32>) -> tensor<64x128xbf16> attributes {bascule.graph} {
  %g = "bascule.compute"() ({
  ^bb0(%i: index):
    %a = tensor.extract %s[%i] : tensor<64xf32>
    %b = math.tanh %a : f32
    %c = arith.truncf %b {bascule.cast} : f32 to bf16
    "bascule.yield"(%c) : (bf16) -> ()
  }) {ranges = affine_map<() -> (64)>} : () -> tensor<64xbf16>
  %z = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %a = tensor.extract %x[%i, %j] : tensor<64x128xbf16>
    %b = arith.extf %a : bf16 to f32
    %c = tensor.extract %g[%i] : tensor<64xbf16>
    %d = arith.extf %c : bf16 to f32
    %e = arith.mulf %b, %d : f32
    %f = arith.truncf %e : f32 to bf16
    "bascule.yield"(%f) : (bf16) -> ()
  }) {ranges = affine_map<() -> (64, 128)>} : () -> tensor<64x128xbf16>
  return %z : tensor<64x128xbf16>
}

// The user casts and casts back: it rounds.
// CHECK-LABEL: func.func @converted(
// CHECK: arith.truncf
// CHECK: () -> tensor<64xbf16>
// CHECK: return
func.func @converted(%x: tensor<64x128xbf16>, %s: tensor<64xf32>) -> tensor<64x128xbf16> attributes {bascule.graph} {
  %g = "bascule.compute"() ({
  ^bb0(%i: index):
    %a = tensor.extract %s[%i] : tensor<64xf32>
    %b = math.tanh %a : f32
    %c = arith.truncf %b {bascule.cast} : f32 to bf16
    "bascule.yield"(%c) : (bf16) -> ()
  }) {ranges = affine_map<() -> (64)>} : () -> tensor<64xbf16>
  %z = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %a = tensor.extract %x[%i, %j] : tensor<64x128xbf16>
    %b = arith.extf %a : bf16 to f32
    %c = tensor.extract %g[%i] : tensor<64xbf16>
    %d = arith.extf %c {bascule.cast} : bf16 to f32
    %e = arith.mulf %b, %d : f32
    %f = arith.truncf %e : f32 to bf16
    "bascule.yield"(%f) : (bf16) -> ()
  }) {ranges = affine_map<() -> (64, 128)>} : () -> tensor<64x128xbf16>
  return %z : tensor<64x128xbf16>
}

// Asked for as it is in memory.
// CHECK-LABEL: func.func @stored(
// CHECK: arith.truncf
// CHECK: () -> tensor<64xbf16>
// CHECK: return
func.func @stored(%x: tensor<64x128xbf16>, %s: tensor<64xf32>) -> tensor<64x128xbf16> attributes {bascule.graph} {
  %g = "bascule.compute"() ({
  ^bb0(%i: index):
    %a = tensor.extract %s[%i] : tensor<64xf32>
    %b = math.tanh %a : f32
    %c = arith.truncf %b : f32 to bf16
    "bascule.yield"(%c) : (bf16) -> ()
  }) {ranges = affine_map<() -> (64)>} : () -> tensor<64xbf16>
  %z = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %a = tensor.extract %x[%i, %j] : tensor<64x128xbf16>
    %b = arith.extf %a : bf16 to f32
    %c = tensor.extract %g[%i] : tensor<64xbf16>
    %d = arith.extf %c {bascule.stored} : bf16 to f32
    %e = arith.mulf %b, %d : f32
    %f = arith.truncf %e : f32 to bf16
    "bascule.yield"(%f) : (bf16) -> ()
  }) {ranges = affine_map<() -> (64, 128)>} : () -> tensor<64x128xbf16>
  return %z : tensor<64x128xbf16>
}

// Something else takes it.
// CHECK-LABEL: func.func @returned(
// CHECK: arith.truncf
// CHECK: () -> tensor<64xbf16>
// CHECK: return
func.func @returned(%x: tensor<64x128xbf16>, %s: tensor<64xf32>) -> (tensor<64x128xbf16>, tensor<64xbf16>) attributes {bascule.graph} {
  %g = "bascule.compute"() ({
  ^bb0(%i: index):
    %a = tensor.extract %s[%i] : tensor<64xf32>
    %b = math.tanh %a : f32
    %c = arith.truncf %b : f32 to bf16
    "bascule.yield"(%c) : (bf16) -> ()
  }) {ranges = affine_map<() -> (64)>} : () -> tensor<64xbf16>
  %z = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %a = tensor.extract %x[%i, %j] : tensor<64x128xbf16>
    %b = arith.extf %a : bf16 to f32
    %c = tensor.extract %g[%i] : tensor<64xbf16>
    %d = arith.extf %c : bf16 to f32
    %e = arith.mulf %b, %d : f32
    %f = arith.truncf %e : f32 to bf16
    "bascule.yield"(%f) : (bf16) -> ()
  }) {ranges = affine_map<() -> (64, 128)>} : () -> tensor<64x128xbf16>
  return %z, %g : tensor<64x128xbf16>, tensor<64xbf16>
}

// Not so much smaller than what reads it that wider elements would cost nothing.
// CHECK-LABEL: func.func @large(
// CHECK: arith.truncf
// CHECK: () -> tensor<4096xbf16>
// CHECK: return
func.func @large(%x: tensor<4096x16xbf16>, %s: tensor<4096xf32>) -> tensor<4096x16xbf16> attributes {bascule.graph} {
  %g = "bascule.compute"() ({
  ^bb0(%i: index):
    %a = tensor.extract %s[%i] : tensor<4096xf32>
    %b = math.tanh %a : f32
    %c = arith.truncf %b : f32 to bf16
    "bascule.yield"(%c) : (bf16) -> ()
  }) {ranges = affine_map<() -> (4096)>} : () -> tensor<4096xbf16>
  %z = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %a = tensor.extract %x[%i, %j] : tensor<4096x16xbf16>
    %b = arith.extf %a : bf16 to f32
    %c = tensor.extract %g[%i] : tensor<4096xbf16>
    %d = arith.extf %c : bf16 to f32
    %e = arith.mulf %b, %d : f32
    %f = arith.truncf %e : f32 to bf16
    "bascule.yield"(%f) : (bf16) -> ()
  }) {ranges = affine_map<() -> (4096, 16)>} : () -> tensor<4096x16xbf16>
  return %z : tensor<4096x16xbf16>
}

// Small tensors alone, a sum over them among the readers.
// CHECK-LABEL: func.func @small(
// CHECK: () -> tensor<256xf32>
// CHECK: () -> tensor<f32>
// CHECK: () -> tensor<256xbf16>
// CHECK-NEXT: return
func.func @small(%x: tensor<256xbf16>, %y: tensor<256xbf16>) -> tensor<256xbf16> attributes {bascule.graph} {
  %h = "bascule.compute"() ({
  ^bb0(%i: index):
    %a = tensor.extract %x[%i] : tensor<256xbf16>
    %b = arith.extf %a : bf16 to f32
    %c = tensor.extract %y[%i] : tensor<256xbf16>
    %d = arith.extf %c : bf16 to f32
    %e = arith.addf %b, %d : f32
    %f = arith.truncf %e : f32 to bf16
    "bascule.yield"(%f) : (bf16) -> ()
  }) {ranges = affine_map<() -> (256)>} : () -> tensor<256xbf16>
  %s = "bascule.compute"() ({
    %t = "bascule.reduce"() ({
    ^bb0(%k: index):
      %a = tensor.extract %h[%k] : tensor<256xbf16>
      %b = arith.extf %a : bf16 to f32
      "bascule.yield"(%b) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (256)>} : () -> f32
    "bascule.yield"(%t) : (f32) -> ()
  }) {ranges = affine_map<() -> ()>} : () -> tensor<f32>
  %z = "bascule.compute"() ({
  ^bb0(%i: index):
    %a = tensor.extract %h[%i] : tensor<256xbf16>
    %b = arith.extf %a : bf16 to f32
    %c = tensor.extract %s[] : tensor<f32>
    %d = arith.mulf %b, %c : f32
    %e = arith.truncf %d : f32 to bf16
    "bascule.yield"(%e) : (bf16) -> ()
  }) {ranges = affine_map<() -> (256)>} : () -> tensor<256xbf16>
  return %z : tensor<256xbf16>
}

// A factor of a product that tensor cores multiply has 16 bits; of few rows there is none of these.
// CHECK-LABEL: func.func @factor(
// CHECK: () -> tensor<16x32xbf16>
// CHECK: () -> tensor<8x32xf32>
// CHECK: return
func.func @factor(%x: tensor<16x32xbf16>, %y: tensor<32x24xbf16>) -> (tensor<16x24xf32>, tensor<8x24xf32>) attributes {bascule.graph} {
  %h = "bascule.compute"() ({
  ^bb0(%i: index, %k: index):
    %a = tensor.extract %x[%i, %k] : tensor<16x32xbf16>
    %b = arith.extf %a : bf16 to f32
    %c = math.tanh %b : f32
    %d = arith.truncf %c : f32 to bf16
    "bascule.yield"(%d) : (bf16) -> ()
  }) {ranges = affine_map<() -> (16, 32)>} : () -> tensor<16x32xbf16>
  %g = "bascule.compute"() ({
  ^bb0(%i: index, %k: index):
    %a = tensor.extract %x[%i, %k] : tensor<16x32xbf16>
    %b = arith.extf %a : bf16 to f32
    %c = math.sin %b : f32
    %d = arith.truncf %c : f32 to bf16
    "bascule.yield"(%d) : (bf16) -> ()
  }) {ranges = affine_map<() -> (8, 32)>} : () -> tensor<8x32xbf16>
  %z = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %s = "bascule.reduce"() ({
    ^bb0(%k: index):
      %a = tensor.extract %h[%i, %k] : tensor<16x32xbf16>
      %b = arith.extf %a : bf16 to f32
      %c = tensor.extract %y[%k, %j] : tensor<32x24xbf16>
      %d = arith.extf %c : bf16 to f32
      %e = arith.mulf %b, %d : f32
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (32)>} : () -> f32
    "bascule.yield"(%s) : (f32) -> ()
  }) {ranges = affine_map<() -> (16, 24)>} : () -> tensor<16x24xf32>
  %w = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %s = "bascule.reduce"() ({
    ^bb0(%k: index):
      %a = tensor.extract %g[%i, %k] : tensor<8x32xbf16>
      %b = arith.extf %a : bf16 to f32
      %c = tensor.extract %y[%k, %j] : tensor<32x24xbf16>
      %d = arith.extf %c : bf16 to f32
      %e = arith.mulf %b, %d : f32
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (32)>} : () -> f32
    "bascule.yield"(%s) : (f32) -> ()
  }) {ranges = affine_map<() -> (8, 24)>} : () -> tensor<8x24xf32>
  return %z, %w : tensor<16x24xf32>, tensor<8x24xf32>
}

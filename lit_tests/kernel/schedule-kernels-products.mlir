// RUN: bascule-opt %s '--pass-pipeline=builtin.module(schedule-kernels{target=cuda})' | filecheck %s
// RUN: bascule-opt %s '--pass-pipeline=builtin.module(group-launches{target=cuda},schedule-kernels{target=cuda})' | filecheck %s --check-prefix=GROUP
// RUN: bascule-run %s --function=main --interpret-only --pipeline='builtin.module(group-launches{target=cuda},schedule-kernels{target=cuda})'

// One row times matrices: a program has a row, about 32 bytes of it a thread. Such products in one level are one launch, whatever their sizes.

#row = affine_map<() -> (2048)>
#tiles = affine_map<() -> (5632)>

// CHECK-LABEL: func.func private @query(
// CHECK: kind = "row"
// CHECK-SAME: step = 2048
// CHECK-SAME: tile = array<i64: 1>
// CHECK-SAME: warps = 4
// GROUP: func.func private @down(
// GROUP: func.func private @query_and_1(
// GROUP-COUNT-2: "bascule.foreach"
func.func private @query(%x: tensor<2048xbf16>, %w: tensor<2048x2048xbf16>) -> tensor<2048xbf16> {
  %out = bufferization.alloc_tensor() : tensor<2048xbf16>
  "bascule.kernel"() ({
  ^bb0(%n: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %a = tensor.extract %x[%k] : tensor<2048xbf16>
      %b = arith.extf %a : bf16 to f32
      %c = tensor.extract %w[%n, %k] : tensor<2048x2048xbf16>
      %d = arith.extf %c : bf16 to f32
      %e = arith.mulf %b, %d : f32
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = #row} : () -> f32
    %r = arith.truncf %sum : f32 to bf16
    "bascule.store"(%r, %out, %n) : (bf16, tensor<2048xbf16>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (2048)>} : () -> ()
  return %out : tensor<2048xbf16>
}

func.func private @key(%x: tensor<2048xbf16>, %w: tensor<512x2048xbf16>) -> tensor<512xbf16> {
  %out = bufferization.alloc_tensor() : tensor<512xbf16>
  "bascule.kernel"() ({
  ^bb0(%n: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %a = tensor.extract %x[%k] : tensor<2048xbf16>
      %b = arith.extf %a : bf16 to f32
      %c = tensor.extract %w[%n, %k] : tensor<512x2048xbf16>
      %d = arith.extf %c : bf16 to f32
      %e = arith.mulf %b, %d : f32
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = #row} : () -> f32
    %r = arith.truncf %sum : f32 to bf16
    "bascule.store"(%r, %out, %n) : (bf16, tensor<512xbf16>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (512)>} : () -> ()
  return %out : tensor<512xbf16>
}

// A row of 5632 elements is three tiles; a program has several rows where there are enough.
// CHECK-LABEL: func.func private @down(
// CHECK: held = true
// CHECK-SAME: step = 2048
// CHECK-SAME: tile = array<i64: 4>
// CHECK-SAME: warps = 8
func.func private @down(%x: tensor<5632xbf16>, %w: tensor<2048x5632xbf16>, %before: tensor<2048xf32>) -> tensor<2048xf32> {
  %out = bufferization.alloc_tensor() : tensor<2048xf32>
  "bascule.kernel"() ({
  ^bb0(%n: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %a = tensor.extract %x[%k] : tensor<5632xbf16>
      %b = arith.extf %a : bf16 to f32
      %c = tensor.extract %w[%n, %k] : tensor<2048x5632xbf16>
      %d = arith.extf %c : bf16 to f32
      %e = arith.mulf %b, %d : f32
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = #tiles} : () -> f32
    %f = tensor.extract %before[%n] : tensor<2048xf32>
    %r = arith.addf %sum, %f : f32
    "bascule.store"(%r, %out, %n) : (f32, tensor<2048xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (2048)>} : () -> ()
  return %out : tensor<2048xf32>
}

// Without a row that all points read it is no product: the schedule of rows.
// CHECK-LABEL: func.func private @total(
// CHECK: step = 2048
// CHECK-SAME: warps = 2
func.func private @total(%w: tensor<2048x2048xbf16>) -> tensor<2048xbf16> {
  %out = bufferization.alloc_tensor() : tensor<2048xbf16>
  "bascule.kernel"() ({
  ^bb0(%n: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %c = tensor.extract %w[%n, %k] : tensor<2048x2048xbf16>
      %d = arith.extf %c : bf16 to f32
      "bascule.yield"(%d) : (f32) -> ()
    }) {kind = "sum", ranges = #row} : () -> f32
    %r = arith.truncf %sum : f32 to bf16
    "bascule.store"(%r, %out, %n) : (bf16, tensor<2048xbf16>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (2048)>} : () -> ()
  return %out : tensor<2048xbf16>
}

func.func @main(%x: tensor<2048xbf16>, %q: tensor<2048x2048xbf16>, %k: tensor<512x2048xbf16>, %y: tensor<5632xbf16>, %d: tensor<2048x5632xbf16>, %b: tensor<2048xf32>) -> (tensor<2048xbf16>, tensor<512xbf16>, tensor<2048xf32>, tensor<2048xbf16>) attributes {bascule.graph} {
  %0 = call @query(%x, %q) : (tensor<2048xbf16>, tensor<2048x2048xbf16>) -> tensor<2048xbf16>
  %1 = call @key(%x, %k) : (tensor<2048xbf16>, tensor<512x2048xbf16>) -> tensor<512xbf16>
  %2 = call @down(%y, %d, %b) : (tensor<5632xbf16>, tensor<2048x5632xbf16>, tensor<2048xf32>) -> tensor<2048xf32>
  %3 = call @total(%q) : (tensor<2048x2048xbf16>) -> tensor<2048xbf16>
  return %0, %1, %2, %3 : tensor<2048xbf16>, tensor<512xbf16>, tensor<2048xf32>, tensor<2048xbf16>
}

// A sum over a batch of what is computed from a product is no window: `fuse-products` makes one kernel of both. And of a table's elements that
// an index in memory names, scores of a batch read the result, not the table again and again.
// RUN: bascule-opt %s '--pass-pipeline=builtin.module(inline-producers{target=cuda})' | filecheck %s
// RUN: bascule-opt %s '--pass-pipeline=builtin.module(inline-producers)' | filecheck %s --check-prefix=CPU
// RUN: bascule-run %s --function=batch --interpret-only --pipeline='inline-producers{target=cuda}'
// RUN: bascule-run %s --function=window --interpret-only --pipeline='inline-producers{target=cuda}'

// CHECK-LABEL: func.func @batch
// CHECK: %[[PRODUCT:.*]] = "bascule.compute"
// CHECK: %[[SUM:.*]] = "bascule.compute"
// CHECK: tensor.extract %[[PRODUCT]]
// CHECK: math.exp
// CHECK: "bascule.compute"
// CHECK: tensor.extract %[[SUM]]
// CHECK: math.tanh
// CPU-LABEL: func.func @batch
// CPU-COUNT-2: "bascule.compute"
// CPU-NOT: "bascule.compute"
// CPU: return
func.func @batch(%q: tensor<8x20x32xf16>, %k: tensor<8x24x32xf16>) -> tensor<24x20xf32> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%d: index):
      %x = tensor.extract %q[%b, %i, %d] : tensor<8x20x32xf16>
      %wx = arith.extf %x : f16 to f32
      %y = tensor.extract %k[%b, %n, %d] : tensor<8x24x32xf16>
      %wy = arith.extf %y : f16 to f32
      %xy = arith.mulf %wx, %wy : f32
      "bascule.yield"(%xy) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (32)>} : () -> f32
    "bascule.yield"(%sum) : (f32) -> ()
  }) {ranges = affine_map<() -> (8, 20, 24)>} : () -> tensor<8x20x24xf32>
  %1 = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %s = tensor.extract %0[%b, %i, %n] : tensor<8x20x24xf32>
    %e = math.exp %s : f32
    "bascule.yield"(%e) : (f32) -> ()
  }) {ranges = affine_map<() -> (8, 20, 24)>} : () -> tensor<8x20x24xf32>
  %2 = "bascule.compute"() ({
  ^bb0(%i: index, %n: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%b: index):
      %e = tensor.extract %1[%b, %i, %n] : tensor<8x20x24xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (8)>} : () -> f32
    "bascule.yield"(%sum) : (f32) -> ()
  }) {ranges = affine_map<() -> (20, 24)>} : () -> tensor<20x24xf32>
  %3 = "bascule.compute"() ({
  ^bb0(%n: index, %i: index):
    %s = tensor.extract %2[%i, %n] : tensor<20x24xf32>
    %t = math.tanh %s : f32
    "bascule.yield"(%t) : (f32) -> ()
  }) {ranges = affine_map<() -> (24, 20)>} : () -> tensor<24x20xf32>
  return %3 : tensor<24x20xf32>
}

// So it is where no product is near.
// CHECK-LABEL: func.func @window
// CHECK: "bascule.compute"
// CHECK-NOT: "bascule.compute"
// CHECK: return
func.func @window(%x: tensor<8x20x24xf32>) -> tensor<24x20xf32> attributes {bascule.graph} {
  %1 = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %s = tensor.extract %x[%b, %i, %n] : tensor<8x20x24xf32>
    %e = math.exp %s : f32
    "bascule.yield"(%e) : (f32) -> ()
  }) {ranges = affine_map<() -> (8, 20, 24)>} : () -> tensor<8x20x24xf32>
  %2 = "bascule.compute"() ({
  ^bb0(%i: index, %n: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%b: index):
      %e = tensor.extract %1[%b, %i, %n] : tensor<8x20x24xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (8)>} : () -> f32
    "bascule.yield"(%sum) : (f32) -> ()
  }) {ranges = affine_map<() -> (20, 24)>} : () -> tensor<20x24xf32>
  %3 = "bascule.compute"() ({
  ^bb0(%n: index, %i: index):
    %s = tensor.extract %2[%i, %n] : tensor<20x24xf32>
    %t = math.tanh %s : f32
    "bascule.yield"(%t) : (f32) -> ()
  }) {ranges = affine_map<() -> (24, 20)>} : () -> tensor<24x20xf32>
  return %3 : tensor<24x20xf32>
}

// CHECK-LABEL: func.func @biased
// CHECK: %[[BIAS:.*]] = "bascule.compute"
// CHECK: tensor.extract %{{.*}} : tensor<32xf16>
// CHECK-NOT: tensor<32xf16>
// CHECK: tensor.extract %[[BIAS]]
// CHECK: return
func.func @biased(%q: tensor<8x20x32xf16>, %k: tensor<8x24x32xf16>, %index: tensor<20x24xi64>, %table: tensor<32xf16>) -> (tensor<8x20x24xf32>, tensor<20x24xf16>) attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%d: index):
      %x = tensor.extract %q[%b, %i, %d] : tensor<8x20x32xf16>
      %wx = arith.extf %x : f16 to f32
      %y = tensor.extract %k[%b, %n, %d] : tensor<8x24x32xf16>
      %wy = arith.extf %y : f16 to f32
      %xy = arith.mulf %wx, %wy : f32
      "bascule.yield"(%xy) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (32)>} : () -> f32
    "bascule.yield"(%sum) : (f32) -> ()
  }) {ranges = affine_map<() -> (8, 20, 24)>} : () -> tensor<8x20x24xf32>
  %1 = "bascule.compute"() ({
  ^bb0(%i: index, %n: index):
    %which = tensor.extract %index[%i, %n] : tensor<20x24xi64>
    %at = arith.index_cast %which : i64 to index
    %e = tensor.extract %table[%at] : tensor<32xf16>
    "bascule.yield"(%e) : (f16) -> ()
  }) {ranges = affine_map<() -> (20, 24)>} : () -> tensor<20x24xf16>
  %2 = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %s = tensor.extract %0[%b, %i, %n] : tensor<8x20x24xf32>
    %h = tensor.extract %1[%i, %n] : tensor<20x24xf16>
    %w = arith.extf %h : f16 to f32
    %t = arith.addf %s, %w : f32
    "bascule.yield"(%t) : (f32) -> ()
  }) {ranges = affine_map<() -> (8, 20, 24)>} : () -> tensor<8x20x24xf32>
  return %2, %1 : tensor<8x20x24xf32>, tensor<20x24xf16>
}

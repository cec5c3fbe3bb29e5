// A sum over the batch of what is computed from a product: one compute, without that in memory. The dots of rows that it reads are no product: they
// stay in memory. So is a sum over rows, or over columns, whether what it adds stands in it or not: a program has a tile of the others, and walks.
// Not of heads of 640.
// RUN: bascule-opt %s --fuse-products=target=cuda | filecheck %s
// RUN: bascule-opt %s --pass-pipeline='builtin.module(fuse-products{target=cuda},form-kernels{target=cuda},schedule-kernels{target=cuda})' | filecheck %s --check-prefix=KERNEL
// RUN: bascule-run %s --function=batch --interpret-only --pipeline='fuse-products{target=cuda}'
// RUN: bascule-run %s --function=rows --interpret-only --pipeline='fuse-products{target=cuda}'
// RUN: bascule-run %s --function=columns --interpret-only --pipeline='fuse-products{target=cuda}'

// KERNEL: axes = array<i64: 1, 1>, {{.*}}kind = "summed_products"{{.*}}tile = array<i64: 64, 64>
// KERNEL: axes = array<i64: 1, 1>, {{.*}}kind = "summed_products"{{.*}}step = 32 : i64, walk = 0{{.*}}tile = array<i64: 1, 64>
// KERNEL: axes = array<i64: 1, 1>, {{.*}}kind = "summed_products"{{.*}}step = 64 : i64, walk = 0{{.*}}tile = array<i64: 1, 64>
// KERNEL-NOT: summed_products

// CHECK-LABEL: func.func @batch
// CHECK: %[[DOT:.*]] = "bascule.compute"
// CHECK: %[[OUT:.*]] = "bascule.compute"
// CHECK-NEXT: ^bb0(%[[I:.*]]: index, %[[N:.*]]: index)
// CHECK: "bascule.reduce"
// CHECK-NEXT: ^bb0(%[[B:.*]]: index)
// CHECK: "bascule.reduce"
// CHECK: tensor.extract %{{.*}}[%[[B]], %[[I]], %{{.*}}]
// CHECK: tensor.extract %{{.*}}[%[[B]], %[[N]], %{{.*}}]
// CHECK: kind = "sum"
// CHECK: math.exp
// CHECK: tensor.extract %[[DOT]]
// CHECK: kind = "sum"
// CHECK: bascule.remarks = [{{.*}}decision = "products fused", kind = "passed", {{.*}}reason = "what is between them is not in memory"}]
// CHECK-NEXT: return %[[OUT]]
func.func @batch(%q: tensor<6x40x32xf16>, %k: tensor<6x70x32xf16>, %g: tensor<6x40x32xf16>, %o: tensor<6x40x32xf16>) -> tensor<40x70xf16> attributes {bascule.graph} {
  %dot = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%d: index):
      %x = tensor.extract %g[%b, %i, %d] : tensor<6x40x32xf16>
      %wx = arith.extf %x : f16 to f32
      %y = tensor.extract %o[%b, %i, %d] : tensor<6x40x32xf16>
      %wy = arith.extf %y : f16 to f32
      %xy = arith.mulf %wx, %wy : f32
      "bascule.yield"(%xy) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (32)>} : () -> f32
    "bascule.yield"(%sum) : (f32) -> ()
  }) {ranges = affine_map<() -> (6, 40, 1)>} : () -> tensor<6x40x1xf32>
  %0 = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%d: index):
      %x = tensor.extract %q[%b, %i, %d] : tensor<6x40x32xf16>
      %wx = arith.extf %x : f16 to f32
      %y = tensor.extract %k[%b, %n, %d] : tensor<6x70x32xf16>
      %wy = arith.extf %y : f16 to f32
      %xy = arith.mulf %wx, %wy : f32
      "bascule.yield"(%xy) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (32)>} : () -> f32
    "bascule.yield"(%sum) : (f32) -> ()
  }) {ranges = affine_map<() -> (6, 40, 70)>} : () -> tensor<6x40x70xf32>
  %1 = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %zero = arith.constant 0 : index
    %s = tensor.extract %0[%b, %i, %n] : tensor<6x40x70xf32>
    %p = math.exp %s : f32
    %m = tensor.extract %dot[%b, %i, %zero] : tensor<6x40x1xf32>
    %e = arith.mulf %p, %m : f32
    "bascule.yield"(%e) : (f32) -> ()
  }) {ranges = affine_map<() -> (6, 40, 70)>} : () -> tensor<6x40x70xf32>
  %2 = "bascule.compute"() ({
  ^bb0(%i: index, %n: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%b: index):
      %s = tensor.extract %1[%b, %i, %n] : tensor<6x40x70xf32>
      "bascule.yield"(%s) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (6)>} : () -> f32
    %h = arith.truncf %sum : f32 to f16
    "bascule.yield"(%h) : (f16) -> ()
  }) {ranges = affine_map<() -> (40, 70)>} : () -> tensor<40x70xf16>
  return %2 : tensor<40x70xf16>
}

// CHECK-LABEL: func.func @rows
// CHECK-COUNT-2: "bascule.compute"
// CHECK: bascule.remarks = [{{.*}}decision = "products fused", kind = "passed", {{.*}}reason = "what is between them is not in memory"}]
func.func @rows(%q: tensor<6x40x32xf16>, %k: tensor<6x70x32xf16>, %g: tensor<6x40x32xf16>, %o: tensor<6x40x32xf16>) -> tensor<6x70xf16> attributes {bascule.graph} {
  %dot = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%d: index):
      %x = tensor.extract %g[%b, %i, %d] : tensor<6x40x32xf16>
      %wx = arith.extf %x : f16 to f32
      %y = tensor.extract %o[%b, %i, %d] : tensor<6x40x32xf16>
      %wy = arith.extf %y : f16 to f32
      %xy = arith.mulf %wx, %wy : f32
      "bascule.yield"(%xy) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (32)>} : () -> f32
    "bascule.yield"(%sum) : (f32) -> ()
  }) {ranges = affine_map<() -> (6, 40, 1)>} : () -> tensor<6x40x1xf32>
  %0 = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%d: index):
      %x = tensor.extract %q[%b, %i, %d] : tensor<6x40x32xf16>
      %wx = arith.extf %x : f16 to f32
      %y = tensor.extract %k[%b, %n, %d] : tensor<6x70x32xf16>
      %wy = arith.extf %y : f16 to f32
      %xy = arith.mulf %wx, %wy : f32
      "bascule.yield"(%xy) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (32)>} : () -> f32
    "bascule.yield"(%sum) : (f32) -> ()
  }) {ranges = affine_map<() -> (6, 40, 70)>} : () -> tensor<6x40x70xf32>
  %1 = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %zero = arith.constant 0 : index
    %s = tensor.extract %0[%b, %i, %n] : tensor<6x40x70xf32>
    %p = math.exp %s : f32
    %m = tensor.extract %dot[%b, %i, %zero] : tensor<6x40x1xf32>
    %e = arith.mulf %p, %m : f32
    "bascule.yield"(%e) : (f32) -> ()
  }) {ranges = affine_map<() -> (6, 40, 70)>} : () -> tensor<6x40x70xf32>
  %2 = "bascule.compute"() ({
  ^bb0(%b: index, %n: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%i: index):
      %s = tensor.extract %1[%b, %i, %n] : tensor<6x40x70xf32>
      "bascule.yield"(%s) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (40)>} : () -> f32
    %h = arith.truncf %sum : f32 to f16
    "bascule.yield"(%h) : (f16) -> ()
  }) {ranges = affine_map<() -> (6, 70)>} : () -> tensor<6x70xf16>
  return %2 : tensor<6x70xf16>
}

// CHECK-LABEL: func.func @columns
// CHECK-COUNT-1: "bascule.compute"
// CHECK-NOT: "bascule.compute"()
// CHECK: bascule.remarks = [{{.*}}decision = "products fused", kind = "passed", {{.*}}reason = "what is between them is not in memory"}]
func.func @columns(%q: tensor<6x40x32xf32>, %k: tensor<6x140x32xf32>) -> tensor<6x40xf32> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%d: index):
      %x = tensor.extract %q[%b, %i, %d] : tensor<6x40x32xf32>
      %y = tensor.extract %k[%b, %n, %d] : tensor<6x140x32xf32>
      %xy = arith.mulf %x, %y : f32
      "bascule.yield"(%xy) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (32)>} : () -> f32
    "bascule.yield"(%sum) : (f32) -> ()
  }) {ranges = affine_map<() -> (6, 40, 140)>} : () -> tensor<6x40x140xf32>
  %1 = "bascule.compute"() ({
  ^bb0(%b: index, %i: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%n: index):
      %s = tensor.extract %0[%b, %i, %n] : tensor<6x40x140xf32>
      %p = math.tanh %s : f32
      "bascule.yield"(%p) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (140)>} : () -> f32
    "bascule.yield"(%sum) : (f32) -> ()
  }) {ranges = affine_map<() -> (6, 40)>} : () -> tensor<6x40xf32>
  return %1 : tensor<6x40xf32>
}

// CHECK-LABEL: func.func @deep
// CHECK: bascule.remarks = [{{.*}}decision = "products not fused", kind = "missed", {{.*}}reason = "no schedule for the sizes or types of what is summed"}]
func.func @deep(%q: tensor<6x40x640xf32>, %k: tensor<6x140x640xf32>) -> tensor<6x40xf32> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%d: index):
      %x = tensor.extract %q[%b, %i, %d] : tensor<6x40x640xf32>
      %y = tensor.extract %k[%b, %n, %d] : tensor<6x140x640xf32>
      %xy = arith.mulf %x, %y : f32
      "bascule.yield"(%xy) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (640)>} : () -> f32
    "bascule.yield"(%sum) : (f32) -> ()
  }) {ranges = affine_map<() -> (6, 40, 140)>} : () -> tensor<6x40x140xf32>
  %1 = "bascule.compute"() ({
  ^bb0(%b: index, %i: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%n: index):
      %s = tensor.extract %0[%b, %i, %n] : tensor<6x40x140xf32>
      %p = math.tanh %s : f32
      "bascule.yield"(%p) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (140)>} : () -> f32
    "bascule.yield"(%sum) : (f32) -> ()
  }) {ranges = affine_map<() -> (6, 40)>} : () -> tensor<6x40xf32>
  return %1 : tensor<6x40xf32>
}

// A product by a matrix that is computed from another product: one compute, with a row of that matrix. Not where the matrix is a result, too, nor where
// there is no schedule (640 elements summed).
// RUN: bascule-opt %s --fuse-products=target=cuda | filecheck %s
// RUN: bascule-opt %s --fuse-products | filecheck %s --check-prefix=CPU
// RUN: bascule-run %s --function=values --interpret-only --pipeline='fuse-products{target=cuda}'
// RUN: bascule-run %s --function=computed --interpret-only --pipeline='fuse-products{target=cuda}'

// CPU-NOT: products fused

// CHECK-LABEL: func.func @values
// CHECK: %[[OUT:.*]] = "bascule.compute"
// CHECK-NEXT: ^bb0(%[[B:.*]]: index, %[[N:.*]]: index, %[[C:.*]]: index)
// CHECK: %[[W:.*]] = "bascule.compute"
// CHECK-NEXT: ^bb0(%[[I:.*]]: index)
// CHECK: tensor.extract %{{.*}}[%[[B]], %[[I]], %{{.*}}]
// CHECK: tensor.extract %{{.*}}[%[[B]], %[[N]], %{{.*}}]
// CHECK: kind = "sum"
// CHECK: math.exp
// CHECK: ranges = #{{.*}}} : () -> tensor<40xf32>
// CHECK: tensor.extract %[[W]][
// CHECK: arith.truncf
// CHECK: kind = "sum"
// CHECK: bascule.remarks = [{{.*}}decision = "products fused", kind = "passed", {{.*}}reason = "what is between them is not in memory"}]
// CHECK-NEXT: return %[[OUT]]
func.func @values(%q: tensor<6x40x32xf16>, %k: tensor<6x70x32xf16>, %g: tensor<6x40x48xf16>, %most: tensor<6x40xf32>) -> tensor<6x70x48xf16> attributes {bascule.graph} {
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
    %s = tensor.extract %0[%b, %i, %n] : tensor<6x40x70xf32>
    %m = tensor.extract %most[%b, %i] : tensor<6x40xf32>
    %e = arith.subf %s, %m : f32
    %p = math.exp %e : f32
    %h = arith.truncf %p : f32 to f16
    "bascule.yield"(%h) : (f16) -> ()
  }) {ranges = affine_map<() -> (6, 40, 70)>} : () -> tensor<6x40x70xf16>
  %2 = "bascule.compute"() ({
  ^bb0(%b: index, %n: index, %c: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%i: index):
      %p = tensor.extract %1[%b, %i, %n] : tensor<6x40x70xf16>
      %wp = arith.extf %p : f16 to f32
      %y = tensor.extract %g[%b, %i, %c] : tensor<6x40x48xf16>
      %wy = arith.extf %y : f16 to f32
      %py = arith.mulf %wp, %wy : f32
      "bascule.yield"(%py) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (40)>} : () -> f32
    %h = arith.truncf %sum : f32 to f16
    "bascule.yield"(%h) : (f16) -> ()
  }) {ranges = affine_map<() -> (6, 70, 48)>} : () -> tensor<6x70x48xf16>
  return %2 : tensor<6x70x48xf16>
}

// CHECK-LABEL: func.func @weights_leave
// CHECK-COUNT-3: "bascule.compute"
// CHECK: bascule.remarks = [{{.*}}decision = "products not fused", kind = "missed", {{.*}}reason = "what is between them is needed in memory"}]
func.func @weights_leave(%q: tensor<6x40x32xf16>, %k: tensor<6x70x32xf16>, %g: tensor<6x40x48xf16>, %most: tensor<6x40xf32>) -> (tensor<6x70x48xf16>, tensor<6x40x70xf16>) attributes {bascule.graph} {
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
    %s = tensor.extract %0[%b, %i, %n] : tensor<6x40x70xf32>
    %m = tensor.extract %most[%b, %i] : tensor<6x40xf32>
    %e = arith.subf %s, %m : f32
    %p = math.exp %e : f32
    %h = arith.truncf %p : f32 to f16
    "bascule.yield"(%h) : (f16) -> ()
  }) {ranges = affine_map<() -> (6, 40, 70)>} : () -> tensor<6x40x70xf16>
  %2 = "bascule.compute"() ({
  ^bb0(%b: index, %n: index, %c: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%i: index):
      %p = tensor.extract %1[%b, %i, %n] : tensor<6x40x70xf16>
      %wp = arith.extf %p : f16 to f32
      %y = tensor.extract %g[%b, %i, %c] : tensor<6x40x48xf16>
      %wy = arith.extf %y : f16 to f32
      %py = arith.mulf %wp, %wy : f32
      "bascule.yield"(%py) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (40)>} : () -> f32
    %h = arith.truncf %sum : f32 to f16
    "bascule.yield"(%h) : (f16) -> ()
  }) {ranges = affine_map<() -> (6, 70, 48)>} : () -> tensor<6x70x48xf16>
  return %2, %1 : tensor<6x70x48xf16>, tensor<6x40x70xf16>
}

// CHECK-LABEL: func.func @deep
// CHECK-COUNT-3: "bascule.compute"
// CHECK: bascule.remarks = [{{.*}}decision = "products not fused", kind = "missed", {{.*}}reason = "no schedule for their sizes or types"}]
func.func @deep(%q: tensor<6x40x640xf16>, %k: tensor<6x70x640xf16>, %g: tensor<6x40x48xf16>, %most: tensor<6x40xf32>) -> tensor<6x70x48xf16> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%d: index):
      %x = tensor.extract %q[%b, %i, %d] : tensor<6x40x640xf16>
      %wx = arith.extf %x : f16 to f32
      %y = tensor.extract %k[%b, %n, %d] : tensor<6x70x640xf16>
      %wy = arith.extf %y : f16 to f32
      %xy = arith.mulf %wx, %wy : f32
      "bascule.yield"(%xy) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (640)>} : () -> f32
    "bascule.yield"(%sum) : (f32) -> ()
  }) {ranges = affine_map<() -> (6, 40, 70)>} : () -> tensor<6x40x70xf32>
  %1 = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %s = tensor.extract %0[%b, %i, %n] : tensor<6x40x70xf32>
    %m = tensor.extract %most[%b, %i] : tensor<6x40xf32>
    %e = arith.subf %s, %m : f32
    %p = math.exp %e : f32
    %h = arith.truncf %p : f32 to f16
    "bascule.yield"(%h) : (f16) -> ()
  }) {ranges = affine_map<() -> (6, 40, 70)>} : () -> tensor<6x40x70xf16>
  %2 = "bascule.compute"() ({
  ^bb0(%b: index, %n: index, %c: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%i: index):
      %p = tensor.extract %1[%b, %i, %n] : tensor<6x40x70xf16>
      %wp = arith.extf %p : f16 to f32
      %y = tensor.extract %g[%b, %i, %c] : tensor<6x40x48xf16>
      %wy = arith.extf %y : f16 to f32
      %py = arith.mulf %wp, %wy : f32
      "bascule.yield"(%py) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (40)>} : () -> f32
    %h = arith.truncf %sum : f32 to f16
    "bascule.yield"(%h) : (f16) -> ()
  }) {ranges = affine_map<() -> (6, 70, 48)>} : () -> tensor<6x70x48xf16>
  return %2 : tensor<6x70x48xf16>
}

// The values are computed before, into memory: another compute's result is no row near the processor.
// CHECK-LABEL: func.func @computed
// CHECK: %[[G:.*]] = "bascule.compute"
// CHECK: arith.negf
// CHECK: "bascule.compute"
// CHECK: tensor.extract %[[G]]
// CHECK: decision = "products fused", kind = "passed"
func.func @computed(%q: tensor<6x40x32xf16>, %k: tensor<6x70x32xf16>, %g: tensor<6x40x48xf16>) -> tensor<6x70x48xf16> attributes {bascule.graph} {
  %negated = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %c: index):
    %x = tensor.extract %g[%b, %i, %c] : tensor<6x40x48xf16>
    %m = arith.negf %x : f16
    "bascule.yield"(%m) : (f16) -> ()
  }) {ranges = affine_map<() -> (6, 40, 48)>} : () -> tensor<6x40x48xf16>
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
    %s = tensor.extract %0[%b, %i, %n] : tensor<6x40x70xf32>
    %p = math.tanh %s : f32
    %h = arith.truncf %p : f32 to f16
    "bascule.yield"(%h) : (f16) -> ()
  }) {ranges = affine_map<() -> (6, 40, 70)>} : () -> tensor<6x40x70xf16>
  %2 = "bascule.compute"() ({
  ^bb0(%b: index, %n: index, %c: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%i: index):
      %p = tensor.extract %1[%b, %i, %n] : tensor<6x40x70xf16>
      %wp = arith.extf %p : f16 to f32
      %y = tensor.extract %negated[%b, %i, %c] : tensor<6x40x48xf16>
      %wy = arith.extf %y : f16 to f32
      %py = arith.mulf %wp, %wy : f32
      "bascule.yield"(%py) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (40)>} : () -> f32
    %h = arith.truncf %sum : f32 to f16
    "bascule.yield"(%h) : (f16) -> ()
  }) {ranges = affine_map<() -> (6, 70, 48)>} : () -> tensor<6x70x48xf16>
  return %2 : tensor<6x70x48xf16>
}

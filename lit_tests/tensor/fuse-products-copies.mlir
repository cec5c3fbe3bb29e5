// A product by a matrix that is computed from another product, and a copy of it with heads beside each other, which alone reads it: one compute, of the
// copy's sizes. Not where more is computed, nor where something else reads the product, too.
// RUN: bascule-opt %s --fuse-products=target=cuda | filecheck %s
// RUN: bascule-run %s --function=laid_out --interpret-only --pipeline='fuse-products{target=cuda}'
// RUN: bascule-run %s --function=halved --interpret-only --pipeline='fuse-products{target=cuda}'

// CHECK-LABEL: func.func @laid_out
// CHECK: %[[OUT:.*]] = "bascule.compute"
// CHECK-NEXT: ^bb0(%[[B:.*]]: index, %[[N:.*]]: index, %[[H:.*]]: index, %[[C:.*]]: index)
// CHECK: ranges = #{{.*}}} : () -> tensor<40xf32>
// CHECK: decision = "products fused", kind = "passed"
// CHECK-NOT: "bascule.compute"()
// CHECK: return %[[OUT]] : tensor<3x70x2x48xf16>
func.func @laid_out(%q: tensor<6x40x32xf16>, %k: tensor<6x70x32xf16>, %g: tensor<6x40x48xf16>) -> tensor<3x70x2x48xf16> attributes {bascule.graph} {
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
      %y = tensor.extract %g[%b, %i, %c] : tensor<6x40x48xf16>
      %wy = arith.extf %y : f16 to f32
      %py = arith.mulf %wp, %wy : f32
      "bascule.yield"(%py) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (40)>} : () -> f32
    %h = arith.truncf %sum : f32 to f16
    "bascule.yield"(%h) : (f16) -> ()
  }) {ranges = affine_map<() -> (6, 70, 48)>} : () -> tensor<6x70x48xf16>
  %3 = "bascule.compute"() ({
  ^bb0(%b: index, %n: index, %h: index, %c: index):
    %at = affine.apply affine_map<(d0, d1) -> (d0 * 2 + d1)>(%b, %h)
    %e = tensor.extract %2[%at, %n, %c] : tensor<6x70x48xf16>
    "bascule.yield"(%e) : (f16) -> ()
  }) {ranges = affine_map<() -> (3, 70, 2, 48)>} : () -> tensor<3x70x2x48xf16>
  return %3 : tensor<3x70x2x48xf16>
}

// What reads the product computes from it.
// CHECK-LABEL: func.func @halved
// CHECK: tensor<6x70x48xf16>
// CHECK: arith.negf
// CHECK: return
func.func @halved(%q: tensor<6x40x32xf16>, %k: tensor<6x70x32xf16>, %g: tensor<6x40x48xf16>) -> tensor<3x70x2x48xf16> attributes {bascule.graph} {
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
      %y = tensor.extract %g[%b, %i, %c] : tensor<6x40x48xf16>
      %wy = arith.extf %y : f16 to f32
      %py = arith.mulf %wp, %wy : f32
      "bascule.yield"(%py) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (40)>} : () -> f32
    %h = arith.truncf %sum : f32 to f16
    "bascule.yield"(%h) : (f16) -> ()
  }) {ranges = affine_map<() -> (6, 70, 48)>} : () -> tensor<6x70x48xf16>
  %3 = "bascule.compute"() ({
  ^bb0(%b: index, %n: index, %h: index, %c: index):
    %at = affine.apply affine_map<(d0, d1) -> (d0 * 2 + d1)>(%b, %h)
    %e = tensor.extract %2[%at, %n, %c] : tensor<6x70x48xf16>
    %m = arith.negf %e : f16
    "bascule.yield"(%m) : (f16) -> ()
  }) {ranges = affine_map<() -> (3, 70, 2, 48)>} : () -> tensor<3x70x2x48xf16>
  return %3 : tensor<3x70x2x48xf16>
}

// The product is a result, too.
// CHECK-LABEL: func.func @returned
// CHECK: %[[P:.*]] = "bascule.compute"
// CHECK: decision = "products fused", kind = "passed"
// CHECK: "bascule.compute"
// CHECK: tensor.extract %[[P]]
// CHECK: return
func.func @returned(%q: tensor<6x40x32xf16>, %k: tensor<6x70x32xf16>, %g: tensor<6x40x48xf16>) -> (tensor<3x70x2x48xf16>, tensor<6x70x48xf16>) attributes {bascule.graph} {
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
      %y = tensor.extract %g[%b, %i, %c] : tensor<6x40x48xf16>
      %wy = arith.extf %y : f16 to f32
      %py = arith.mulf %wp, %wy : f32
      "bascule.yield"(%py) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (40)>} : () -> f32
    %h = arith.truncf %sum : f32 to f16
    "bascule.yield"(%h) : (f16) -> ()
  }) {ranges = affine_map<() -> (6, 70, 48)>} : () -> tensor<6x70x48xf16>
  %3 = "bascule.compute"() ({
  ^bb0(%b: index, %n: index, %h: index, %c: index):
    %at = affine.apply affine_map<(d0, d1) -> (d0 * 2 + d1)>(%b, %h)
    %e = tensor.extract %2[%at, %n, %c] : tensor<6x70x48xf16>
    "bascule.yield"(%e) : (f16) -> ()
  }) {ranges = affine_map<() -> (3, 70, 2, 48)>} : () -> tensor<3x70x2x48xf16>
  return %3, %2 : tensor<3x70x2x48xf16>, tensor<6x70x48xf16>
}

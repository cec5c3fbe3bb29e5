// Two products with a softmax between them, of heads that are views, and a mask: one compute. Not where the weights leave the graph, too, nor where
// there is no schedule (heads of 640).
// RUN: bascule-opt %s --fuse-attention=target=cuda | filecheck %s
// RUN: bascule-opt %s --fuse-attention | filecheck %s --check-prefix=CPU
// RUN: bascule-run %s --function=empty_rows --interpret-only --pipeline='fuse-attention{target=cuda}'
// RUN: bascule-run %s --function=heads --interpret-only --pipeline='fuse-attention{target=cuda}'

// CPU-NOT: no score is in memory

// CHECK-LABEL: func.func @heads
// CHECK: %[[OUT:.*]] = "bascule.compute"
// CHECK: %[[S:.*]] = "bascule.compute"
// CHECK: kind = "sum", ranges = #{{.*}}}
// CHECK: arith.select
// CHECK: }) {ranges = #{{.*}}} : () -> tensor<70xf32>
// CHECK: %[[M:.*]] = "bascule.reduce"
// CHECK: tensor.extract %[[S]]
// CHECK: kind = "max"
// CHECK: %[[L:.*]] = "bascule.reduce"
// CHECK: arith.subf %{{.*}}, %[[M]]
// CHECK: kind = "sum"
// CHECK: %[[O:.*]] = "bascule.reduce"
// CHECK: arith.subf %{{.*}}, %[[M]]
// CHECK: arith.truncf
// CHECK: tensor.extract %{{.*}} : tensor<2x3x70x48xf16>
// CHECK: kind = "sum"
// CHECK: arith.divf %[[O]], %[[L]]
// CHECK: bascule.remarks = [{{.*}}decision = "attention", kind = "passed", {{.*}}pass = "fuse-attention", reason = "no score is in memory"}]
// CHECK-NEXT: return %[[OUT]]
func.func @heads(%q: tensor<2x3x40x32xf16>, %k: tensor<2x3x70x32xf16>, %v: tensor<2x3x70x48xf16>, %mask: tensor<40x70xi1>) -> tensor<6x40x48xf16> attributes {bascule.graph} {
  %zero = arith.constant 0 : index
  %scale = arith.constant 1.250000e-01 : f32
  %never = arith.constant 0xFF800000 : f32
  %0 = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%d: index):
      %outer = affine.apply affine_map<(d0) -> (d0 floordiv 3)>(%b)
      %inner = affine.apply affine_map<(d0) -> (d0 mod 3)>(%b)
      %x = tensor.extract %q[%outer, %inner, %i, %d] : tensor<2x3x40x32xf16>
      %wx = arith.extf %x : f16 to f32
      %y = tensor.extract %k[%outer, %inner, %n, %d] : tensor<2x3x70x32xf16>
      %wy = arith.extf %y : f16 to f32
      %xy = arith.mulf %wx, %wy : f32
      "bascule.yield"(%xy) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (32)>} : () -> f32
    "bascule.yield"(%sum) : (f32) -> ()
  }) {ranges = affine_map<() -> (6, 40, 70)>} : () -> tensor<6x40x70xf32>
  %1 = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %s = tensor.extract %0[%b, %i, %n] : tensor<6x40x70xf32>
    %scaled = arith.mulf %s, %scale : f32
    %seen = tensor.extract %mask[%i, %n] : tensor<40x70xi1>
    %score = arith.select %seen, %scaled, %never : f32
    "bascule.yield"(%score) : (f32) -> ()
  }) {ranges = affine_map<() -> (6, 40, 70)>} : () -> tensor<6x40x70xf32>
  %2 = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %most = "bascule.reduce"() ({
    ^bb0(%j: index):
      %s = tensor.extract %1[%b, %i, %j] : tensor<6x40x70xf32>
      "bascule.yield"(%s) : (f32) -> ()
    }) {kind = "max", ranges = affine_map<() -> (70)>} : () -> f32
    "bascule.yield"(%most) : (f32) -> ()
  }) {ranges = affine_map<() -> (6, 40, 1)>} : () -> tensor<6x40x1xf32>
  %3 = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %total = "bascule.reduce"() ({
    ^bb0(%j: index):
      %s = tensor.extract %1[%b, %i, %j] : tensor<6x40x70xf32>
      %m = tensor.extract %2[%b, %i, %zero] : tensor<6x40x1xf32>
      %e = arith.subf %s, %m : f32
      %p = math.exp %e : f32
      "bascule.yield"(%p) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (70)>} : () -> f32
    "bascule.yield"(%total) : (f32) -> ()
  }) {ranges = affine_map<() -> (6, 40, 1)>} : () -> tensor<6x40x1xf32>
  %4 = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %s = tensor.extract %1[%b, %i, %n] : tensor<6x40x70xf32>
    %m = tensor.extract %2[%b, %i, %zero] : tensor<6x40x1xf32>
    %e = arith.subf %s, %m : f32
    %p = math.exp %e : f32
    %l = tensor.extract %3[%b, %i, %zero] : tensor<6x40x1xf32>
    %r = arith.divf %p, %l : f32
    %h = arith.truncf %r : f32 to f16
    "bascule.yield"(%h) : (f16) -> ()
  }) {ranges = affine_map<() -> (6, 40, 70)>} : () -> tensor<6x40x70xf16>
  %5 = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %c: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%n: index):
      %outer = affine.apply affine_map<(d0) -> (d0 floordiv 3)>(%b)
      %inner = affine.apply affine_map<(d0) -> (d0 mod 3)>(%b)
      %p = tensor.extract %4[%b, %i, %n] : tensor<6x40x70xf16>
      %wp = arith.extf %p : f16 to f32
      %y = tensor.extract %v[%outer, %inner, %n, %c] : tensor<2x3x70x48xf16>
      %wy = arith.extf %y : f16 to f32
      %py = arith.mulf %wp, %wy : f32
      "bascule.yield"(%py) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (70)>} : () -> f32
    %h = arith.truncf %sum : f32 to f16
    "bascule.yield"(%h) : (f16) -> ()
  }) {ranges = affine_map<() -> (6, 40, 48)>} : () -> tensor<6x40x48xf16>
  return %5 : tensor<6x40x48xf16>
}

// CHECK-LABEL: func.func @weights_leave
// CHECK-NOT: no score is in memory
// CHECK: bascule.remarks = [{{.*}}decision = "no attention", kind = "missed", {{.*}}reason = "its scores or weights are needed in memory"}]
func.func @weights_leave(%q: tensor<2x3x40x32xf16>, %k: tensor<2x3x70x32xf16>, %v: tensor<2x3x70x48xf16>, %mask: tensor<40x70xi1>) -> (tensor<6x40x48xf16>, tensor<6x40x70xf16>) attributes {bascule.graph} {
  %zero = arith.constant 0 : index
  %scale = arith.constant 1.250000e-01 : f32
  %never = arith.constant 0xFF800000 : f32
  %0 = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%d: index):
      %outer = affine.apply affine_map<(d0) -> (d0 floordiv 3)>(%b)
      %inner = affine.apply affine_map<(d0) -> (d0 mod 3)>(%b)
      %x = tensor.extract %q[%outer, %inner, %i, %d] : tensor<2x3x40x32xf16>
      %wx = arith.extf %x : f16 to f32
      %y = tensor.extract %k[%outer, %inner, %n, %d] : tensor<2x3x70x32xf16>
      %wy = arith.extf %y : f16 to f32
      %xy = arith.mulf %wx, %wy : f32
      "bascule.yield"(%xy) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (32)>} : () -> f32
    "bascule.yield"(%sum) : (f32) -> ()
  }) {ranges = affine_map<() -> (6, 40, 70)>} : () -> tensor<6x40x70xf32>
  %1 = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %s = tensor.extract %0[%b, %i, %n] : tensor<6x40x70xf32>
    %scaled = arith.mulf %s, %scale : f32
    %seen = tensor.extract %mask[%i, %n] : tensor<40x70xi1>
    %score = arith.select %seen, %scaled, %never : f32
    "bascule.yield"(%score) : (f32) -> ()
  }) {ranges = affine_map<() -> (6, 40, 70)>} : () -> tensor<6x40x70xf32>
  %2 = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %most = "bascule.reduce"() ({
    ^bb0(%j: index):
      %s = tensor.extract %1[%b, %i, %j] : tensor<6x40x70xf32>
      "bascule.yield"(%s) : (f32) -> ()
    }) {kind = "max", ranges = affine_map<() -> (70)>} : () -> f32
    "bascule.yield"(%most) : (f32) -> ()
  }) {ranges = affine_map<() -> (6, 40, 1)>} : () -> tensor<6x40x1xf32>
  %3 = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %total = "bascule.reduce"() ({
    ^bb0(%j: index):
      %s = tensor.extract %1[%b, %i, %j] : tensor<6x40x70xf32>
      %m = tensor.extract %2[%b, %i, %zero] : tensor<6x40x1xf32>
      %e = arith.subf %s, %m : f32
      %p = math.exp %e : f32
      "bascule.yield"(%p) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (70)>} : () -> f32
    "bascule.yield"(%total) : (f32) -> ()
  }) {ranges = affine_map<() -> (6, 40, 1)>} : () -> tensor<6x40x1xf32>
  %4 = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %s = tensor.extract %1[%b, %i, %n] : tensor<6x40x70xf32>
    %m = tensor.extract %2[%b, %i, %zero] : tensor<6x40x1xf32>
    %e = arith.subf %s, %m : f32
    %p = math.exp %e : f32
    %l = tensor.extract %3[%b, %i, %zero] : tensor<6x40x1xf32>
    %r = arith.divf %p, %l : f32
    %h = arith.truncf %r : f32 to f16
    "bascule.yield"(%h) : (f16) -> ()
  }) {ranges = affine_map<() -> (6, 40, 70)>} : () -> tensor<6x40x70xf16>
  %5 = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %c: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%n: index):
      %outer = affine.apply affine_map<(d0) -> (d0 floordiv 3)>(%b)
      %inner = affine.apply affine_map<(d0) -> (d0 mod 3)>(%b)
      %p = tensor.extract %4[%b, %i, %n] : tensor<6x40x70xf16>
      %wp = arith.extf %p : f16 to f32
      %y = tensor.extract %v[%outer, %inner, %n, %c] : tensor<2x3x70x48xf16>
      %wy = arith.extf %y : f16 to f32
      %py = arith.mulf %wp, %wy : f32
      "bascule.yield"(%py) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (70)>} : () -> f32
    %h = arith.truncf %sum : f32 to f16
    "bascule.yield"(%h) : (f16) -> ()
  }) {ranges = affine_map<() -> (6, 40, 48)>} : () -> tensor<6x40x48xf16>
  return %5, %4 : tensor<6x40x48xf16>, tensor<6x40x70xf16>
}

// CHECK-LABEL: func.func @deep
// CHECK-NOT: no score is in memory
// CHECK: bascule.remarks = [{{.*}}decision = "no attention", kind = "missed", {{.*}}reason = "no schedule for its sizes or types"}]
func.func @deep(%q: tensor<2x3x40x640xf16>, %k: tensor<2x3x70x640xf16>, %v: tensor<2x3x70x48xf16>, %mask: tensor<40x70xi1>) -> tensor<6x40x48xf16> attributes {bascule.graph} {
  %zero = arith.constant 0 : index
  %scale = arith.constant 1.250000e-01 : f32
  %never = arith.constant 0xFF800000 : f32
  %0 = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%d: index):
      %outer = affine.apply affine_map<(d0) -> (d0 floordiv 3)>(%b)
      %inner = affine.apply affine_map<(d0) -> (d0 mod 3)>(%b)
      %x = tensor.extract %q[%outer, %inner, %i, %d] : tensor<2x3x40x640xf16>
      %wx = arith.extf %x : f16 to f32
      %y = tensor.extract %k[%outer, %inner, %n, %d] : tensor<2x3x70x640xf16>
      %wy = arith.extf %y : f16 to f32
      %xy = arith.mulf %wx, %wy : f32
      "bascule.yield"(%xy) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (640)>} : () -> f32
    "bascule.yield"(%sum) : (f32) -> ()
  }) {ranges = affine_map<() -> (6, 40, 70)>} : () -> tensor<6x40x70xf32>
  %1 = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %s = tensor.extract %0[%b, %i, %n] : tensor<6x40x70xf32>
    %scaled = arith.mulf %s, %scale : f32
    %seen = tensor.extract %mask[%i, %n] : tensor<40x70xi1>
    %score = arith.select %seen, %scaled, %never : f32
    "bascule.yield"(%score) : (f32) -> ()
  }) {ranges = affine_map<() -> (6, 40, 70)>} : () -> tensor<6x40x70xf32>
  %2 = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %most = "bascule.reduce"() ({
    ^bb0(%j: index):
      %s = tensor.extract %1[%b, %i, %j] : tensor<6x40x70xf32>
      "bascule.yield"(%s) : (f32) -> ()
    }) {kind = "max", ranges = affine_map<() -> (70)>} : () -> f32
    "bascule.yield"(%most) : (f32) -> ()
  }) {ranges = affine_map<() -> (6, 40, 1)>} : () -> tensor<6x40x1xf32>
  %3 = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %total = "bascule.reduce"() ({
    ^bb0(%j: index):
      %s = tensor.extract %1[%b, %i, %j] : tensor<6x40x70xf32>
      %m = tensor.extract %2[%b, %i, %zero] : tensor<6x40x1xf32>
      %e = arith.subf %s, %m : f32
      %p = math.exp %e : f32
      "bascule.yield"(%p) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (70)>} : () -> f32
    "bascule.yield"(%total) : (f32) -> ()
  }) {ranges = affine_map<() -> (6, 40, 1)>} : () -> tensor<6x40x1xf32>
  %4 = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %s = tensor.extract %1[%b, %i, %n] : tensor<6x40x70xf32>
    %m = tensor.extract %2[%b, %i, %zero] : tensor<6x40x1xf32>
    %e = arith.subf %s, %m : f32
    %p = math.exp %e : f32
    %l = tensor.extract %3[%b, %i, %zero] : tensor<6x40x1xf32>
    %r = arith.divf %p, %l : f32
    %h = arith.truncf %r : f32 to f16
    "bascule.yield"(%h) : (f16) -> ()
  }) {ranges = affine_map<() -> (6, 40, 70)>} : () -> tensor<6x40x70xf16>
  %5 = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %c: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%n: index):
      %outer = affine.apply affine_map<(d0) -> (d0 floordiv 3)>(%b)
      %inner = affine.apply affine_map<(d0) -> (d0 mod 3)>(%b)
      %p = tensor.extract %4[%b, %i, %n] : tensor<6x40x70xf16>
      %wp = arith.extf %p : f16 to f32
      %y = tensor.extract %v[%outer, %inner, %n, %c] : tensor<2x3x70x48xf16>
      %wy = arith.extf %y : f16 to f32
      %py = arith.mulf %wp, %wy : f32
      "bascule.yield"(%py) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (70)>} : () -> f32
    %h = arith.truncf %sum : f32 to f16
    "bascule.yield"(%h) : (f16) -> ()
  }) {ranges = affine_map<() -> (6, 40, 48)>} : () -> tensor<6x40x48xf16>
  return %5 : tensor<6x40x48xf16>
}

// All weights of a row that a mask hides are chosen to be 0: the sum is, when it has been divided.
// CHECK-LABEL: func.func @empty_rows
// CHECK: : () -> tensor<70xf32>
// CHECK: %[[M:.*]] = "bascule.reduce"
// CHECK: kind = "max"
// CHECK: %[[R:.*]] = arith.divf
// CHECK: %[[E:.*]] = arith.cmpf oeq, %[[M]], %{{.*}} : f32
// CHECK: arith.select %[[E]], %{{.*}}, %[[R]]
// CHECK: reason = "no score is in memory"
func.func @empty_rows(%q: tensor<2x3x40x32xf16>, %k: tensor<2x3x70x32xf16>, %v: tensor<2x3x70x48xf16>, %mask: tensor<40x70xi1>) -> tensor<6x40x48xf16> attributes {bascule.graph} {
  %zero = arith.constant 0 : index
  %scale = arith.constant 1.250000e-01 : f32
  %nothing = arith.constant 0.0 : f32
  %never = arith.constant 0xFF800000 : f32
  %0 = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%d: index):
      %outer = affine.apply affine_map<(d0) -> (d0 floordiv 3)>(%b)
      %inner = affine.apply affine_map<(d0) -> (d0 mod 3)>(%b)
      %x = tensor.extract %q[%outer, %inner, %i, %d] : tensor<2x3x40x32xf16>
      %wx = arith.extf %x : f16 to f32
      %y = tensor.extract %k[%outer, %inner, %n, %d] : tensor<2x3x70x32xf16>
      %wy = arith.extf %y : f16 to f32
      %xy = arith.mulf %wx, %wy : f32
      "bascule.yield"(%xy) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (32)>} : () -> f32
    "bascule.yield"(%sum) : (f32) -> ()
  }) {ranges = affine_map<() -> (6, 40, 70)>} : () -> tensor<6x40x70xf32>
  %1 = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %s = tensor.extract %0[%b, %i, %n] : tensor<6x40x70xf32>
    %scaled = arith.mulf %s, %scale : f32
    %seen = tensor.extract %mask[%i, %n] : tensor<40x70xi1>
    %score = arith.select %seen, %scaled, %never : f32
    "bascule.yield"(%score) : (f32) -> ()
  }) {ranges = affine_map<() -> (6, 40, 70)>} : () -> tensor<6x40x70xf32>
  %2 = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %most = "bascule.reduce"() ({
    ^bb0(%j: index):
      %s = tensor.extract %1[%b, %i, %j] : tensor<6x40x70xf32>
      "bascule.yield"(%s) : (f32) -> ()
    }) {kind = "max", ranges = affine_map<() -> (70)>} : () -> f32
    "bascule.yield"(%most) : (f32) -> ()
  }) {ranges = affine_map<() -> (6, 40, 1)>} : () -> tensor<6x40x1xf32>
  %3 = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %total = "bascule.reduce"() ({
    ^bb0(%j: index):
      %s = tensor.extract %1[%b, %i, %j] : tensor<6x40x70xf32>
      %m = tensor.extract %2[%b, %i, %zero] : tensor<6x40x1xf32>
      %e = arith.subf %s, %m : f32
      %p = math.exp %e : f32
      "bascule.yield"(%p) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (70)>} : () -> f32
    "bascule.yield"(%total) : (f32) -> ()
  }) {ranges = affine_map<() -> (6, 40, 1)>} : () -> tensor<6x40x1xf32>
  %4 = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %s = tensor.extract %1[%b, %i, %n] : tensor<6x40x70xf32>
    %m = tensor.extract %2[%b, %i, %zero] : tensor<6x40x1xf32>
    %e = arith.subf %s, %m : f32
    %p = math.exp %e : f32
    %l = tensor.extract %3[%b, %i, %zero] : tensor<6x40x1xf32>
    %r = arith.divf %p, %l : f32
    %empty = arith.cmpf oeq, %m, %never : f32
    %w = arith.select %empty, %nothing, %r : f32
    %h = arith.truncf %w : f32 to f16
    "bascule.yield"(%h) : (f16) -> ()
  }) {ranges = affine_map<() -> (6, 40, 70)>} : () -> tensor<6x40x70xf16>
  %5 = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %c: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%n: index):
      %outer = affine.apply affine_map<(d0) -> (d0 floordiv 3)>(%b)
      %inner = affine.apply affine_map<(d0) -> (d0 mod 3)>(%b)
      %p = tensor.extract %4[%b, %i, %n] : tensor<6x40x70xf16>
      %wp = arith.extf %p : f16 to f32
      %y = tensor.extract %v[%outer, %inner, %n, %c] : tensor<2x3x70x48xf16>
      %wy = arith.extf %y : f16 to f32
      %py = arith.mulf %wp, %wy : f32
      "bascule.yield"(%py) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (70)>} : () -> f32
    %h = arith.truncf %sum : f32 to f16
    "bascule.yield"(%h) : (f16) -> ()
  }) {ranges = affine_map<() -> (6, 40, 48)>} : () -> tensor<6x40x48xf16>
  return %5 : tensor<6x40x48xf16>
}

// The backward of an attention needs of each row of scores its maximum and the sum of exponentials about that: computes of the same rows, which
// share the kernel. Weights may be multiples of the quotients (dropout). Not where it needs another number of a row.
// RUN: bascule-opt %s --fuse-attention=target=cuda | filecheck %s
// RUN: bascule-opt %s --pass-pipeline='builtin.module(fuse-attention{target=cuda},form-kernels{target=cuda},drop-roundings,cse,online-softmax{target=cuda},schedule-kernels{target=cuda})' | filecheck %s --check-prefix=KERNEL
// RUN: bascule-run %s --function=statistics --interpret-only --pipeline='fuse-attention{target=cuda},form-kernels{target=cuda},cse'

// KERNEL: func.func private
// KERNEL: "bascule.kernel"
// KERNEL: "bascule.compute"
// KERNEL: kind = "softmax"
// KERNEL: arith.select
// KERNEL: arith.divf
// KERNEL-COUNT-3: "bascule.store"
// KERNEL-NOT: "bascule.compute"
// KERNEL: kind = "attention"
// KERNEL-LABEL: func.func @statistics
// KERNEL: %[[ALL:.*]]:3 = call
// KERNEL: return %[[ALL]]#0, %[[ALL]]#1, %[[ALL]]#2

// CHECK-LABEL: func.func @statistics
// CHECK: %[[OUT:.*]] = "bascule.compute"
// CHECK: kind = "max"
// CHECK: math.exp
// CHECK: arith.select
// CHECK: arith.divf
// CHECK: bascule.remarks = [{{.*}}decision = "attention", kind = "passed", {{.*}}reason = "no score is in memory"}], bascule.together = [[NUMBER:.*]] : i64
// CHECK: %[[MOST:.*]] = "bascule.compute"
// CHECK: kind = "max"
// CHECK: bascule.together = [[NUMBER]] : i64
// CHECK: %[[TOTAL:.*]] = "bascule.compute"
// CHECK: kind = "max"
// CHECK: kind = "sum"
// CHECK: bascule.together = [[NUMBER]] : i64
// CHECK-NEXT: return %[[OUT]], %[[MOST]], %[[TOTAL]]
func.func @statistics(%q: tensor<6x40x32xf16>, %k: tensor<6x70x32xf16>, %v: tensor<6x70x48xf16>, %kept: tensor<6x40x70xi1>) -> (tensor<6x40x48xf16>, tensor<6x40x1xf32>, tensor<6x40x1xf32>) attributes {bascule.graph} {
  %zero = arith.constant 0 : index
  %scale = arith.constant 1.250000e+00 : f32
  %none = arith.constant 0.000000e+00 : f32
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
    %most = "bascule.reduce"() ({
    ^bb0(%j: index):
      %s = tensor.extract %0[%b, %i, %j] : tensor<6x40x70xf32>
      "bascule.yield"(%s) : (f32) -> ()
    }) {kind = "max", ranges = affine_map<() -> (70)>} : () -> f32
    "bascule.yield"(%most) : (f32) -> ()
  }) {ranges = affine_map<() -> (6, 40, 1)>} : () -> tensor<6x40x1xf32>
  %2 = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %total = "bascule.reduce"() ({
    ^bb0(%j: index):
      %s = tensor.extract %0[%b, %i, %j] : tensor<6x40x70xf32>
      %m = tensor.extract %1[%b, %i, %zero] : tensor<6x40x1xf32>
      %e = arith.subf %s, %m : f32
      %p = math.exp %e : f32
      "bascule.yield"(%p) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (70)>} : () -> f32
    "bascule.yield"(%total) : (f32) -> ()
  }) {ranges = affine_map<() -> (6, 40, 1)>} : () -> tensor<6x40x1xf32>
  %3 = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %s = tensor.extract %0[%b, %i, %n] : tensor<6x40x70xf32>
    %m = tensor.extract %1[%b, %i, %zero] : tensor<6x40x1xf32>
    %e = arith.subf %s, %m : f32
    %p = math.exp %e : f32
    %l = tensor.extract %2[%b, %i, %zero] : tensor<6x40x1xf32>
    %w = arith.divf %p, %l : f32
    %seen = tensor.extract %kept[%b, %i, %n] : tensor<6x40x70xi1>
    %scaled = arith.mulf %w, %scale : f32
    %dropped = arith.select %seen, %scaled, %none : f32
    %h = arith.truncf %dropped : f32 to f16
    "bascule.yield"(%h) : (f16) -> ()
  }) {ranges = affine_map<() -> (6, 40, 70)>} : () -> tensor<6x40x70xf16>
  %4 = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %c: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%n: index):
      %p = tensor.extract %3[%b, %i, %n] : tensor<6x40x70xf16>
      %wp = arith.extf %p : f16 to f32
      %y = tensor.extract %v[%b, %n, %c] : tensor<6x70x48xf16>
      %wy = arith.extf %y : f16 to f32
      %py = arith.mulf %wp, %wy : f32
      "bascule.yield"(%py) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (70)>} : () -> f32
    %h = arith.truncf %sum : f32 to f16
    "bascule.yield"(%h) : (f16) -> ()
  }) {ranges = affine_map<() -> (6, 40, 48)>} : () -> tensor<6x40x48xf16>
  return %4, %1, %2 : tensor<6x40x48xf16>, tensor<6x40x1xf32>, tensor<6x40x1xf32>
}

// CHECK-LABEL: func.func @shifted
// CHECK-NOT: no score is in memory
func.func @shifted(%q: tensor<6x40x32xf16>, %k: tensor<6x70x32xf16>, %v: tensor<6x70x48xf16>) -> tensor<6x40x48xf16> attributes {bascule.graph} {
  %zero = arith.constant 0 : index
  %scale = arith.constant 1.250000e+00 : f32
  %none = arith.constant 0.000000e+00 : f32
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
    %most = "bascule.reduce"() ({
    ^bb0(%j: index):
      %s = tensor.extract %0[%b, %i, %j] : tensor<6x40x70xf32>
      "bascule.yield"(%s) : (f32) -> ()
    }) {kind = "max", ranges = affine_map<() -> (70)>} : () -> f32
    "bascule.yield"(%most) : (f32) -> ()
  }) {ranges = affine_map<() -> (6, 40, 1)>} : () -> tensor<6x40x1xf32>
  %2 = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %total = "bascule.reduce"() ({
    ^bb0(%j: index):
      %s = tensor.extract %0[%b, %i, %j] : tensor<6x40x70xf32>
      %m = tensor.extract %1[%b, %i, %zero] : tensor<6x40x1xf32>
      %e = arith.subf %s, %m : f32
      %p = math.exp %e : f32
      "bascule.yield"(%p) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (70)>} : () -> f32
    "bascule.yield"(%total) : (f32) -> ()
  }) {ranges = affine_map<() -> (6, 40, 1)>} : () -> tensor<6x40x1xf32>
  %3 = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %s = tensor.extract %0[%b, %i, %n] : tensor<6x40x70xf32>
    %m = tensor.extract %1[%b, %i, %zero] : tensor<6x40x1xf32>
    %e = arith.subf %s, %m : f32
    %p = math.exp %e : f32
    %l = tensor.extract %2[%b, %i, %zero] : tensor<6x40x1xf32>
    %w = arith.divf %p, %l : f32
    %a = arith.addf %w, %scale : f32
    %h = arith.truncf %a : f32 to f16
    "bascule.yield"(%h) : (f16) -> ()
  }) {ranges = affine_map<() -> (6, 40, 70)>} : () -> tensor<6x40x70xf16>
  %4 = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %c: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%n: index):
      %p = tensor.extract %3[%b, %i, %n] : tensor<6x40x70xf16>
      %wp = arith.extf %p : f16 to f32
      %y = tensor.extract %v[%b, %n, %c] : tensor<6x70x48xf16>
      %wy = arith.extf %y : f16 to f32
      %py = arith.mulf %wp, %wy : f32
      "bascule.yield"(%py) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (70)>} : () -> f32
    %h = arith.truncf %sum : f32 to f16
    "bascule.yield"(%h) : (f16) -> ()
  }) {ranges = affine_map<() -> (6, 40, 48)>} : () -> tensor<6x40x48xf16>
  return %4 : tensor<6x40x48xf16>
}

// CHECK-LABEL: func.func @another
// CHECK: bascule.remarks = [{{.*}}decision = "no attention", kind = "missed", {{.*}}reason = "its scores or weights are needed in memory"}]
func.func @another(%q: tensor<6x40x32xf16>, %k: tensor<6x70x32xf16>, %v: tensor<6x70x48xf16>) -> (tensor<6x40x48xf16>, tensor<6x40x1xf32>) attributes {bascule.graph} {
  %zero = arith.constant 0 : index
  %scale = arith.constant 1.250000e+00 : f32
  %none = arith.constant 0.000000e+00 : f32
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
    %most = "bascule.reduce"() ({
    ^bb0(%j: index):
      %s = tensor.extract %0[%b, %i, %j] : tensor<6x40x70xf32>
      "bascule.yield"(%s) : (f32) -> ()
    }) {kind = "max", ranges = affine_map<() -> (70)>} : () -> f32
    "bascule.yield"(%most) : (f32) -> ()
  }) {ranges = affine_map<() -> (6, 40, 1)>} : () -> tensor<6x40x1xf32>
  %2 = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %total = "bascule.reduce"() ({
    ^bb0(%j: index):
      %s = tensor.extract %0[%b, %i, %j] : tensor<6x40x70xf32>
      %m = tensor.extract %1[%b, %i, %zero] : tensor<6x40x1xf32>
      %e = arith.subf %s, %m : f32
      %p = math.exp %e : f32
      "bascule.yield"(%p) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (70)>} : () -> f32
    "bascule.yield"(%total) : (f32) -> ()
  }) {ranges = affine_map<() -> (6, 40, 1)>} : () -> tensor<6x40x1xf32>
  %3 = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %s = tensor.extract %0[%b, %i, %n] : tensor<6x40x70xf32>
    %m = tensor.extract %1[%b, %i, %zero] : tensor<6x40x1xf32>
    %e = arith.subf %s, %m : f32
    %p = math.exp %e : f32
    %l = tensor.extract %2[%b, %i, %zero] : tensor<6x40x1xf32>
    %w = arith.divf %p, %l : f32
    %h = arith.truncf %w : f32 to f16
    "bascule.yield"(%h) : (f16) -> ()
  }) {ranges = affine_map<() -> (6, 40, 70)>} : () -> tensor<6x40x70xf16>
  %4 = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %c: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%n: index):
      %p = tensor.extract %3[%b, %i, %n] : tensor<6x40x70xf16>
      %wp = arith.extf %p : f16 to f32
      %y = tensor.extract %v[%b, %n, %c] : tensor<6x70x48xf16>
      %wy = arith.extf %y : f16 to f32
      %py = arith.mulf %wp, %wy : f32
      "bascule.yield"(%py) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (70)>} : () -> f32
    %h = arith.truncf %sum : f32 to f16
    "bascule.yield"(%h) : (f16) -> ()
  }) {ranges = affine_map<() -> (6, 40, 48)>} : () -> tensor<6x40x48xf16>
  %5 = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %least = "bascule.reduce"() ({
    ^bb0(%j: index):
      %s = tensor.extract %0[%b, %i, %j] : tensor<6x40x70xf32>
      "bascule.yield"(%s) : (f32) -> ()
    }) {kind = "min", ranges = affine_map<() -> (70)>} : () -> f32
    "bascule.yield"(%least) : (f32) -> ()
  }) {ranges = affine_map<() -> (6, 40, 1)>} : () -> tensor<6x40x1xf32>
  return %4, %5 : tensor<6x40x48xf16>, tensor<6x40x1xf32>
}

// Two products that walk alike, of one matrix that is computed from a product: computes of one kernel, of one number; the first stands before the
// second. In the kernel the product that both are made of is computed once a step, and what it multiplies is read once.
// RUN: bascule-opt %s --fuse-products=target=cuda | filecheck %s
// RUN: bascule-opt %s --pass-pipeline='builtin.module(fuse-products{target=cuda},form-kernels{target=cuda},isolate-kernels,schedule-kernels{target=cuda},bufferize-kernels,to-triton)' | filecheck %s --check-prefix=TRITON
// RUN: bascule-run %s --function=two --interpret-only --pipeline='fuse-products{target=cuda}'
// RUN: bascule-run %s --function=transposed --interpret-only --pipeline='fuse-products{target=cuda}'

// CHECK-LABEL: func.func @two
// CHECK: %[[ONE:.*]] = "bascule.compute"
// CHECK: bascule.together = 0
// CHECK: %[[OTHER:.*]] = "bascule.compute"
// CHECK: decision = "products in one kernel", kind = "passed", {{.*}}reason = "what both are made of is computed once"}], bascule.together = 0
// CHECK-NEXT: return %[[ONE]], %[[OTHER]]

// TRITON: scf.for
// TRITON-COUNT-3: tt.dot
// TRITON-NOT: tt.dot
// TRITON: scf.yield
func.func @two(%q: tensor<6x40x32xf16>, %k: tensor<6x70x32xf16>, %g: tensor<6x40x48xf16>, %g2: tensor<6x40x48xf16>, %most: tensor<6x40xf32>) -> (tensor<6x70x48xf16>, tensor<6x70x48xf16>) attributes {bascule.graph} {
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
  %3 = "bascule.compute"() ({
  ^bb0(%b: index, %n: index, %c: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%i: index):
      %p = tensor.extract %1[%b, %i, %n] : tensor<6x40x70xf16>
      %wp = arith.extf %p : f16 to f32
      %y = tensor.extract %g2[%b, %i, %c] : tensor<6x40x48xf16>
      %wy = arith.extf %y : f16 to f32
      %py = arith.mulf %wp, %wy : f32
      "bascule.yield"(%py) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (40)>} : () -> f32
    %h = arith.truncf %sum : f32 to f16
    "bascule.yield"(%h) : (f16) -> ()
  }) {ranges = affine_map<() -> (6, 70, 48)>} : () -> tensor<6x70x48xf16>
  return %2, %3 : tensor<6x70x48xf16>, tensor<6x70x48xf16>
}

// One of them transposed, the other read between them: what reads it comes later.
// CHECK-LABEL: func.func @transposed
// CHECK: %[[ONE:.*]] = "bascule.compute"
// CHECK: bascule.together = 0
// CHECK: "bascule.compute"
// CHECK: bascule.together = 0 : i64, bascule.together_dims = array<i64: 0, 2, 1>
// CHECK: tensor.extract %[[ONE]][

// TRITON: scf.for
// TRITON-COUNT-3: tt.dot
// TRITON-NOT: tt.dot
// TRITON: scf.yield
func.func @transposed(%q: tensor<6x40x32xf16>, %k: tensor<6x70x32xf16>, %g: tensor<6x40x48xf16>, %g2: tensor<6x40x48xf16>, %most: tensor<6x40xf32>) -> (tensor<6x3360xf16>, tensor<6x48x70xf16>) attributes {bascule.graph} {
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
  %read = "bascule.compute"() ({
  ^bb0(%b: index, %i: index):
    %n = affine.apply affine_map<(d0) -> (d0 floordiv 48)>(%i)
    %c = affine.apply affine_map<(d0) -> (d0 mod 48)>(%i)
    %x = tensor.extract %2[%b, %n, %c] : tensor<6x70x48xf16>
    %y = arith.negf %x : f16
    "bascule.yield"(%y) : (f16) -> ()
  }) {ranges = affine_map<() -> (6, 3360)>} : () -> tensor<6x3360xf16>
  %3 = "bascule.compute"() ({
  ^bb0(%b: index, %c: index, %n: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%i: index):
      %p = tensor.extract %1[%b, %i, %n] : tensor<6x40x70xf16>
      %wp = arith.extf %p : f16 to f32
      %y = tensor.extract %g2[%b, %i, %c] : tensor<6x40x48xf16>
      %wy = arith.extf %y : f16 to f32
      %py = arith.mulf %wp, %wy : f32
      "bascule.yield"(%py) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (40)>} : () -> f32
    %h = arith.truncf %sum : f32 to f16
    "bascule.yield"(%h) : (f16) -> ()
  }) {ranges = affine_map<() -> (6, 48, 70)>} : () -> tensor<6x48x70xf16>
  return %read, %3 : tensor<6x3360xf16>, tensor<6x48x70xf16>
}

// As many rows, but of the other side of the scores: no product of theirs is the same.
// CHECK-LABEL: func.func @of_other_rows
// CHECK-NOT: bascule.together
// CHECK: return
func.func @of_other_rows(%q: tensor<6x40x32xf16>, %k: tensor<6x40x32xf16>, %g: tensor<6x40x48xf16>, %g2: tensor<6x40x48xf16>, %most: tensor<6x40xf32>) -> (tensor<6x40x48xf16>, tensor<6x40x48xf16>) attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%d: index):
      %x = tensor.extract %q[%b, %i, %d] : tensor<6x40x32xf16>
      %wx = arith.extf %x : f16 to f32
      %y = tensor.extract %k[%b, %n, %d] : tensor<6x40x32xf16>
      %wy = arith.extf %y : f16 to f32
      %xy = arith.mulf %wx, %wy : f32
      "bascule.yield"(%xy) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (32)>} : () -> f32
    "bascule.yield"(%sum) : (f32) -> ()
  }) {ranges = affine_map<() -> (6, 40, 40)>} : () -> tensor<6x40x40xf32>
  %1 = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %s = tensor.extract %0[%b, %i, %n] : tensor<6x40x40xf32>
    %m = tensor.extract %most[%b, %i] : tensor<6x40xf32>
    %e = arith.subf %s, %m : f32
    %p = math.exp %e : f32
    %h = arith.truncf %p : f32 to f16
    "bascule.yield"(%h) : (f16) -> ()
  }) {ranges = affine_map<() -> (6, 40, 40)>} : () -> tensor<6x40x40xf16>
  %2 = "bascule.compute"() ({
  ^bb0(%b: index, %n: index, %c: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%i: index):
      %p = tensor.extract %1[%b, %i, %n] : tensor<6x40x40xf16>
      %wp = arith.extf %p : f16 to f32
      %y = tensor.extract %g[%b, %i, %c] : tensor<6x40x48xf16>
      %wy = arith.extf %y : f16 to f32
      %py = arith.mulf %wp, %wy : f32
      "bascule.yield"(%py) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (40)>} : () -> f32
    %h = arith.truncf %sum : f32 to f16
    "bascule.yield"(%h) : (f16) -> ()
  }) {ranges = affine_map<() -> (6, 40, 48)>} : () -> tensor<6x40x48xf16>
  %3 = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %c: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%n: index):
      %p = tensor.extract %1[%b, %i, %n] : tensor<6x40x40xf16>
      %wp = arith.extf %p : f16 to f32
      %y = tensor.extract %g2[%b, %n, %c] : tensor<6x40x48xf16>
      %wy = arith.extf %y : f16 to f32
      %py = arith.mulf %wp, %wy : f32
      "bascule.yield"(%py) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (40)>} : () -> f32
    %h = arith.truncf %sum : f32 to f16
    "bascule.yield"(%h) : (f16) -> ()
  }) {ranges = affine_map<() -> (6, 40, 48)>} : () -> tensor<6x40x48xf16>
  return %2, %3 : tensor<6x40x48xf16>, tensor<6x40x48xf16>
}

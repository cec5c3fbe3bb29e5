// RUN: bascule-opt %s '--pass-pipeline=builtin.module(inline-producers{target=cuda})' | filecheck %s
// RUN: bascule-run %s --function=cheap --interpret-only --pipeline='inline-producers{target=cuda}'
// RUN: bascule-run %s --function=costly --interpret-only --pipeline='inline-producers{target=cuda}'

// A relu is computed again in each of the windows that an element lies in, whether they reach beyond the image or not.
// CHECK-LABEL: func.func @cheap(
// CHECK-COUNT-1: "bascule.compute"
// CHECK-NOT: "bascule.compute"
// CHECK: return
func.func @cheap(%x: tensor<8x64x28x28xbf16>, %weight: tensor<64x3x3xf32>) -> tensor<8x64x28x28xf32> attributes {bascule.graph} {
  %y = "bascule.compute"() ({
  ^bb0(%n: index, %c: index, %i: index, %j: index):
    %e = tensor.extract %x[%n, %c, %i, %j] : tensor<8x64x28x28xbf16>
    %f = arith.extf %e : bf16 to f32
    %zero = arith.constant 0.0 : f32
    %g = arith.maximumf %f, %zero : f32
    %h = arith.truncf %g : f32 to bf16
    "bascule.yield"(%h) : (bf16) -> ()
  }) {ranges = affine_map<() -> (8, 64, 28, 28)>} : () -> tensor<8x64x28x28xbf16>
  %z = "bascule.compute"() ({
  ^bb0(%n: index, %c: index, %i: index, %j: index):
    %s = "bascule.reduce"() ({
    ^bb0(%k: index, %l: index):
      %p = affine.apply affine_map<(d0, d1) -> (d0 + d1 - 1)>(%i, %k)
      %q = affine.apply affine_map<(d0, d1) -> (d0 + d1 - 1)>(%j, %l)
      %first = arith.constant 0 : index
      %size = arith.constant 28 : index
      %none = arith.constant 0.0 : f32
      %i0 = arith.cmpi sge, %p, %first : index
      %i1 = arith.cmpi slt, %p, %size : index
      %j0 = arith.cmpi sge, %q, %first : index
      %j1 = arith.cmpi slt, %q, %size : index
      %row = arith.andi %i0, %i1 : i1
      %column = arith.andi %j0, %j1 : i1
      %inside = arith.andi %row, %column : i1
      %e = scf.if %inside -> (f32) {
        %a = tensor.extract %y[%n, %c, %p, %q] : tensor<8x64x28x28xbf16>
        %b = arith.extf %a : bf16 to f32
        scf.yield %b : f32
      } else {
        scf.yield %none : f32
      }
      %w = tensor.extract %weight[%c, %k, %l] : tensor<64x3x3xf32>
      %m = arith.mulf %e, %w : f32
      "bascule.yield"(%m) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (3, 3)>} : () -> f32
    "bascule.yield"(%s) : (f32) -> ()
  }) {ranges = affine_map<() -> (8, 64, 28, 28)>} : () -> tensor<8x64x28x28xf32>
  return %z : tensor<8x64x28x28xf32>
}

// CHECK-LABEL: func.func @unpadded(
// CHECK-COUNT-1: "bascule.compute"
// CHECK-NOT: "bascule.compute"
// CHECK: return
func.func @unpadded(%x: tensor<8x64x28x28xbf16>, %weight: tensor<64x3x3xf32>) -> tensor<8x64x26x26xf32> attributes {bascule.graph} {
  %y = "bascule.compute"() ({
  ^bb0(%n: index, %c: index, %i: index, %j: index):
    %e = tensor.extract %x[%n, %c, %i, %j] : tensor<8x64x28x28xbf16>
    %f = arith.extf %e : bf16 to f32
    %zero = arith.constant 0.0 : f32
    %g = arith.maximumf %f, %zero : f32
    %h = arith.truncf %g : f32 to bf16
    "bascule.yield"(%h) : (bf16) -> ()
  }) {ranges = affine_map<() -> (8, 64, 28, 28)>} : () -> tensor<8x64x28x28xbf16>
  %z = "bascule.compute"() ({
  ^bb0(%n: index, %c: index, %i: index, %j: index):
    %s = "bascule.reduce"() ({
    ^bb0(%k: index, %l: index):
      %p = affine.apply affine_map<(d0, d1) -> (d0 + d1)>(%i, %k)
      %q = affine.apply affine_map<(d0, d1) -> (d0 + d1)>(%j, %l)
      %a = tensor.extract %y[%n, %c, %p, %q] : tensor<8x64x28x28xbf16>
      %e = arith.extf %a : bf16 to f32
      %w = tensor.extract %weight[%c, %k, %l] : tensor<64x3x3xf32>
      %m = arith.mulf %e, %w : f32
      "bascule.yield"(%m) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (3, 3)>} : () -> f32
    "bascule.yield"(%s) : (f32) -> ()
  }) {ranges = affine_map<() -> (8, 64, 26, 26)>} : () -> tensor<8x64x26x26xf32>
  return %z : tensor<8x64x26x26xf32>
}

// An exponential is not: three or four windows are left of nine once neighbours are computed together, and that takes longer than memory does.
// CHECK-LABEL: func.func @costly(
// CHECK-COUNT-2: "bascule.compute"
// CHECK-NOT: "bascule.compute"
// CHECK: return
func.func @costly(%x: tensor<8x64x28x28xbf16>, %weight: tensor<64x3x3xf32>) -> tensor<8x64x28x28xf32> attributes {bascule.graph} {
  %y = "bascule.compute"() ({
  ^bb0(%n: index, %c: index, %i: index, %j: index):
    %e = tensor.extract %x[%n, %c, %i, %j] : tensor<8x64x28x28xbf16>
    %f = arith.extf %e : bf16 to f32
    %g = math.exp %f : f32
    %h = arith.truncf %g : f32 to bf16
    "bascule.yield"(%h) : (bf16) -> ()
  }) {ranges = affine_map<() -> (8, 64, 28, 28)>} : () -> tensor<8x64x28x28xbf16>
  %z = "bascule.compute"() ({
  ^bb0(%n: index, %c: index, %i: index, %j: index):
    %s = "bascule.reduce"() ({
    ^bb0(%k: index, %l: index):
      %p = affine.apply affine_map<(d0, d1) -> (d0 + d1 - 1)>(%i, %k)
      %q = affine.apply affine_map<(d0, d1) -> (d0 + d1 - 1)>(%j, %l)
      %first = arith.constant 0 : index
      %size = arith.constant 28 : index
      %none = arith.constant 0.0 : f32
      %i0 = arith.cmpi sge, %p, %first : index
      %i1 = arith.cmpi slt, %p, %size : index
      %j0 = arith.cmpi sge, %q, %first : index
      %j1 = arith.cmpi slt, %q, %size : index
      %row = arith.andi %i0, %i1 : i1
      %column = arith.andi %j0, %j1 : i1
      %inside = arith.andi %row, %column : i1
      %e = scf.if %inside -> (f32) {
        %a = tensor.extract %y[%n, %c, %p, %q] : tensor<8x64x28x28xbf16>
        %b = arith.extf %a : bf16 to f32
        scf.yield %b : f32
      } else {
        scf.yield %none : f32
      }
      %w = tensor.extract %weight[%c, %k, %l] : tensor<64x3x3xf32>
      %m = arith.mulf %e, %w : f32
      "bascule.yield"(%m) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (3, 3)>} : () -> f32
    "bascule.yield"(%s) : (f32) -> ()
  }) {ranges = affine_map<() -> (8, 64, 28, 28)>} : () -> tensor<8x64x28x28xf32>
  return %z : tensor<8x64x28x28xf32>
}

// Some operations are repeated in windows of 3 x 3, and not in those of 7 x 7.
// CHECK-LABEL: func.func @small(
// CHECK-COUNT-1: "bascule.compute"
// CHECK-NOT: "bascule.compute"
// CHECK: return
func.func @small(%x: tensor<8x64x28x28xbf16>, %weight: tensor<64x3x3xf32>) -> tensor<8x64x28x28xf32> attributes {bascule.graph} {
  %y = "bascule.compute"() ({
  ^bb0(%n: index, %c: index, %i: index, %j: index):
    %e = tensor.extract %x[%n, %c, %i, %j] : tensor<8x64x28x28xbf16>
    %f = arith.extf %e : bf16 to f32
    %one = arith.constant 1.0 : f32
    %f1 = arith.addf %f, %one : f32
    %f2 = arith.mulf %f1, %f : f32
    %f3 = arith.subf %f2, %one : f32
    %g = arith.maximumf %f3, %f : f32
    %h = arith.truncf %g : f32 to bf16
    "bascule.yield"(%h) : (bf16) -> ()
  }) {ranges = affine_map<() -> (8, 64, 28, 28)>} : () -> tensor<8x64x28x28xbf16>
  %z = "bascule.compute"() ({
  ^bb0(%n: index, %c: index, %i: index, %j: index):
    %s = "bascule.reduce"() ({
    ^bb0(%k: index, %l: index):
      %p = affine.apply affine_map<(d0, d1) -> (d0 + d1 - 1)>(%i, %k)
      %q = affine.apply affine_map<(d0, d1) -> (d0 + d1 - 1)>(%j, %l)
      %first = arith.constant 0 : index
      %size = arith.constant 28 : index
      %none = arith.constant 0.0 : f32
      %i0 = arith.cmpi sge, %p, %first : index
      %i1 = arith.cmpi slt, %p, %size : index
      %j0 = arith.cmpi sge, %q, %first : index
      %j1 = arith.cmpi slt, %q, %size : index
      %row = arith.andi %i0, %i1 : i1
      %column = arith.andi %j0, %j1 : i1
      %inside = arith.andi %row, %column : i1
      %e = scf.if %inside -> (f32) {
        %a = tensor.extract %y[%n, %c, %p, %q] : tensor<8x64x28x28xbf16>
        %b = arith.extf %a : bf16 to f32
        scf.yield %b : f32
      } else {
        scf.yield %none : f32
      }
      %w = tensor.extract %weight[%c, %k, %l] : tensor<64x3x3xf32>
      %m = arith.mulf %e, %w : f32
      "bascule.yield"(%m) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (3, 3)>} : () -> f32
    "bascule.yield"(%s) : (f32) -> ()
  }) {ranges = affine_map<() -> (8, 64, 28, 28)>} : () -> tensor<8x64x28x28xf32>
  return %z : tensor<8x64x28x28xf32>
}

// CHECK-LABEL: func.func @large(
// CHECK-COUNT-2: "bascule.compute"
// CHECK-NOT: "bascule.compute"
// CHECK: return
func.func @large(%x: tensor<8x64x28x28xbf16>, %weight: tensor<64x7x7xf32>) -> tensor<8x64x28x28xf32> attributes {bascule.graph} {
  %y = "bascule.compute"() ({
  ^bb0(%n: index, %c: index, %i: index, %j: index):
    %e = tensor.extract %x[%n, %c, %i, %j] : tensor<8x64x28x28xbf16>
    %f = arith.extf %e : bf16 to f32
    %one = arith.constant 1.0 : f32
    %f1 = arith.addf %f, %one : f32
    %f2 = arith.mulf %f1, %f : f32
    %f3 = arith.subf %f2, %one : f32
    %g = arith.maximumf %f3, %f : f32
    %h = arith.truncf %g : f32 to bf16
    "bascule.yield"(%h) : (bf16) -> ()
  }) {ranges = affine_map<() -> (8, 64, 28, 28)>} : () -> tensor<8x64x28x28xbf16>
  %z = "bascule.compute"() ({
  ^bb0(%n: index, %c: index, %i: index, %j: index):
    %s = "bascule.reduce"() ({
    ^bb0(%k: index, %l: index):
      %p = affine.apply affine_map<(d0, d1) -> (d0 + d1 - 3)>(%i, %k)
      %q = affine.apply affine_map<(d0, d1) -> (d0 + d1 - 3)>(%j, %l)
      %first = arith.constant 0 : index
      %size = arith.constant 28 : index
      %none = arith.constant 0.0 : f32
      %i0 = arith.cmpi sge, %p, %first : index
      %i1 = arith.cmpi slt, %p, %size : index
      %j0 = arith.cmpi sge, %q, %first : index
      %j1 = arith.cmpi slt, %q, %size : index
      %row = arith.andi %i0, %i1 : i1
      %column = arith.andi %j0, %j1 : i1
      %inside = arith.andi %row, %column : i1
      %e = scf.if %inside -> (f32) {
        %a = tensor.extract %y[%n, %c, %p, %q] : tensor<8x64x28x28xbf16>
        %b = arith.extf %a : bf16 to f32
        scf.yield %b : f32
      } else {
        scf.yield %none : f32
      }
      %w = tensor.extract %weight[%c, %k, %l] : tensor<64x7x7xf32>
      %m = arith.mulf %e, %w : f32
      "bascule.yield"(%m) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (7, 7)>} : () -> f32
    "bascule.yield"(%s) : (f32) -> ()
  }) {ranges = affine_map<() -> (8, 64, 28, 28)>} : () -> tensor<8x64x28x28xf32>
  return %z : tensor<8x64x28x28xf32>
}

// Windows that are not unrolled, as those of a maximum, repeat it in each.
// CHECK-LABEL: func.func @maximum(
// CHECK-COUNT-2: "bascule.compute"
// CHECK-NOT: "bascule.compute"
// CHECK: return
func.func @maximum(%x: tensor<8x64x28x28xbf16>, %weight: tensor<64x3x3xf32>) -> tensor<8x64x28x28xf32> attributes {bascule.graph} {
  %y = "bascule.compute"() ({
  ^bb0(%n: index, %c: index, %i: index, %j: index):
    %e = tensor.extract %x[%n, %c, %i, %j] : tensor<8x64x28x28xbf16>
    %f = arith.extf %e : bf16 to f32
    %one = arith.constant 1.0 : f32
    %f1 = arith.addf %f, %one : f32
    %f2 = arith.mulf %f1, %f : f32
    %f3 = arith.subf %f2, %one : f32
    %g = arith.maximumf %f3, %f : f32
    %h = arith.truncf %g : f32 to bf16
    "bascule.yield"(%h) : (bf16) -> ()
  }) {ranges = affine_map<() -> (8, 64, 28, 28)>} : () -> tensor<8x64x28x28xbf16>
  %z = "bascule.compute"() ({
  ^bb0(%n: index, %c: index, %i: index, %j: index):
    %s = "bascule.reduce"() ({
    ^bb0(%k: index, %l: index):
      %p = affine.apply affine_map<(d0, d1) -> (d0 + d1 - 1)>(%i, %k)
      %q = affine.apply affine_map<(d0, d1) -> (d0 + d1 - 1)>(%j, %l)
      %first = arith.constant 0 : index
      %size = arith.constant 28 : index
      %none = arith.constant 0.0 : f32
      %i0 = arith.cmpi sge, %p, %first : index
      %i1 = arith.cmpi slt, %p, %size : index
      %j0 = arith.cmpi sge, %q, %first : index
      %j1 = arith.cmpi slt, %q, %size : index
      %row = arith.andi %i0, %i1 : i1
      %column = arith.andi %j0, %j1 : i1
      %inside = arith.andi %row, %column : i1
      %e = scf.if %inside -> (f32) {
        %a = tensor.extract %y[%n, %c, %p, %q] : tensor<8x64x28x28xbf16>
        %b = arith.extf %a : bf16 to f32
        scf.yield %b : f32
      } else {
        scf.yield %none : f32
      }
      %w = tensor.extract %weight[%c, %k, %l] : tensor<64x3x3xf32>
      %m = arith.mulf %e, %w : f32
      "bascule.yield"(%m) : (f32) -> ()
    }) {kind = "max", ranges = affine_map<() -> (3, 3)>} : () -> f32
    "bascule.yield"(%s) : (f32) -> ()
  }) {ranges = affine_map<() -> (8, 64, 28, 28)>} : () -> tensor<8x64x28x28xf32>
  return %z : tensor<8x64x28x28xf32>
}

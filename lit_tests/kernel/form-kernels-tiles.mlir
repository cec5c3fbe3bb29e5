// RUN: bascule-opt %s --split-reductions=min-size=256,cache=1024 --canonicalize --form-kernels=min-shared=1 --cse | filecheck %s
// RUN: bascule-run %s --pipeline='split-reductions{min-size=256 cache=1024},canonicalize,form-kernels{min-shared=1},cse,schedule-kernels,order-program,bufferize-kernels,plan-memory'
!image = tensor<2x8x8x64xf32>
!tiles = tensor<32x256xf32>
#tile = affine_map<(d0, d1, d2) -> (d0 * 16 + (d1 floordiv 2) * 4 + d2 floordiv 2)>
#inside = affine_map<(d0, d1, d2) -> ((d0 mod 2) * 128 + (d1 mod 2) * 64 + d2)>

// The gradient of a layer norm comes in tiles, which no dims of its rows count through: both sums of columns are cut as the rows are walked, not
// where tiles end, and all three are one kernel.
// CHECK-LABEL: func.func private @
// CHECK: bufferization.alloc_tensor() : tensor<2x8x8x64xf32>
// CHECK-NEXT: bufferization.alloc_tensor() : tensor<[[CHUNKS:[0-9x]+]]x64xf32>
// CHECK-NEXT: bufferization.alloc_tensor() : tensor<[[CHUNKS]]x64xf32>
// CHECK: "bascule.kernel"() ({
// CHECK: "bascule.foreach"() ({
// CHECK: "bascule.reduce"
// CHECK: "bascule.reduce"
// CHECK: "bascule.reduce"
// CHECK-LABEL: func.func private @
// CHECK-NEXT: bufferization.alloc_tensor() : tensor<64xf32>
// CHECK-NEXT: bufferization.alloc_tensor() : tensor<64xf32>
// CHECK-NOT: bufferization.alloc_tensor
func.func @main(%g: !tiles, %x: !image) -> (!image, tensor<64xf32>, tensor<64xf32>) attributes {bascule.graph} {
  %row = "bascule.compute"() ({
  ^bb0(%n: index, %h: index, %w: index):
    %r = "bascule.reduce"() ({
    ^bb0(%c: index):
      %t = affine.apply #tile(%n, %h, %w)
      %i = affine.apply #inside(%h, %w, %c)
      %a = tensor.extract %g[%t, %i] : !tiles
      %b = tensor.extract %x[%n, %h, %w, %c] : !image
      %ab = arith.mulf %a, %b : f32
      "bascule.yield"(%ab) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (64)>} : () -> f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (2, 8, 8)>} : () -> tensor<2x8x8xf32>
  %dx = "bascule.compute"() ({
  ^bb0(%n: index, %h: index, %w: index, %c: index):
    %t = affine.apply #tile(%n, %h, %w)
    %i = affine.apply #inside(%h, %w, %c)
    %a = tensor.extract %g[%t, %i] : !tiles
    %r = tensor.extract %row[%n, %h, %w] : tensor<2x8x8xf32>
    %d = arith.subf %a, %r : f32
    "bascule.yield"(%d) : (f32) -> ()
  }) {ranges = affine_map<() -> (2, 8, 8, 64)>} : () -> !image
  %dw = "bascule.compute"() ({
  ^bb0(%c: index):
    %r = "bascule.reduce"() ({
    ^bb0(%n: index, %h: index, %w: index):
      %t = affine.apply #tile(%n, %h, %w)
      %i = affine.apply #inside(%h, %w, %c)
      %a = tensor.extract %g[%t, %i] : !tiles
      %b = tensor.extract %x[%n, %h, %w, %c] : !image
      %ab = arith.mulf %a, %b : f32
      "bascule.yield"(%ab) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (2, 8, 8)>} : () -> f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (64)>} : () -> tensor<64xf32>
  %db = "bascule.compute"() ({
  ^bb0(%c: index):
    %r = "bascule.reduce"() ({
    ^bb0(%n: index, %h: index, %w: index):
      %t = affine.apply #tile(%n, %h, %w)
      %i = affine.apply #inside(%h, %w, %c)
      %a = tensor.extract %g[%t, %i] : !tiles
      "bascule.yield"(%a) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (2, 8, 8)>} : () -> f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (64)>} : () -> tensor<64xf32>
  return %dx, %dw, %db : !image, tensor<64xf32>, tensor<64xf32>
}

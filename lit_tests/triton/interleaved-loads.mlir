// Two nibbles of each byte by the neighbours that they multiply: one load reads all of those, and registers are taken apart. Bytes are shifted,
// and widened less a number, four at a time.
// RUN: bascule-opt %s --schedule-kernels=target=cuda --to-triton | filecheck %s
// RUN: bascule-run %s --function=nibbles --interpret-only --pipeline='builtin.module(schedule-kernels{target=cuda})'

// CHECK: "tt.load"
// CHECK: "tt.reshape"(%{{.*}}) : (tensor<1024xf32>) -> tensor<512x2xf32>
// CHECK: "tt.split"
// CHECK: "tt.load"
// CHECK-NOT: "tt.load"
// CHECK: prmt.b32 $0, x, 0x4b000000, 0x7540; sub.f32 $0, $0, 0f4b000008;
// CHECK: shr.u32 $0, $1, 4; and.b32 $0, $0, 0x0f0f0f0f;
// CHECK: "tt.reduce"
func.func private @nibbles(%x: memref<1024xf32>, %w: memref<64x512xui8>, %out: memref<64xf32>) {
  "bascule.kernel"() ({
  ^bb0(%n: index):
    %low = arith.constant 15 : i8
    %four = arith.constant 4 : i8
    %eight = arith.constant 8.0 : f32
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %even = affine.apply affine_map<(d0) -> (d0 * 2)>(%k)
      %odd = affine.apply affine_map<(d0) -> (d0 * 2 + 1)>(%k)
      %a = memref.load %x[%even] : memref<1024xf32>
      %b = memref.load %x[%odd] : memref<1024xf32>
      %c = memref.load %w[%n, %k] : memref<64x512xui8>
      %d = builtin.unrealized_conversion_cast %c : ui8 to i8
      %e = arith.andi %d, %low : i8
      %f = arith.uitofp %e : i8 to f32
      %g = arith.subf %f, %eight : f32
      %h = arith.shrui %d, %four : i8
      %i = arith.uitofp %h : i8 to f32
      %j = arith.subf %i, %eight : f32
      %p = arith.mulf %a, %g : f32
      %q = arith.mulf %b, %j : f32
      %r = arith.addf %p, %q : f32
      "bascule.yield"(%r) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (512)>} : () -> f32
    "bascule.store"(%sum, %out, %n) : (f32, memref<64xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (64)>} : () -> ()
  return
}

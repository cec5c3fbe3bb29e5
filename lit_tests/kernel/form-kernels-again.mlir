// RUN: bascule-opt %s --form-kernels --remarks -o %t.mlir 2>&1 | filecheck %s
// RUN: filecheck %s --check-prefix=KERNELS < %t.mlir
// RUN: bascule-run %s --pipeline='form-kernels,cse,schedule-kernels,order-program,bufferize-kernels,plan-memory'
!table = tensor<64x32xf32>
!heads = tensor<16x64x32xf32>

// A table of angles, by a row's position, that 16 heads read: the kernel of the rows would compute each cosine 16 times. A product is sooner
// computed 16 times than stored.
// KERNELS-LABEL: func.func private @
// KERNELS: math.cos
// KERNELS-LABEL: func.func private @
// KERNELS-NOT: math.cos
// KERNELS: bascule.store
// KERNELS: arith.sitofp
// KERNELS: arith.mulf
// KERNELS: arith.mulf
// KERNELS-NEXT: bascule.store
// KERNELS-NOT: math.cos
// CHECK: not fused with aten.cos.default (model.py:1:0): to compute its elements again costs more than to read them
func.func @main(%x: !heads) -> (!heads, !heads) attributes {bascule.graph} {
  %p = "bascule.compute"() ({
  ^bb0(%i: index):
    %n = arith.index_cast %i : index to i64
    %r = arith.sitofp %n : i64 to f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (64)>} : () -> tensor<64xf32>
  %t = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %a = tensor.extract %p[%i] : tensor<64xf32>
    %n = arith.index_cast %j : index to i64
    %b = arith.sitofp %n : i64 to f32
    %ab = arith.mulf %a, %b : f32
    %r = math.cos %ab : f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (64, 32)>} : () -> !table loc(fused["aten.cos.default", "model.py":1:0])
  %y = "bascule.compute"() ({
  ^bb0(%h: index, %i: index, %j: index):
    %a = tensor.extract %x[%h, %i, %j] : !heads
    %b = tensor.extract %t[%i, %j] : !table
    %r = arith.mulf %a, %b : f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (16, 64, 32)>} : () -> !heads

  // CHECK-NOT: not fused
  %q = "bascule.compute"() ({
  ^bb0(%i: index):
    %n = arith.index_cast %i : index to i64
    %r = arith.sitofp %n : i64 to f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (64)>} : () -> tensor<64xf32>
  %u = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %a = tensor.extract %q[%i] : tensor<64xf32>
    %n = arith.index_cast %j : index to i64
    %b = arith.sitofp %n : i64 to f32
    %ab = arith.mulf %a, %b : f32
    "bascule.yield"(%ab) : (f32) -> ()
  }) {ranges = affine_map<() -> (64, 32)>} : () -> !table
  %z = "bascule.compute"() ({
  ^bb0(%h: index, %i: index, %j: index):
    %a = tensor.extract %x[%h, %i, %j] : !heads
    %b = tensor.extract %u[%i, %j] : !table
    %r = arith.mulf %a, %b : f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (16, 64, 32)>} : () -> !heads
  return %y, %z : !heads, !heads
}

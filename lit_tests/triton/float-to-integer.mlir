// A float that LLVM knows, and that no integer is, is converted by the GPU: as LLVM's own number it would be poison, and not stored.
// RUN: bascule-opt %s --to-triton --emit=ptx --target=sm_90 | filecheck %s

// CHECK: // kernel 'of_nan'
// CHECK: cvt.rzi.s32.f32
// CHECK: st.global
func.func private @of_nan(%x: memref<1024xf32>, %out: memref<1024xi32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %nan = arith.constant 0x7FC00000 : f32
    %e = memref.load %x[%i] : memref<1024xf32>
    %n = arith.fptosi %nan : f32 to i32
    %m = arith.fptosi %e : f32 to i32
    %s = arith.xori %n, %m : i32
    "bascule.store"(%s, %out, %i) : (i32, memref<1024xi32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (1024)>, schedule = #bascule.schedule<{axes = array<i64: 1>, capability = 90 : i64, index_bits = 32 : i64, kind = "pointwise", loops = [], order = array<i64: 0>, stages = 1 : i64, target = "cuda", tile = array<i64: 256>, warps = 1 : i64}>} : () -> ()
  return
}

// CHECK: // kernel 'of_infinity'
// CHECK: cvt.rzi.s64.f64
// CHECK: cvt.rzi.u32.f64
// CHECK: st.global
func.func private @of_infinity(%out: memref<1xi64>, %bits: memref<1xui32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %infinity = arith.constant 0x7FF0000000000000 : f64
    %n = arith.fptosi %infinity : f64 to i64
    "bascule.store"(%n, %out, %i) : (i64, memref<1xi64>, index) -> ()
    %u = arith.fptoui %infinity : f64 to i32
    "bascule.store"(%u, %bits, %i) : (i32, memref<1xui32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (1)>, schedule = #bascule.schedule<{axes = array<i64: 1>, capability = 90 : i64, index_bits = 32 : i64, kind = "pointwise", loops = [], order = array<i64: 0>, stages = 1 : i64, target = "cuda", tile = array<i64: 1>, warps = 1 : i64}>} : () -> ()
  return
}

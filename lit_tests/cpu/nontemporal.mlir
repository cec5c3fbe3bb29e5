// RUN: bascule-opt %s --load-pass=bascule.lowering.cpu.kernels_to_cpu:KernelsToCpu --schedule-kernels=vector-bits=256,cache-bytes=65536 --kernels-to-cpu=vector-bits=256 --split-input-file | filecheck %s

// Whole lines go past the caches where the result starts at one, and other threads see them before they hear of them.
// CHECK-LABEL: func.func private @twice__part0
// CHECK:         %[[ADDRESS:.*]] = llvm.ptrtoint
// CHECK:         %[[INSIDE:.*]] = arith.andi %[[ADDRESS]], %c63_i64
// CHECK:         %[[ALIGNED:.*]] = arith.cmpi eq, %[[INSIDE]], %c0_i64
// CHECK:         scf.if %[[ALIGNED]] {
// CHECK-NEXT:      vector.store %{{.*}} {alignment = 64 : i64, nontemporal = true} : memref<?xf32>, vector<32xf32>
// CHECK-NEXT:    } else {
// CHECK-NEXT:      vector.store %{{.*}} : memref<?xf32>, vector<32xf32>
// CHECK:         llvm.fence seq_cst
func.func private @twice(%x: memref<65536xf32>, %o: memref<65536xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %a = memref.load %x[%i] : memref<65536xf32>
    %b = arith.addf %a, %a : f32
    "bascule.store"(%b, %o, %i) : (f32, memref<65536xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (65536)>} : () -> ()
  return
}

// -----

// What was read is in the caches already.
// CHECK-LABEL: func.func private @in_place__part0
// CHECK-NOT:     nontemporal
// CHECK-NOT:     llvm.fence
// CHECK:         return
func.func private @in_place(%x: memref<65536xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %a = memref.load %x[%i] : memref<65536xf32>
    %b = arith.addf %a, %a : f32
    "bascule.store"(%b, %x, %i) : (f32, memref<65536xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (65536)>} : () -> ()
  return
}

// -----

// Rows of 257 do not start at lines.
// CHECK-LABEL: func.func private @into_wider_rows__part0
// CHECK-NOT:     nontemporal
// CHECK:         return
func.func private @into_wider_rows(%x: memref<256x256xf32>, %o: memref<256x256xf32, strided<[257, 1]>>) {
  "bascule.kernel"() ({
  ^bb0(%i: index, %j: index):
    %a = memref.load %x[%i, %j] : memref<256x256xf32>
    "bascule.store"(%a, %o, %i, %j) : (f32, memref<256x256xf32, strided<[257, 1]>>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (256, 256)>} : () -> ()
  return
}

// RUN: bascule-opt %s --plan-memory=target=cuda | filecheck %s
// RUN: bascule-run %s --interpret-only --pipeline='plan-memory{target=cuda}'
// The arena of a GPU is there where what lies in it is needed: it does not raise a peak before it or after it.
!wide = memref<65536xf32>
!wider = memref<1048576xf32>

#reverse = affine_map<(d0) -> (-d0 + 65535)>
#some = affine_map<(d0) -> (d0 mod 65536)>
func.func private @reverse(%x: !wide, %out: !wide) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %j = affine.apply #reverse(%i)
    %e = memref.load %x[%j] : !wide
    "bascule.store"(%e, %out, %i) : (f32, !wide, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (65536)>} : () -> ()
  return
}
func.func private @widen(%x: !wide, %out: !wider) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %j = affine.apply #some(%i)
    %e = memref.load %x[%j] : !wide
    "bascule.store"(%e, %out, %i) : (f32, !wider, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (1048576)>} : () -> ()
  return
}
func.func private @narrow(%x: !wider, %out: !wide) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %j = affine.apply #reverse(%i)
    %e = memref.load %x[%j] : !wider
    "bascule.store"(%e, %out, %i) : (f32, !wide, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (65536)>} : () -> ()
  return
}

// What is read after the peak lies in an arena that begins after it; the two of the peak are apart, and fewer.
// CHECK-LABEL: func.func @main
// CHECK-SAME: bascule.memory = {apart = 4456448 : i64, arena = 786432 : i64, asked = 5242880 : i64, live = 786432 : i64}
// CHECK: memref.alloc() : memref<65536xf32>
// CHECK: memref.alloc() : memref<1048576xf32>
// CHECK: call @narrow
// CHECK: %[[ARENA:[a-z0-9_]+]] = memref.alloc() {bascule.arena} : memref<786432xi8>
// CHECK: call @reverse
func.func @main(%x: !wide) -> !wide attributes {bascule.graph} {
  %a = memref.alloc() : !wide
  call @reverse(%x, %a) : (!wide, !wide) -> ()
  %b = memref.alloc() : !wider
  call @widen(%a, %b) : (!wide, !wider) -> ()
  memref.dealloc %a : !wide
  %n = memref.alloc() : !wide
  call @narrow(%b, %n) : (!wider, !wide) -> ()
  memref.dealloc %b : !wider
  %c = memref.alloc() : !wide
  call @reverse(%n, %c) : (!wide, !wide) -> ()
  %d = memref.alloc() : !wide
  call @reverse(%c, %d) : (!wide, !wide) -> ()
  %e = memref.alloc() : !wide
  call @reverse(%d, %e) : (!wide, !wide) -> ()
  memref.dealloc %c : !wide
  memref.dealloc %d : !wide
  call @reverse(%e, %n) : (!wide, !wide) -> ()
  memref.dealloc %e : !wide
  return %n : !wide
}

// What is returned is made when the arena has been freed: what is read then is apart.
// CHECK-LABEL: func.func @before
// CHECK-SAME: bascule.memory = {apart = 262144 : i64, arena = 524288 : i64, asked = 786432 : i64, live = 524288 : i64}
// CHECK: %[[ARENA:[a-z0-9_]+]] = memref.alloc() {bascule.arena} : memref<524288xi8>
// CHECK: call @reverse
// CHECK: call @reverse
// CHECK: memref.alloc() : memref<65536xf32>
// CHECK: call @reverse
// CHECK-NEXT: memref.dealloc %[[ARENA]]
// CHECK: memref.alloc() : memref<1048576xf32>
func.func @before(%x: !wide) -> !wider attributes {bascule.graph} {
  %c = memref.alloc() : !wide
  call @reverse(%x, %c) : (!wide, !wide) -> ()
  %d = memref.alloc() : !wide
  call @reverse(%c, %d) : (!wide, !wide) -> ()
  %e = memref.alloc() : !wide
  call @reverse(%d, %e) : (!wide, !wide) -> ()
  memref.dealloc %c : !wide
  memref.dealloc %d : !wide
  %f = memref.alloc() : !wider
  call @widen(%e, %f) : (!wide, !wider) -> ()
  memref.dealloc %e : !wide
  return %f : !wider
}

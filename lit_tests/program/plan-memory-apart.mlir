// RUN: bascule-opt %s --plan-memory | filecheck %s
// RUN: bascule-run %s --interpret-only --pipeline=plan-memory
!wide = memref<65536xf32>

#reverse = affine_map<(d0) -> (-d0 + 65535)>
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

// Most is alive at the end, when the results are there and the intermediate is not: it does not lie in an arena.
// CHECK-LABEL: func.func @main
// CHECK-SAME: bascule.memory = {apart = 262144 : i64, arena = 0 : i64, asked = 262144 : i64, live = 0 : i64}
// CHECK-NOT: bascule.arena
// CHECK: %[[A:[a-z0-9]+]] = memref.alloc() : memref<65536xf32>
// CHECK: call @reverse(%{{[a-z0-9]+}}, %[[A]])
// CHECK: memref.dealloc %[[A]]
func.func @main(%x: !wide) -> (!wide, !wide, !wide) attributes {bascule.graph} {
  %a = memref.alloc() : !wide
  call @reverse(%x, %a) : (!wide, !wide) -> ()
  %b = memref.alloc() : !wide
  call @reverse(%a, %b) : (!wide, !wide) -> ()
  memref.dealloc %a : !wide
  %c = memref.alloc() : !wide
  call @reverse(%b, %c) : (!wide, !wide) -> ()
  %d = memref.alloc() : !wide
  call @reverse(%c, %d) : (!wide, !wide) -> ()
  return %b, %c, %d : !wide, !wide, !wide
}

// The argument is freed after its last use, so that most is alive at the start, the intermediate included: an arena of its size is no loss.
// CHECK-LABEL: func.func @dying
// CHECK-SAME: bascule.memory = {arena = 262144 : i64, asked = 262144 : i64, live = 262144 : i64}
// CHECK: bascule.arena
func.func @dying(%x: !wide {bascule.dies}, %y: !wide {bascule.dies}) -> !wide attributes {bascule.graph} {
  %a = memref.alloc() : !wide
  call @reverse(%x, %a) : (!wide, !wide) -> ()
  call @reverse(%y, %a) : (!wide, !wide) -> ()
  %b = memref.alloc() : !wide
  call @reverse(%a, %b) : (!wide, !wide) -> ()
  memref.dealloc %a : !wide
  return %b : !wide
}

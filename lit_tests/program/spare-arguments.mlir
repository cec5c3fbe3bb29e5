// RUN: bascule-opt %s --spare-arguments | filecheck %s
// RUN: bascule-opt %s --spare-arguments --plan-memory | filecheck %s --check-prefix=PLAN
// RUN: bascule-run %s --interpret-only --pipeline=spare-arguments,plan-memory
// After plan-memory, too, where results are views of the arena: those are left alone.
// RUN: bascule-run %s --interpret-only --pipeline=spare-arguments,plan-memory,spare-arguments

// A large result may lie in the memory of an argument that is spare, if the kernel that makes it reads the argument last, and each of its
// elements before it writes there.

#flip = affine_map<(d0) -> (524287 - d0)>
func.func private @add(%x: memref<524288xf32>, %y: memref<524288xf32>, %out: memref<524288xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %a = memref.load %x[%i] : memref<524288xf32>
    %b = memref.load %y[%i] : memref<524288xf32>
    %c = arith.addf %a, %b : f32
    "bascule.store"(%c, %out, %i) : (f32, memref<524288xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (524288)>} : () -> ()
  return
}

func.func private @turned(%x: memref<524288xf32>, %out: memref<524288xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %j = affine.apply #flip(%i)
    %a = memref.load %x[%j] : memref<524288xf32>
    "bascule.store"(%a, %out, %i) : (f32, memref<524288xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (524288)>} : () -> ()
  return
}

func.func private @small(%x: memref<64xf32>, %out: memref<64xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %a = memref.load %x[%i] : memref<64xf32>
    %b = arith.addf %a, %a : f32
    "bascule.store"(%b, %out, %i) : (f32, memref<64xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (64)>} : () -> ()
  return
}

// The sum lies over %y, of which only that is known; what is returned is made over the intermediate as ever.
// CHECK-LABEL: func.func @main
// CHECK: %[[SUM:.*]] = memref.alloc() {bascule.over = 1 : i64}
// CHECK: call @add(%{{.*}}, %arg1, %[[SUM]])
// PLAN-LABEL: func.func @main
// PLAN-NOT: bascule.arena
// PLAN: memref.alloc() {bascule.over = 1 : i64}
func.func @main(%x: memref<524288xf32>, %y: memref<524288xf32> {bascule.dies}) -> memref<524288xf32> attributes {bascule.graph} {
  %sum = memref.alloc() : memref<524288xf32>
  call @add(%x, %y, %sum) : (memref<524288xf32>, memref<524288xf32>, memref<524288xf32>) -> ()
  %out = memref.alloc() : memref<524288xf32>
  call @turned(%sum, %out) : (memref<524288xf32>, memref<524288xf32>) -> ()
  memref.dealloc %sum : memref<524288xf32>
  return %out : memref<524288xf32>
}

// An element is read after its place was written.
// CHECK-LABEL: func.func @turned_elements
// CHECK-NOT: bascule.over
func.func @turned_elements(%y: memref<524288xf32> {bascule.dies}) -> memref<524288xf32> attributes {bascule.graph} {
  %out = memref.alloc() : memref<524288xf32>
  call @turned(%y, %out) : (memref<524288xf32>, memref<524288xf32>) -> ()
  return %out : memref<524288xf32>
}

// It is needed after.
// CHECK-LABEL: func.func @needed
// CHECK: memref.alloc() : memref
// CHECK: memref.alloc() {bascule.over = 0 : i64}
func.func @needed(%y: memref<524288xf32> {bascule.dies}, %x: memref<524288xf32>) -> (memref<524288xf32>, memref<524288xf32>) attributes {bascule.graph} {
  %first = memref.alloc() : memref<524288xf32>
  call @add(%x, %y, %first) : (memref<524288xf32>, memref<524288xf32>, memref<524288xf32>) -> ()
  %second = memref.alloc() : memref<524288xf32>
  call @add(%x, %y, %second) : (memref<524288xf32>, memref<524288xf32>, memref<524288xf32>) -> ()
  return %first, %second : memref<524288xf32>, memref<524288xf32>
}

// An argument that is not spare, and one that is small.
// CHECK-LABEL: func.func @others
// CHECK-NOT: bascule.over
func.func @others(%x: memref<524288xf32>, %y: memref<524288xf32>, %z: memref<64xf32> {bascule.dies}) -> (memref<524288xf32>, memref<64xf32>) attributes {bascule.graph} {
  %sum = memref.alloc() : memref<524288xf32>
  call @add(%x, %y, %sum) : (memref<524288xf32>, memref<524288xf32>, memref<524288xf32>) -> ()
  %twice = memref.alloc() : memref<64xf32>
  call @small(%z, %twice) : (memref<64xf32>, memref<64xf32>) -> ()
  return %sum, %twice : memref<524288xf32>, memref<64xf32>
}

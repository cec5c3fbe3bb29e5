// RUN: not bascule-opt %s --load-pass=bascule.lowering.cpu.kernels_to_cpu:KernelsToCpu --kernels-to-cpu 2>&1 | filecheck %s
// RUN: not bascule-opt %s --load-pass=bascule.lowering.cpu.kernels_to_cpu:KernelsToCpu --schedule-kernels=target=cuda --kernels-to-cpu 2>&1 | filecheck %s --check-prefix=OTHER
// RUN: sed 's/array<i64: 7>/array<i64>/' %s > %t
// RUN: not bascule-opt %t --load-pass=bascule.lowering.cpu.kernels_to_cpu:KernelsToCpu --kernels-to-cpu 2>&1 | filecheck %s --check-prefix=MEET
// RUN: sed 's/, schedule = #.*}>} :/} :/' %s > %t
// RUN: not bascule-opt %t --load-pass=bascule.lowering.cpu.kernels_to_cpu:KernelsToCpu --kernels-to-cpu 2>&1 | filecheck %s --check-prefix=NONE
// RUN: sed 's/vector = -1/prefetch = 64 : i64, vector = -1/' %s > %t
// RUN: not bascule-opt %t --load-pass=bascule.lowering.cpu.kernels_to_cpu:KernelsToCpu --kernels-to-cpu 2>&1 | filecheck %s --check-prefix=AHEAD

// CHECK: :16:3: error: the schedule of this 'bascule.kernel' has serial points along group 7 of 1
// OTHER: :16:3: error: the schedule of this 'bascule.kernel' is for target 'cuda', not 'cpu'
// MEET: :16:3: error: the schedule of this 'bascule.kernel' shares points among threads that may store to one place
// AHEAD: :16:3: error: the schedule of this 'bascule.kernel' asks for memory ahead of a loop that threads share
// NONE: :16:3: error: this kernel has no schedule
func.func private @k(%x: memref<1000xf32>, %o: memref<10xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %a = memref.load %x[%i] : memref<1000xf32>
    %p = affine.apply affine_map<(d0) -> (d0 floordiv 100)>(%i)
    "bascule.store"(%a, %o, %p) {mode = "add"} : (f32, memref<10xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (1000)>, schedule = #bascule.schedule<{target = "cpu", loops = [], domain = {groups = [array<i64: 0>], vector = -1 : i64, lanes = 1 : i64, blocked = -1 : i64, block = 1 : i64, serial = array<i64: 7>, grain = 1000 : i64}}>} : () -> ()
  return
}

// RUN: bascule-opt %s --load-pass=bascule.lowering.cpu.kernels_to_cpu:KernelsToCpu --pass-pipeline='builtin.module(schedule-kernels{vector-bits=512},kernels-to-cpu{vector-bits=512})' --split-input-file | filecheck %s

// Steps as long as one lane has any left; the others keep what they carry. The lanes at the end of the row that are out of force never step.
// CHECK-LABEL: func.func private @halvings__part0
// CHECK:         scf.while (%[[A:.*]] = %{{.*}}, %[[C:.*]] = %{{.*}}) : (vector<[[W:[0-9]+]]xi64>, vector<[[W]]xi64>)
// CHECK:           %[[MORE:.*]] = arith.cmpi sgt, %[[A]]
// CHECK:           %[[SOME:.*]] = vector.reduction <or>, %[[MORE]]
// CHECK:           scf.condition(%[[SOME]]) %[[C]], %[[A]], %[[C]], %[[MORE]]
// CHECK:         ^bb0(%{{.*}}: vector<[[W]]xi64>, %[[OLDA:.*]]: vector<[[W]]xi64>, %[[OLDC:.*]]: vector<[[W]]xi64>, %[[GO:.*]]: vector<[[W]]xi1>)
// CHECK:           arith.select %[[GO]], %{{.*}}, %[[OLDA]]
// CHECK:           arith.select %[[GO]], %{{.*}}, %[[OLDC]]
// CHECK:         vector.maskedload
// CHECK:         scf.while
// CHECK:           arith.andi
// CHECK:           vector.reduction <or>
func.func private @halvings(%x: memref<1003xi64>, %out: memref<1003xi64>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %zero = arith.constant 0 : i64
    %one = arith.constant 1 : i64
    %e = memref.load %x[%i] : memref<1003xi64>
    %count = scf.while (%a = %e, %c = %zero) : (i64, i64) -> i64 {
      %more = arith.cmpi sgt, %a, %one : i64
      scf.condition(%more) %c : i64
    } do {
    ^bb0(%c: i64):
      %next = arith.addi %c, %one : i64
      %half = arith.shrui %e, %next : i64
      scf.yield %half, %next : i64, i64
    }
    "bascule.store"(%count, %out, %i) : (i64, memref<1003xi64>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (1003)>} : () -> ()
  return
}

// -----

// What is one for all lanes is a loop of scalars, and its division is not made of lanes.
// CHECK-LABEL: func.func private @uniform__part0
// CHECK:         scf.while (%{{.*}} = %{{.*}}) : (i64) -> i64
// CHECK:           arith.remsi %{{.*}}, %{{.*}} : i64
func.func private @uniform(%n: memref<1xi64>, %x: memref<1003xi64>, %out: memref<1003xi64>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %zero = arith.constant 0 : i64
    %seven = arith.constant 7 : i64
    %eleven = arith.constant 11 : i64
    %c0 = arith.constant 0 : index
    %first = memref.load %n[%c0] : memref<1xi64>
    %e = memref.load %x[%i] : memref<1003xi64>
    %last = scf.while (%a = %first) : (i64) -> i64 {
      %r = arith.remsi %a, %seven : i64
      %more = arith.cmpi ne, %r, %zero : i64
      scf.condition(%more) %a : i64
    } do {
    ^bb0(%a: i64):
      %next = arith.addi %a, %eleven : i64
      scf.yield %next : i64
    }
    %sum = arith.addi %e, %last : i64
    "bascule.store"(%sum, %out, %i) : (i64, memref<1003xi64>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (1003)>} : () -> ()
  return
}

// RUN: bascule-opt %s --schedule-kernels=target=cuda --to-triton --split-input-file | filecheck %s
// RUN: bascule-opt %s --schedule-kernels=target=cuda | filecheck %s --check-prefix=SCHEDULE

// One warp a program: it waits for the slowest of its lanes only.
// SCHEDULE: tile = array<i64: 64>, warps = 1

// As many steps as the longest of a program's lanes takes; lanes that are done keep what they carry, and what is at no point never starts.
// CHECK-LABEL: "tt.func"
// CHECK: %[[HERE:.*]] = arith.cmpi slt, %{{.*}}, %{{.*}} : tensor<[[N:[0-9]+]]xi32>
// CHECK: %[[END:.*]]:4 = scf.while (%[[A:.*]] = %{{.*}}, %[[C:.*]] = %{{.*}}) : (tensor<[[N]]xi64>, tensor<[[N]]xi64>) -> (tensor<[[N]]xi64>, tensor<[[N]]xi64>, tensor<[[N]]xi64>, tensor<[[N]]xi1>)
// CHECK: %[[MORE:.*]] = arith.cmpi sgt, %[[A]], %{{.*}}
// CHECK: %[[LANES:.*]] = arith.andi %[[MORE]], %[[HERE]]
// CHECK: "tt.reduce"
// CHECK: scf.condition(%{{.*}}) %[[C]], %[[A]], %[[C]], %[[LANES]]
// CHECK: ^bb0(%{{.*}}: tensor<[[N]]xi64>, %[[OLDA:.*]]: tensor<[[N]]xi64>, %[[OLDC:.*]]: tensor<[[N]]xi64>, %[[GO:.*]]: tensor<[[N]]xi1>)
// CHECK: arith.select %[[GO]], %{{.*}}, %[[OLDA]]
// CHECK: arith.select %[[GO]], %{{.*}}, %[[OLDC]]
// CHECK: scf.yield
// CHECK: "tt.store"(%{{.*}}, %[[END]]#0
func.func private @halvings(%x: memref<1000xi64>, %out: memref<1000xi64>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %zero = arith.constant 0 : i64
    %one = arith.constant 1 : i64
    %e = memref.load %x[%i] : memref<1000xi64>
    %count = scf.while (%a = %e, %c = %zero) : (i64, i64) -> i64 {
      %more = arith.cmpi sgt, %a, %one : i64
      scf.condition(%more) %c : i64
    } do {
    ^bb0(%c: i64):
      %next = arith.addi %c, %one : i64
      %half = arith.shrui %e, %next : i64
      scf.yield %half, %next : i64, i64
    }
    "bascule.store"(%count, %out, %i) : (i64, memref<1000xi64>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (1000)>} : () -> ()
  return
}

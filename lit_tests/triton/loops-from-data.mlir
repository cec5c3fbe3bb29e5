// RUN: bascule-opt %s --schedule-kernels=target=cuda --to-triton --split-input-file | filecheck %s
// RUN: bascule-opt %s --schedule-kernels=target=cuda --split-input-file | filecheck %s --check-prefix=SCHEDULE

// A row a program: its loop is as long as its own data says, without a condition.

// SCHEDULE: axes = array<i64: 1, 1>
// SCHEDULE-SAME: tile = array<i64: 1, 1024>
// CHECK-LABEL: "tt.func"
// CHECK: %[[FIRST:.*]] = "tt.load"(%{{.*}}) {{.*}} -> i32
// CHECK: %[[LAST:.*]] = "tt.load"(%{{.*}}) {{.*}} -> i32
// CHECK: %[[COUNT:.*]] = arith.subi %[[LAST]], %[[FIRST]] : i32
// CHECK: scf.for %[[STEP:.*]] = %{{.*}} to %[[COUNT]] step %{{.*}} iter_args(%[[SUM:.*]] = %{{.*}}) -> (tensor<1024xf32>)
// CHECK: %[[AT:.*]] = arith.addi %[[FIRST]], %[[STEP]] : i32
// CHECK: arith.addf %[[SUM]], %{{.*}} : tensor<1024xf32>
// CHECK-NOT: arith.select
// CHECK: "tt.store"
func.func private @rows(%starts: memref<101xi32>, %x: memref<5000x1024xf32>, %out: memref<100x1024xf32>) {
  "bascule.kernel"() ({
  ^bb0(%v: index, %j: index):
    %zero = arith.constant 0.0 : f32
    %one = arith.constant 1 : i32
    %next = affine.apply affine_map<(d0) -> (d0 + 1)>(%v)
    %first = memref.load %starts[%v] : memref<101xi32>
    %last = memref.load %starts[%next] : memref<101xi32>
    %sum = scf.for %k = %first to %last step %one iter_args(%s = %zero) -> (f32) : i32 {
      %at = arith.index_cast %k : i32 to index
      %e = memref.load %x[%at, %j] : memref<5000x1024xf32>
      %t = arith.addf %s, %e : f32
      scf.yield %t : f32
    }
    "bascule.store"(%sum, %out, %v, %j) : (f32, memref<100x1024xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (100, 1024)>} : () -> ()
  return
}

// -----

// Short rows: several in a program, in as many steps as the longest has. What is beyond the last row has none, and lanes that have no more
// keep their sum.

// SCHEDULE: tile = array<i64: 8, 16>
// CHECK-LABEL: "tt.func"
// CHECK: %[[HERE:.*]] = arith.cmpi slt, %{{.*}}, %{{.*}} : tensor<8xi32>
// CHECK: %[[COUNT:.*]] = arith.select %[[HERE]], %{{.*}}, %{{.*}} : tensor<8xi1>, tensor<8xi32>
// CHECK: %[[LONGEST:.*]] = "tt.reduce"(%[[COUNT]])
// CHECK: arith.maxsi
// CHECK: scf.for %[[STEP:.*]] = %{{.*}} to %[[LONGEST]] step %{{.*}} iter_args(%[[SUM:.*]] = %{{.*}}) -> (tensor<8x16xf32>)
// CHECK: arith.cmpi slt, %{{.*}}, %[[COUNT]] : tensor<8xi32>
// CHECK: %[[MORE:.*]] = arith.addf %[[SUM]]
// CHECK: %[[KEPT:.*]] = arith.select %{{.*}}, %[[MORE]], %[[SUM]]
// CHECK: scf.yield %[[KEPT]]
func.func private @short(%starts: memref<101xi32>, %x: memref<5000x16xf32>, %out: memref<100x16xf32>) {
  "bascule.kernel"() ({
  ^bb0(%v: index, %j: index):
    %zero = arith.constant 0.0 : f32
    %one = arith.constant 1 : i32
    %next = affine.apply affine_map<(d0) -> (d0 + 1)>(%v)
    %first = memref.load %starts[%v] : memref<101xi32>
    %last = memref.load %starts[%next] : memref<101xi32>
    %sum = scf.for %k = %first to %last step %one iter_args(%s = %zero) -> (f32) : i32 {
      %at = arith.index_cast %k : i32 to index
      %e = memref.load %x[%at, %j] : memref<5000x16xf32>
      %t = arith.addf %s, %e : f32
      scf.yield %t : f32
    }
    "bascule.store"(%sum, %out, %v, %j) : (f32, memref<100x16xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (100, 16)>} : () -> ()
  return
}

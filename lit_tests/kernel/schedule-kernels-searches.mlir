// RUN: bascule-opt %s '--pass-pipeline=builtin.module(schedule-kernels{target=cuda})' | filecheck %s

// Searches: read after read at places that the one before decides. Many warps wait at once, and a thread has few of them.

// CHECK-LABEL: func.func private @alone(
// CHECK: kind = "pointwise"
// CHECK-SAME: tile = array<i64: 256>
// CHECK-SAME: warps = 4
func.func private @alone(%keys: tensor<64xi32>) -> tensor<100000xi32> {
  %out = bufferization.alloc_tensor() : tensor<100000xi32>
  "bascule.kernel"() ({
  ^bb0(%v: index):
    %own = arith.index_cast %v : index to i32
    %found0 = arith.constant 0 : index
    %ahead0 = arith.constant 31 : index
    %step0 = arith.constant 32 : index
    %place0 = arith.addi %found0, %ahead0 : index
    %key0 = tensor.extract %keys[%place0] : tensor<64xi32>
    %less0 = arith.cmpi slt, %key0, %own : i32
    %next0 = arith.addi %found0, %step0 : index
    %found1 = arith.select %less0, %next0, %found0 : index
    %ahead1 = arith.constant 15 : index
    %step1 = arith.constant 16 : index
    %place1 = arith.addi %found1, %ahead1 : index
    %key1 = tensor.extract %keys[%place1] : tensor<64xi32>
    %less1 = arith.cmpi slt, %key1, %own : i32
    %next1 = arith.addi %found1, %step1 : index
    %found2 = arith.select %less1, %next1, %found1 : index
    %ahead2 = arith.constant 7 : index
    %step2 = arith.constant 8 : index
    %place2 = arith.addi %found2, %ahead2 : index
    %key2 = tensor.extract %keys[%place2] : tensor<64xi32>
    %less2 = arith.cmpi slt, %key2, %own : i32
    %next2 = arith.addi %found2, %step2 : index
    %found3 = arith.select %less2, %next2, %found2 : index
    %ahead3 = arith.constant 3 : index
    %step3 = arith.constant 4 : index
    %place3 = arith.addi %found3, %ahead3 : index
    %key3 = tensor.extract %keys[%place3] : tensor<64xi32>
    %less3 = arith.cmpi slt, %key3, %own : i32
    %next3 = arith.addi %found3, %step3 : index
    %found4 = arith.select %less3, %next3, %found3 : index
    %ahead4 = arith.constant 1 : index
    %step4 = arith.constant 2 : index
    %place4 = arith.addi %found4, %ahead4 : index
    %key4 = tensor.extract %keys[%place4] : tensor<64xi32>
    %less4 = arith.cmpi slt, %key4, %own : i32
    %next4 = arith.addi %found4, %step4 : index
    %found5 = arith.select %less4, %next4, %found4 : index
    %ahead5 = arith.constant 0 : index
    %step5 = arith.constant 1 : index
    %place5 = arith.addi %found5, %ahead5 : index
    %key5 = tensor.extract %keys[%place5] : tensor<64xi32>
    %less5 = arith.cmpi slt, %key5, %own : i32
    %next5 = arith.addi %found5, %step5 : index
    %found6 = arith.select %less5, %next5, %found5 : index
    %count = arith.index_cast %found6 : index to i32
    "bascule.store"(%count, %out, %v) : (i32, tensor<100000xi32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (100000)>} : () -> ()
  return %out : tensor<100000xi32>
}

// What is searched does not vary with the point, but what is looked for does: no program reads once for many points.

// CHECK-LABEL: func.func private @in_a_sum(
// CHECK: axes = array<i64: 1>
// CHECK-SAME: kind = "column"
// CHECK-SAME: step = 32
// CHECK-SAME: tile = array<i64: 16>
// CHECK-SAME: warps = 4
func.func private @in_a_sum(%keys: tensor<32x64xi32>, %x: tensor<2048xi32>) -> tensor<2048xi32> {
  %out = bufferization.alloc_tensor() : tensor<2048xi32>
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %own = tensor.extract %x[%i] : tensor<2048xi32>
    %sum = "bascule.reduce"() ({
    ^bb0(%t: index):
      %found0 = arith.constant 0 : index
      %ahead0 = arith.constant 31 : index
      %step0 = arith.constant 32 : index
      %place0 = arith.addi %found0, %ahead0 : index
      %key0 = tensor.extract %keys[%t, %place0] : tensor<32x64xi32>
      %less0 = arith.cmpi slt, %key0, %own : i32
      %next0 = arith.addi %found0, %step0 : index
      %found1 = arith.select %less0, %next0, %found0 : index
      %ahead1 = arith.constant 15 : index
      %step1 = arith.constant 16 : index
      %place1 = arith.addi %found1, %ahead1 : index
      %key1 = tensor.extract %keys[%t, %place1] : tensor<32x64xi32>
      %less1 = arith.cmpi slt, %key1, %own : i32
      %next1 = arith.addi %found1, %step1 : index
      %found2 = arith.select %less1, %next1, %found1 : index
      %ahead2 = arith.constant 7 : index
      %step2 = arith.constant 8 : index
      %place2 = arith.addi %found2, %ahead2 : index
      %key2 = tensor.extract %keys[%t, %place2] : tensor<32x64xi32>
      %less2 = arith.cmpi slt, %key2, %own : i32
      %next2 = arith.addi %found2, %step2 : index
      %found3 = arith.select %less2, %next2, %found2 : index
      %ahead3 = arith.constant 3 : index
      %step3 = arith.constant 4 : index
      %place3 = arith.addi %found3, %ahead3 : index
      %key3 = tensor.extract %keys[%t, %place3] : tensor<32x64xi32>
      %less3 = arith.cmpi slt, %key3, %own : i32
      %next3 = arith.addi %found3, %step3 : index
      %found4 = arith.select %less3, %next3, %found3 : index
      %ahead4 = arith.constant 1 : index
      %step4 = arith.constant 2 : index
      %place4 = arith.addi %found4, %ahead4 : index
      %key4 = tensor.extract %keys[%t, %place4] : tensor<32x64xi32>
      %less4 = arith.cmpi slt, %key4, %own : i32
      %next4 = arith.addi %found4, %step4 : index
      %found5 = arith.select %less4, %next4, %found4 : index
      %ahead5 = arith.constant 0 : index
      %step5 = arith.constant 1 : index
      %place5 = arith.addi %found5, %ahead5 : index
      %key5 = tensor.extract %keys[%t, %place5] : tensor<32x64xi32>
      %less5 = arith.cmpi slt, %key5, %own : i32
      %next5 = arith.addi %found5, %step5 : index
      %found6 = arith.select %less5, %next5, %found5 : index
      %count = arith.index_cast %found6 : index to i32
      "bascule.yield"(%count) : (i32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (32)>} : () -> i32
    "bascule.store"(%sum, %out, %i) : (i32, tensor<2048xi32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (2048)>} : () -> ()
  return %out : tensor<2048xi32>
}

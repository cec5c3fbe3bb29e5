// RUN: bascule-opt %s --gather-scatters=target=cuda --split-input-file | filecheck %s
// RUN: bascule-opt %s --gather-scatters=target=cuda,always=true --split-input-file | filecheck %s --check-prefix=ALWAYS
// RUN: bascule-opt %s --gather-scatters=always=true --split-input-file | filecheck %s --check-prefix=CPU

// The gradient of a relative position bias: what the points add is a sum over the batch, which is computed once, heads first as memory lies;
// each row then sums what is its own, and zero for the rest.

#table = affine_map<() -> (32, 8)>

// CPU-LABEL: func.func @bias
// CPU: bascule.scatter
// CHECK-LABEL: func.func @bias
// CHECK: "bascule.yield"(%cst)
// CHECK: [[VALUES:%[0-9]+]] = "bascule.compute"
// CHECK-NEXT: ^bb0([[HEAD:%[a-z0-9]+]]: index, [[I:%[a-z0-9]+]]: index, [[J:%[a-z0-9]+]]: index):
// CHECK: "bascule.reduce"
// CHECK-NEXT: ^bb0([[B:%[a-z0-9]+]]: index):
// CHECK-NEXT: tensor.extract %arg0{{\[}}[[B]], [[HEAD]], [[I]], [[J]]]
// CHECK: -> tensor<8x512x512xf32>
// CHECK: "bascule.compute"
// CHECK-NEXT: ^bb0([[ROW:%[a-z0-9]+]]: index, [[COLUMN:%[a-z0-9]+]]: index):
// CHECK: "bascule.reduce"
// CHECK-NEXT: ^bb0([[P:%[a-z0-9]+]]: index, [[Q:%[a-z0-9]+]]: index):
// CHECK: [[BUCKET:%[a-z0-9_]+]] = tensor.extract %arg1{{\[}}[[P]], [[Q]]]
// CHECK: [[TO:%[0-9]+]] = arith.index_cast [[BUCKET]]
// CHECK: [[OWN:%[0-9]+]] = arith.cmpi eq, [[TO]], [[ROW]] : index
// CHECK: [[VALUE:%[a-z0-9_]+]] = tensor.extract [[VALUES]]{{\[}}[[COLUMN]], [[P]], [[Q]]]
// CHECK: arith.select [[OWN]], [[VALUE]], %cst{{.*}} : f32
// CHECK: kind = "sum", ranges = #{{.*}}} : () -> f32
// CHECK: bascule.remarks = [{{.*}}decision = "as sums of 32 rows", kind = "passed", op = "bascule.scatter", pass = "gather-scatters", reason = "faster than atomics by about 1963 MB of memory traffic"}]
// CHECK-NOT: bascule.scatter
func.func @bias(%g: tensor<16x8x512x512xf32>, %i: tensor<512x512xi64>) -> tensor<32x8xf32> attributes {bascule.graph} {
  %zero = "bascule.compute"() ({
  ^bb0(%v: index, %j: index):
    %0 = arith.constant 0.0 : f32
    "bascule.yield"(%0) : (f32) -> ()
  }) {ranges = #table} : () -> tensor<32x8xf32>
  %sums = "bascule.scatter"(%zero) ({
  ^bb0(%p: index, %q: index, %h: index, %dest: tensor<32x8xf32>):
    %bucket = tensor.extract %i[%p, %q] : tensor<512x512xi64>
    %row = arith.index_cast %bucket : i64 to index
    %value = "bascule.reduce"() ({
    ^bb0(%b: index):
      %e = tensor.extract %g[%b, %h, %p, %q] : tensor<16x8x512x512xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (16)>} : () -> f32
    "bascule.store"(%value, %dest, %row, %h) {mode = "add"} : (f32, tensor<32x8xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (512, 512, 8)>} : (tensor<32x8xf32>) -> tensor<32x8xf32>
  return %sums : tensor<32x8xf32>
}

// -----

// Counts: one number a row. The init is in memory.

// CHECK-LABEL: func.func @counts
// CHECK-NOT: bascule.scatter
// CHECK: "bascule.compute"
// CHECK-NEXT: ^bb0([[ROW:%[a-z0-9]+]]: index):
// CHECK: [[TOTAL:%[0-9]+]] = "bascule.reduce"
// CHECK: arith.select %{{.*}}, %c1_i64{{.*}}, %c0_i64{{.*}} : i64
// CHECK: [[START:%[a-z0-9_]+]] = tensor.extract %arg0{{\[}}[[ROW]]]
// CHECK: arith.addi [[START]], [[TOTAL]] : i64
func.func @counts(%x: tensor<64xi64>, %i: tensor<1000000xi64>) -> tensor<64xi64> attributes {bascule.graph} {
  %sums = "bascule.scatter"(%x) ({
  ^bb0(%p: index, %dest: tensor<64xi64>):
    %bin = tensor.extract %i[%p] : tensor<1000000xi64>
    %row = arith.index_cast %bin : i64 to index
    %one = arith.constant 1 : i64
    "bascule.store"(%one, %dest, %row) {mode = "add"} : (i64, tensor<64xi64>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (1000000)>} : (tensor<64xi64>) -> tensor<64xi64>
  return %sums : tensor<64xi64>
}

// -----

// Many rows: additions to memory meet seldom. With `always`: a padding index adds zero.

// CHECK-LABEL: func.func @many
// CHECK: bascule.scatter
// ALWAYS-LABEL: func.func @many
// ALWAYS: [[PADDING:%[0-9]+]] = arith.cmpi eq, %{{.*}}, %c7_i64{{.*}} : i64
// ALWAYS: [[OWN:%[0-9]+]] = arith.cmpi eq, %{{.*}}, %{{.*}} : index
// ALWAYS: [[KEPT:%[0-9]+]] = arith.select [[PADDING]], %cst{{.*}}, %{{.*}} : f32
// ALWAYS: arith.select [[OWN]], [[KEPT]], %cst{{.*}} : f32
// ALWAYS: bascule.remarks = [{{.*}}decision = "as sums of 5000 rows", kind = "passed", op = "bascule.scatter", pass = "gather-scatters", reason = ""}]
func.func @many(%x: tensor<5000x64xf32>, %g: tensor<8192x64xf32>, %i: tensor<8192xi64>) -> tensor<5000x64xf32> attributes {bascule.graph} {
  %sums = "bascule.scatter"(%x) ({
  ^bb0(%p: index, %j: index, %dest: tensor<5000x64xf32>):
    %word = tensor.extract %i[%p] : tensor<8192xi64>
    %row = arith.index_cast %word : i64 to index
    %e = tensor.extract %g[%p, %j] : tensor<8192x64xf32>
    %seven = arith.constant 7 : i64
    %0 = arith.constant 0.0 : f32
    %padding = arith.cmpi eq, %word, %seven : i64
    %value = arith.select %padding, %0, %e : f32
    "bascule.store"(%value, %dest, %row, %j) {mode = "add"} : (f32, tensor<5000x64xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (8192, 64)>} : (tensor<5000x64xf32>) -> tensor<5000x64xf32>
  return %sums : tensor<5000x64xf32>
}

// -----

// How many points there are is not known, or what is written is not added: left, always.

#vector = #bascule.layout<affine_map<(d0) -> (d0)>>

// ALWAYS-LABEL: func.func @dynamic
// ALWAYS: bascule.scatter
func.func @dynamic(%n: index, %x: tensor<8xf32>, %i: tensor<?xi64, #vector> {bascule.shape = affine_map<()[s0] -> (s0)>}) -> tensor<8xf32>
    attributes {bascule.graph, bascule.symbols = ["s0"]} {
  %sums = "bascule.scatter"(%x) ({
  ^bb0(%p: index, %dest: tensor<8xf32>):
    %bin = tensor.extract %i[%p] : tensor<?xi64, #vector>
    %row = arith.index_cast %bin : i64 to index
    %one = arith.constant 1.0 : f32
    "bascule.store"(%one, %dest, %row) {mode = "add"} : (f32, tensor<8xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<()[s0] -> (s0)>} : (tensor<8xf32>) -> tensor<8xf32>
  return %sums : tensor<8xf32>
}

// -----

// ALWAYS-LABEL: func.func @largest
// ALWAYS: bascule.scatter
func.func @largest(%x: tensor<8xf32>, %v: tensor<100000xf32>, %i: tensor<100000xi64>) -> tensor<8xf32> attributes {bascule.graph} {
  %most = "bascule.scatter"(%x) ({
  ^bb0(%p: index, %dest: tensor<8xf32>):
    %bin = tensor.extract %i[%p] : tensor<100000xi64>
    %row = arith.index_cast %bin : i64 to index
    %e = tensor.extract %v[%p] : tensor<100000xf32>
    "bascule.store"(%e, %dest, %row) {mode = "max"} : (f32, tensor<8xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (100000)>} : (tensor<8xf32>) -> tensor<8xf32>
  return %most : tensor<8xf32>
}

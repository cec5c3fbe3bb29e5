// RUN: bascule-opt %s --split-input-file --form-kernels --schedule-kernels | filecheck %s
// RUN: bascule-opt %s --split-input-file --form-kernels --schedule-kernels=vector-bits=512 | filecheck %s --check-prefix=WIDE
// RUN: bascule-opt %s --split-input-file --form-kernels --schedule-kernels --schedule-kernels='keep vector-bits=512' | filecheck %s

// Rows that follow each other in memory are walked as one; lanes run along memory, several registers of them.
// CHECK: domain = {block = 8192 : i64, blocked = 0 : i64, grain = {{.*}}groups = [array<i64: 0, 1>], lanes = 32 : i64, serial = array<i64>, vector = 0 : i64}, loops = []
// WIDE: lanes = 64 : i64
func.func @pointwise(%x: tensor<64x512xf32>) -> tensor<64x512xf32> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %x[%i, %j] : tensor<64x512xf32>
    %r = math.exp %e : f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (64, 512)>} : () -> tensor<64x512xf32>
  return %0 : tensor<64x512xf32>
}

// -----

// Two directions: what is read along the other one comes as tiles; as squares in registers where a row of one is a cache line.
// CHECK: domain = {across = 0 : i64, {{.*}}groups = [array<i64: 0>, array<i64: 1>], lanes = 32 : i64, rows = 32 : i64, {{.*}}tile = "scratch", vector = 1 : i64
// WIDE: domain = {across = 0 : i64, {{.*}}lanes = 16 : i64, rows = 16 : i64, {{.*}}tile = "registers", vector = 1 : i64
func.func @transposed(%x: tensor<512x64xf32>) -> tensor<64x512xf32> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %x[%j, %i] : tensor<512x64xf32>
    "bascule.yield"(%e) : (f32) -> ()
  }) {ranges = affine_map<() -> (64, 512)>} : () -> tensor<64x512xf32>
  return %0 : tensor<64x512xf32>
}

// -----

// A reduction along memory: the loop inside has the lanes, and asks for the rows that follow.
// CHECK: domain = {{.*}}lanes = 1 : i64, {{.*}}vector = -1 : i64}, loops = [{groups = [array<i64: 0>], lanes = 16 : i64, prefetch = 8192 : i64, vector = 0 : i64}]
func.func @rows(%x: tensor<64x512xf64>) -> tensor<64xf64> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index):
    %r = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %x[%i, %k] : tensor<64x512xf64>
      "bascule.yield"(%e) : (f64) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (512)>} : () -> f64
    "bascule.yield"(%r) : (f64) -> ()
  }) {ranges = affine_map<() -> (64)>} : () -> tensor<64xf64>
  return %0 : tensor<64xf64>
}

// -----

// A reduction across memory: the columns are the lanes, as many as have their sums in half of all registers.
// CHECK: domain = {block = 64 : i64, {{.*}}lanes = 64 : i64, {{.*}}vector = 0 : i64}, loops = [{groups = [array<i64: 0>], lanes = 1 : i64, vector = -1 : i64}]
// WIDE: domain = {block = 128 : i64
func.func @columns(%x: tensor<64x512xf32>) -> tensor<512xf32> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index):
    %r = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %x[%k, %i] : tensor<64x512xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (64)>} : () -> f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (512)>} : () -> tensor<512xf32>
  return %0 : tensor<512xf32>
}

// -----

// Rows added at places that come from data may meet, so they go in order; elements of one row do not.
// CHECK: serial = array<i64: 0>, vector = 1 : i64
func.func @scatter(%x: tensor<64x512xf32>, %i: tensor<64xi64>, %y: tensor<9x512xf32>) -> tensor<9x512xf32> attributes {bascule.graph} {
  %0 = "bascule.scatter"(%y) ({
  ^bb0(%n: index, %j: index, %out: tensor<9x512xf32>):
    %l = tensor.extract %i[%n] : tensor<64xi64>
    %p = arith.index_cast %l : i64 to index
    %e = tensor.extract %x[%n, %j] : tensor<64x512xf32>
    "bascule.store"(%e, %out, %p, %j) {mode = "add"} : (f32, tensor<9x512xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (64, 512)>} : (tensor<9x512xf32>) -> tensor<9x512xf32>
  return %0 : tensor<9x512xf32>
}

// -----

// Each element at a place of its own: no lanes pay there. A tile is a run of a row, for all rows in order, and no walk down a column.
// CHECK: domain = {block = 64 : i64, blocked = 1 : i64, {{.*}}lanes = 1 : i64, serial = array<i64: 0>, vector = -1 : i64
func.func @scattered(%x: tensor<64x512xf32>, %i: tensor<64x512xi64>, %y: tensor<9x512xf32>) -> tensor<9x512xf32> attributes {bascule.graph} {
  %0 = "bascule.scatter"(%y) ({
  ^bb0(%n: index, %j: index, %out: tensor<9x512xf32>):
    %l = tensor.extract %i[%n, %j] : tensor<64x512xi64>
    %p = arith.index_cast %l : i64 to index
    %e = tensor.extract %x[%n, %j] : tensor<64x512xf32>
    "bascule.store"(%e, %out, %p, %j) {mode = "add"} : (f32, tensor<9x512xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (64, 512)>} : (tensor<9x512xf32>) -> tensor<9x512xf32>
  return %0 : tensor<9x512xf32>
}

// -----

// Two reductions over one row run in one loop, the second inside the first. The point itself is one: threads share the reduction.
// CHECK: domain = {groups = [], lanes = 1 : i64, vector = -1 : i64}, loops = [{block = 32768 : i64, {{.*}}vector = 0 : i64}, {joins = 0 : i64}]
func.func private @sums(%x: tensor<100000xf32>) -> (tensor<f32>, tensor<f32>) {
  %a = bufferization.alloc_tensor() : tensor<f32>
  %b = bufferization.alloc_tensor() : tensor<f32>
  "bascule.kernel"() ({
    %s = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %x[%k] : tensor<100000xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (100000)>} : () -> f32
    %m = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %x[%k] : tensor<100000xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "max", ranges = affine_map<() -> (100000)>} : () -> f32
    "bascule.store"(%s, %a) : (f32, tensor<f32>) -> ()
    "bascule.store"(%m, %b) : (f32, tensor<f32>) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> ()>} : () -> ()
  return %a, %b : tensor<f32>, tensor<f32>
}

// -----

// Not of two tensors, and not where the next row is not what follows in memory; what every row reads again does not count.
// CHECK: loops = [{groups = [array<i64: 0>], lanes = {{[0-9]+}} : i64, vector = 0 : i64}]
func.func @two(%x: tensor<64x512xf32>, %y: tensor<64x512xf32>, %w: tensor<512xf32>) -> tensor<64xf32> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index):
    %r = "bascule.reduce"() ({
    ^bb0(%k: index):
      %a = tensor.extract %x[%i, %k] : tensor<64x512xf32>
      %b = tensor.extract %y[%i, %k] : tensor<64x512xf32>
      %c = tensor.extract %w[%k] : tensor<512xf32>
      %ab = arith.mulf %a, %b : f32
      %abc = arith.mulf %ab, %c : f32
      "bascule.yield"(%abc) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (512)>} : () -> f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (64)>} : () -> tensor<64xf32>
  return %0 : tensor<64xf32>
}

// -----

// CHECK: loops = [{groups = [array<i64: 0>], lanes = {{[0-9]+}} : i64, vector = 0 : i64}]
func.func @apart(%x: tensor<64x4x512xf32>, %w: tensor<512xf32>) -> tensor<64xf32> attributes {bascule.graph} {
  %c1 = arith.constant 1 : index
  %0 = "bascule.compute"() ({
  ^bb0(%i: index):
    %r = "bascule.reduce"() ({
    ^bb0(%k: index):
      %a = tensor.extract %x[%i, %c1, %k] : tensor<64x4x512xf32>
      %b = tensor.extract %w[%k] : tensor<512xf32>
      %ab = arith.mulf %a, %b : f32
      "bascule.yield"(%ab) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (512)>} : () -> f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (64)>} : () -> tensor<64xf32>
  return %0 : tensor<64xf32>
}

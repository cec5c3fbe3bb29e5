// RUN: bascule-opt %s --split-input-file --form-kernels --schedule-kernels | filecheck %s
// RUN: bascule-opt %s --split-input-file --form-kernels --schedule-kernels=vector-bits=512 | filecheck %s --check-prefix=WIDE

// Points along memory are the lanes of a vector; without a loop inside, the domain is "pointwise".
// CHECK: kind = "pointwise", {{.*}}tile = array<i64: 0, 0>, unroll = 4 : i64, vector = 8 : i64, vector_dim = 1 : i64
// WIDE: vector = 16 : i64
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

// Two directions: tiles.
// CHECK: kind = "pointwise", {{.*}}tile = array<i64: 32, 32>, {{.*}}vector_dim = 1 : i64
func.func @transposed(%x: tensor<512x64xf32>) -> tensor<64x512xf32> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %x[%j, %i] : tensor<512x64xf32>
    "bascule.yield"(%e) : (f32) -> ()
  }) {ranges = affine_map<() -> (64, 512)>} : () -> tensor<64x512xf32>
  return %0 : tensor<64x512xf32>
}

// -----

// A reduction along memory: the loop inside has the lanes.
// CHECK: kind = "row", loops = array<i64: 0>, {{.*}}vector = 4 : i64, vector_dim = -1 : i64
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

// A reduction across memory: the columns are the lanes.
// CHECK: kind = "column", loops = array<i64: -1>, {{.*}}vector_dim = 0 : i64
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
// CHECK: grain = 0 : i64, kind = "scatter", {{.*}}serial = true, {{.*}}vector = 8 : i64, vector_dim = 1 : i64
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

// Large enough for several tasks.
// CHECK: grain = 32768 : i64
func.func @large(%x: tensor<1048576xf32>) -> tensor<1048576xf32> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index):
    %e = tensor.extract %x[%i] : tensor<1048576xf32>
    %r = arith.negf %e : f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (1048576)>} : () -> tensor<1048576xf32>
  return %0 : tensor<1048576xf32>
}

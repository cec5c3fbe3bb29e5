// RUN: bascule-opt %s --split-input-file --split-reductions | filecheck %s

// Sums of columns of what waits for the columns' largest: one kernel walks down a few columns several times.
// CHECK-LABEL: func.func @near
// CHECK-NOT: bascule.chunks
func.func @near(%x: tensor<2048x1024xf32>) -> (tensor<2048x1024xf32>, tensor<1x1024xf32>) attributes {bascule.graph} {
  %c0 = arith.constant 0 : index
  %0 = "bascule.compute"() ({
  ^bb0(%u: index, %j: index):
    %m = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %x[%k, %j] : tensor<2048x1024xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "max", ranges = affine_map<() -> (2048)>} : () -> f32
    "bascule.yield"(%m) : (f32) -> ()
  }) {ranges = affine_map<() -> (1, 1024)>} : () -> tensor<1x1024xf32>
  %1 = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %x[%i, %j] : tensor<2048x1024xf32>
    %m = tensor.extract %0[%c0, %j] : tensor<1x1024xf32>
    %d = arith.subf %e, %m : f32
    %p = math.exp %d : f32
    "bascule.yield"(%p) : (f32) -> ()
  }) {ranges = affine_map<() -> (2048, 1024)>} : () -> tensor<2048x1024xf32>
  %2 = "bascule.compute"() ({
  ^bb0(%u: index, %j: index):
    %s = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %1[%k, %j] : tensor<2048x1024xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (2048)>} : () -> f32
    "bascule.yield"(%s) : (f32) -> ()
  }) {ranges = affine_map<() -> (1, 1024)>} : () -> tensor<1x1024xf32>
  return %1, %2 : tensor<2048x1024xf32>, tensor<1x1024xf32>
}

// -----

// A cache does not hold a few of these: chunks of rows, which are read for the elements and for their sums at once.
// CHECK-LABEL: func.func @far
// CHECK: bascule.chunks
func.func @far(%x: tensor<20000x1024xf32>) -> (tensor<20000x1024xf32>, tensor<1x1024xf32>) attributes {bascule.graph} {
  %c0 = arith.constant 0 : index
  %0 = "bascule.compute"() ({
  ^bb0(%u: index, %j: index):
    %m = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %x[%k, %j] : tensor<20000x1024xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "max", ranges = affine_map<() -> (20000)>} : () -> f32
    "bascule.yield"(%m) : (f32) -> ()
  }) {ranges = affine_map<() -> (1, 1024)>} : () -> tensor<1x1024xf32>
  %1 = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %x[%i, %j] : tensor<20000x1024xf32>
    %m = tensor.extract %0[%c0, %j] : tensor<1x1024xf32>
    %d = arith.subf %e, %m : f32
    %p = math.exp %d : f32
    "bascule.yield"(%p) : (f32) -> ()
  }) {ranges = affine_map<() -> (20000, 1024)>} : () -> tensor<20000x1024xf32>
  %2 = "bascule.compute"() ({
  ^bb0(%u: index, %j: index):
    %s = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %1[%k, %j] : tensor<20000x1024xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (20000)>} : () -> f32
    "bascule.yield"(%s) : (f32) -> ()
  }) {ranges = affine_map<() -> (1, 1024)>} : () -> tensor<1x1024xf32>
  return %1, %2 : tensor<20000x1024xf32>, tensor<1x1024xf32>
}

// -----

// Sums of columns beside rows: chunks of what a cache holds would have 12 rows, next to which a partial sum is not small.
// CHECK-LABEL: func.func @beside
// CHECK: decision = "split into 32 chunks of 16", {{.*}}reason = "rows are computed from what it reads"
func.func @beside(%x: tensor<512x5120xf32>) -> (tensor<512x5120xf32>, tensor<1x5120xf32>) attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %s = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %x[%i, %k] : tensor<512x5120xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (5120)>} : () -> f32
    %e = tensor.extract %x[%i, %j] : tensor<512x5120xf32>
    %d = arith.subf %e, %s : f32
    "bascule.yield"(%d) : (f32) -> ()
  }) {ranges = affine_map<() -> (512, 5120)>} : () -> tensor<512x5120xf32>
  %1 = "bascule.compute"() ({
  ^bb0(%u: index, %j: index):
    %s = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %x[%k, %j] : tensor<512x5120xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (512)>} : () -> f32
    "bascule.yield"(%s) : (f32) -> ()
  }) {ranges = affine_map<() -> (1, 5120)>} : () -> tensor<1x5120xf32>
  return %0, %1 : tensor<512x5120xf32>, tensor<1x5120xf32>
}

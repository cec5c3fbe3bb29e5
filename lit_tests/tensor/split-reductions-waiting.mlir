// RUN: bascule-opt %s --split-input-file '--pass-pipeline=builtin.module(split-reductions{target=cuda})' | filecheck %s

// Rows that are read again once their results are there: one kernel reads them twice, few as they are.
// CHECK-LABEL: func.func @again
// CHECK-NOT: bascule.chunks
func.func @again(%x: tensor<64x1048576xf32>) -> tensor<64x1048576xf32> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index, %u: index):
    %m = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %x[%i, %k] : tensor<64x1048576xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "max", ranges = affine_map<() -> (1048576)>} : () -> f32
    "bascule.yield"(%m) : (f32) -> ()
  }) {ranges = affine_map<() -> (64, 1)>} : () -> tensor<64x1xf32>
  %c0 = arith.constant 0 : index
  %1 = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %x[%i, %j] : tensor<64x1048576xf32>
    %m = tensor.extract %0[%i, %c0] : tensor<64x1xf32>
    %d = arith.subf %e, %m : f32
    "bascule.yield"(%d) : (f32) -> ()
  }) {ranges = affine_map<() -> (64, 1048576)>} : () -> tensor<64x1048576xf32>
  return %1 : tensor<64x1048576xf32>
}

// -----

// The same rows, of which nothing else is wanted: so many chunks a row keep the machine busy.
// CHECK-LABEL: func.func @once
// CHECK: bascule.chunks
func.func @once(%x: tensor<64x1048576xf32>) -> tensor<64x1xf32> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index, %u: index):
    %m = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %x[%i, %k] : tensor<64x1048576xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "max", ranges = affine_map<() -> (1048576)>} : () -> f32
    "bascule.yield"(%m) : (f32) -> ()
  }) {ranges = affine_map<() -> (64, 1)>} : () -> tensor<64x1xf32>
  return %0 : tensor<64x1xf32>
}

// -----

// Short rows are not cut: a launch more costs more than idle processors.
// CHECK-LABEL: func.func @short
// CHECK-NOT: bascule.chunks
func.func @short(%x: tensor<64x4096xf32>) -> tensor<64x1xf32> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index, %u: index):
    %m = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %x[%i, %k] : tensor<64x4096xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "max", ranges = affine_map<() -> (4096)>} : () -> f32
    "bascule.yield"(%m) : (f32) -> ()
  }) {ranges = affine_map<() -> (64, 1)>} : () -> tensor<64x1xf32>
  return %0 : tensor<64x1xf32>
}

// -----

// Columns whose sums rows wait for: as many chunks as keep the machine busy, not as rows beside sums would have.
// CHECK-LABEL: func.func @columns
// CHECK: bascule.remarks = [{{.*}}decision = "split into 33 chunks of 6144", kind = "passed", op = "bascule.compute", pass = "split-reductions", reason = "512 results of 202752 elements each"}]
func.func @columns(%x: tensor<202752x512xbf16>) -> tensor<202752x512xf32> attributes {bascule.graph} {
  %c0 = arith.constant 0 : index
  %0 = "bascule.compute"() ({
  ^bb0(%u: index, %j: index):
    %m = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %x[%k, %j] : tensor<202752x512xbf16>
      %f = arith.extf %e : bf16 to f32
      "bascule.yield"(%f) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (202752)>} : () -> f32
    "bascule.yield"(%m) : (f32) -> ()
  }) {ranges = affine_map<() -> (1, 512)>} : () -> tensor<1x512xf32>
  %1 = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %x[%i, %j] : tensor<202752x512xbf16>
    %f = arith.extf %e : bf16 to f32
    %m = tensor.extract %0[%c0, %j] : tensor<1x512xf32>
    %d = arith.subf %f, %m : f32
    "bascule.yield"(%d) : (f32) -> ()
  }) {ranges = affine_map<() -> (202752, 512)>} : () -> tensor<202752x512xf32>
  return %1 : tensor<202752x512xf32>
}

// RUN: bascule-opt %s '--pass-pipeline=builtin.module(inline-producers{target=cuda})' | filecheck %s
// RUN: bascule-opt %s '--pass-pipeline=builtin.module(inline-producers)' | filecheck %s

// The gradient of a cross entropy: what it does a row (the label, clamped; the weight) is done once along the row, and the comparison is cheap.
// So it stands in the sum of the row and in what reads part of the rows, and is never stored.
// CHECK-LABEL: func.func @one_hot(
// CHECK-COUNT-2: "bascule.compute"
// CHECK-NOT: "bascule.compute"
// CHECK: return
func.func @one_hot(%labels: tensor<64xi64>, %weights: tensor<64xf32>, %x: tensor<64x8192xf32>) -> (tensor<64xf32>, tensor<66x8192xf32>) attributes {bascule.graph} {
  %g = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %zero = arith.constant 0 : index
    %most = arith.constant 8191 : index
    %none = arith.constant 0.0 : f32
    %label = tensor.extract %labels[%i] : tensor<64xi64>
    %l0 = arith.index_cast %label : i64 to index
    %l1 = arith.maxsi %l0, %zero : index
    %l = arith.minsi %l1, %most : index
    %w0 = tensor.extract %weights[%i] : tensor<64xf32>
    %w1 = math.exp %w0 : f32
    %w = arith.negf %w1 : f32
    %here = arith.cmpi eq, %j, %l : index
    %r = arith.select %here, %w, %none : f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (64, 8192)>} : () -> tensor<64x8192xf32>
  %s = "bascule.compute"() ({
  ^bb0(%i: index):
    %t = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %g[%i, %k] : tensor<64x8192xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (8192)>} : () -> f32
    "bascule.yield"(%t) : (f32) -> ()
  }) {ranges = affine_map<() -> (64)>} : () -> tensor<64xf32>
  %p = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %none = arith.constant 0.0 : f32
    %rows = arith.constant 64 : index
    %inside = arith.cmpi slt, %i, %rows : index
    %v = scf.if %inside -> (f32) {
      %a = tensor.extract %g[%i, %j] : tensor<64x8192xf32>
      %b = tensor.extract %x[%i, %j] : tensor<64x8192xf32>
      %c = tensor.extract %s[%i] : tensor<64xf32>
      %d = arith.mulf %b, %c : f32
      %e = arith.subf %a, %d : f32
      scf.yield %e : f32
    } else {
      scf.yield %none : f32
    }
    "bascule.yield"(%v) : (f32) -> ()
  }) {ranges = affine_map<() -> (66, 8192)>} : () -> tensor<66x8192xf32>
  return %s, %p : tensor<64xf32>, tensor<66x8192xf32>
}

// A function of both indices that is not cheap is stored for two kernels.
// CHECK-LABEL: func.func @costly(
// CHECK-COUNT-3: "bascule.compute"
// CHECK: return
func.func @costly(%x: tensor<64x8192xf32>) -> (tensor<64xf32>, tensor<64x8192xf32>) attributes {bascule.graph} {
  %g = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %a = tensor.extract %x[%i, %j] : tensor<64x8192xf32>
    %b = math.exp %a : f32
    "bascule.yield"(%b) : (f32) -> ()
  }) {ranges = affine_map<() -> (64, 8192)>} : () -> tensor<64x8192xf32>
  %s = "bascule.compute"() ({
  ^bb0(%i: index):
    %t = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %g[%i, %k] : tensor<64x8192xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (8192)>} : () -> f32
    "bascule.yield"(%t) : (f32) -> ()
  }) {ranges = affine_map<() -> (64)>} : () -> tensor<64xf32>
  %p = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %a = tensor.extract %g[%i, %j] : tensor<64x8192xf32>
    %c = tensor.extract %s[%i] : tensor<64xf32>
    %d = arith.divf %a, %c : f32
    "bascule.yield"(%d) : (f32) -> ()
  }) {ranges = affine_map<() -> (64, 8192)>} : () -> tensor<64x8192xf32>
  return %s, %p : tensor<64xf32>, tensor<64x8192xf32>
}

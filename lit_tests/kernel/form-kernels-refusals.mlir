// RUN: bascule-opt %s --form-kernels --remarks -o %t.mlir 2>&1 | filecheck %s
// RUN: bascule-run %s --interpret-only --pipeline=form-kernels
!t = tensor<64x4096xf32>
#first = loc(fused["aten.gelu.default", "model.py":1:0])

func.func private @aten.relu(!t) -> !t attributes {bascule.extern = "aten.relu.default", bascule.arguments = [#bascule.operand<0 : i64>], bascule.results = array<i64: 0>}

func.func @main(%x: !t, %y: !t, %big: tensor<4194304xf32>)
    -> (!t, tensor<4096xf32>, tensor<4096x64xf32>, tensor<f32>, tensor<4194304xf32>, !t) attributes {bascule.graph} {
  // A result that is needed in memory anyway.
  %a = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %x[%i, %j] : !t
    %r = math.tanh %e : f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (64, 4096)>} : () -> !t loc(#first)

  // Sums of its columns would have it computed along columns.
  // CHECK-DAG: not fused with aten.gelu.default (model.py:1:0): reduces columns of a domain of 64x4096 that is computed along rows; 1.0 MB more memory traffic
  %b = "bascule.compute"() ({
  ^bb0(%j: index):
    %r = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %a[%k, %j] : !t
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (64)>} : () -> f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (4096)>} : () -> tensor<4096xf32>

  // So would what stores it transposed.
  // CHECK-DAG: not fused with aten.gelu.default (model.py:1:0): transposed: domain 4096x64 against 64x4096; 1.0 MB more memory traffic
  %c = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %a[%j, %i] : !t
    %r = arith.negf %e : f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (4096, 64)>} : () -> tensor<4096x64xf32>

  // One row of everything leaves nothing to run in parallel.
  // CHECK-DAG: rows to run in parallel: 1, of 4194304 elements; 16.8 MB more memory traffic
  %d = "bascule.compute"() ({
    %r = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %big[%k] : tensor<4194304xf32>
      %s = arith.mulf %e, %e : f32
      "bascule.yield"(%s) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (4194304)>} : () -> f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> ()>} : () -> tensor<f32>
  %e = "bascule.compute"() ({
  ^bb0(%i: index):
    %s = tensor.extract %d[] : tensor<f32>
    %v = tensor.extract %big[%i] : tensor<4194304xf32>
    %r = arith.divf %v, %s : f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (4194304)>} : () -> tensor<4194304xf32>

  // A call between the two: one kernel of both would have to run before it and after it.
  // CHECK-DAG: another kernel stands between them
  %relu = func.call @aten.relu(%a) : (!t) -> !t
  %f = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %u = tensor.extract %a[%i, %j] : !t
    %v = tensor.extract %relu[%i, %j] : !t
    %r = arith.addf %u, %v : f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (64, 4096)>} : () -> !t
  return %a, %b, %c, %d, %e, %f : !t, tensor<4096xf32>, tensor<4096x64xf32>, tensor<f32>, tensor<4194304xf32>, !t
}

// RUN: bascule-run %s --print | filecheck %s --check-prefix=ALONE
// RUN: bascule-run %s --pipeline='builtin.module(canonicalize,cse)' | filecheck %s --check-prefix=SAME
// RUN: bascule-run %s --shapes s0=0 | filecheck %s --check-prefix=EMPTY
// RUN: bascule-run %s --pipeline='builtin.module(canonicalize,cse,fold-views,form-kernels,schedule-kernels,order-program,bufferize-kernels,plan-memory)' | filecheck %s --check-prefix=COMPILED

// ALONE: result 0: int64[5, 3] strides [3, 1]
// ALONE-NEXT: {{\[\[}}{{[34]}}, {{[34]}}, {{[34]}}]
// SAME: match (interpreted): 2 tensors, max error 0.0e+00
// SAME-NOT: compiled
// EMPTY: result 0: int64[0, 3] strides [3, 1]
// COMPILED: match (interpreted): 2 tensors
// COMPILED-NEXT: match (compiled): 2 tensors

!row = tensor<?x3xi64, #bascule.layout<affine_map<(d0, d1) -> (d0 * 3 + d1)>>>

func.func @main(%n: index, %x: !row {bascule.shape = affine_map<()[s0] -> (s0, 3)>, bascule.range = [3, 5]}) -> !row
    attributes {bascule.graph, bascule.shapes = [affine_map<()[s0] -> (s0, 3)>]} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %x[%i, %j] : !row
    %zero = arith.constant 0 : i64
    %f = arith.addi %e, %zero : i64
    "bascule.yield"(%f) : (i64) -> ()
  }) {ranges = affine_map<()[s0] -> (s0, 3)>} : () -> !row
  return %0 : !row
}

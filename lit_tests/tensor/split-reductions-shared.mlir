// RUN: bascule-opt %s --split-reductions=target=cuda | filecheck %s
// RUN: bascule-opt %s --split-reductions --mlir-print-local-scope | filecheck %s --check-prefix=CPU
// RUN: bascule-run %s --function=rows --interpret-only --pipeline='builtin.module(split-reductions{target=cuda})'

// 32 rows of 8 sums, whose reads do not depend on the row: 8 pieces of work, not 256, so there are many chunks.

// CHECK-LABEL: func.func @rows
// CHECK: -> tensor<128x32x8xf32>
// CHECK: decision = "split into 128 chunks of 512", {{.*}}reason = "256 results of 65536 elements each"
// CPU-LABEL: func.func @rows
// CPU-NOT: tensor<128x32x8xf32>
func.func @rows(%i: tensor<65536xi64> {bascule.range = [0, 32]}, %x: tensor<8x65536xf32>) -> tensor<32x8xf32> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%row: index, %h: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%p: index):
      %b = tensor.extract %i[%p] : tensor<65536xi64>
      %to = arith.index_cast %b : i64 to index
      %own = arith.cmpi eq, %to, %row : index
      %e = tensor.extract %x[%h, %p] : tensor<8x65536xf32>
      %zero = arith.constant 0.0 : f32
      %v = arith.select %own, %e, %zero : f32
      "bascule.yield"(%v) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (65536)>} : () -> f32
    "bascule.yield"(%sum) : (f32) -> ()
  }) {ranges = affine_map<() -> (32, 8)>} : () -> tensor<32x8xf32>
  return %0 : tensor<32x8xf32>
}

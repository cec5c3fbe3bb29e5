// RUN: bascule-opt %s --split-reductions='target=cuda sm-count=132' | filecheck %s --check-prefix=BUSY
// RUN: bascule-opt %s --split-reductions='target=cuda sm-count=256' | filecheck %s --check-prefix=IDLE
// RUN: not bascule-opt %s --split-reductions='target=cuda sm-count=0' 2>&1 | filecheck %s --check-prefix=BAD

// BAD: option 'sm-count' cannot be 0

// 200 rows keep 132 multiprocessors busy, not 256: there each is cut into chunks, so that there are four for each multiprocessor.
// BUSY-NOT: bascule.chunks
// IDLE: bascule.chunks
func.func @sums(%x: tensor<200x120000xf32>) -> tensor<200xf32> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index):
    %r = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %x[%i, %k] : tensor<200x120000xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (120000)>} : () -> f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (200)>} : () -> tensor<200xf32>
  return %0 : tensor<200xf32>
}

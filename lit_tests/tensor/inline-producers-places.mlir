// A mask that is a function of places alone, read once for each of 16 heads: a GPU computes it where it is read, a CPU reads it from memory. A table
// of sines is read by both.
// RUN: bascule-opt %s --inline-producers=target=cuda | filecheck %s
// RUN: bascule-opt %s --inline-producers | filecheck %s --check-prefix=CPU
// RUN: bascule-run %s --function=causal --interpret-only --pipeline='inline-producers{target=cuda}'

// CHECK-LABEL: func.func @causal
// CHECK-COUNT-1: "bascule.compute"
// CHECK: arith.cmpi sgt
// CHECK: arith.select
// CHECK: return
// CPU-LABEL: func.func @causal
// CPU-COUNT-2: "bascule.compute"
func.func @causal(%x: tensor<16x1024x1024xf32>) -> tensor<16x1024x1024xf32> attributes {bascule.graph} {
  %never = arith.constant 0xFF800000 : f32
  %0 = "bascule.compute"() ({
  ^bb0(%i: index, %k: index):
    %row = arith.index_cast %i : index to i64
    %key = arith.index_cast %k : index to i64
    %hidden = arith.cmpi sgt, %key, %row : i64
    "bascule.yield"(%hidden) : (i1) -> ()
  }) {ranges = affine_map<() -> (1024, 1024)>} : () -> tensor<1024x1024xi1>
  %1 = "bascule.compute"() ({
  ^bb0(%h: index, %i: index, %k: index):
    %hidden = tensor.extract %0[%i, %k] : tensor<1024x1024xi1>
    %e = tensor.extract %x[%h, %i, %k] : tensor<16x1024x1024xf32>
    %score = arith.select %hidden, %never, %e : f32
    "bascule.yield"(%score) : (f32) -> ()
  }) {ranges = affine_map<() -> (16, 1024, 1024)>} : () -> tensor<16x1024x1024xf32>
  return %1 : tensor<16x1024x1024xf32>
}

// CHECK-LABEL: func.func @table
// CHECK-COUNT-2: "bascule.compute"
func.func @table(%x: tensor<16x1024x1024xf32>) -> tensor<16x1024x1024xf32> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index, %k: index):
    %row = arith.index_cast %i : index to i64
    %angle = arith.sitofp %row : i64 to f32
    %sine = math.sin %angle : f32
    "bascule.yield"(%sine) : (f32) -> ()
  }) {ranges = affine_map<() -> (1024, 1024)>} : () -> tensor<1024x1024xf32>
  %1 = "bascule.compute"() ({
  ^bb0(%h: index, %i: index, %k: index):
    %sine = tensor.extract %0[%i, %k] : tensor<1024x1024xf32>
    %e = tensor.extract %x[%h, %i, %k] : tensor<16x1024x1024xf32>
    %product = arith.mulf %sine, %e : f32
    "bascule.yield"(%product) : (f32) -> ()
  }) {ranges = affine_map<() -> (16, 1024, 1024)>} : () -> tensor<16x1024x1024xf32>
  return %1 : tensor<16x1024x1024xf32>
}

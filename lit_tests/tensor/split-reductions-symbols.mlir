// RUN: bascule-opt %s --split-input-file --split-reductions=target=cuda | filecheck %s

// As many elements as a call gives, in as many chunks as keep a GPU busy where there are those that were seen. Pieces along memory are whole lines.
// CHECK: affine_map<(d0, d1)[s0] -> (d0 * (((s0 + {{.*}}) floordiv {{.*}}) * 128) + d1)>
// CHECK-LABEL: func.func @long
// CHECK: "bascule.reduce"
// CHECK: affine.apply
// CHECK: arith.cmpi slt
// CHECK: scf.if
// CHECK: kind = "sum"
// CHECK-NOT: bascule.chunks
// CHECK: tensor<528xf32>
// CHECK: decision = "split into 528 chunks of
func.func @long(%n: index, %x: tensor<?xf32, #bascule.layout<affine_map<(d0) -> (d0)>>> {bascule.shape = affine_map<()[s0] -> (s0)>}) -> tensor<f32> attributes {bascule.graph, bascule.seen = array<i64: 16777216>} {
  %0 = "bascule.compute"() ({
    %s = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %x[%k] : tensor<?xf32, #bascule.layout<affine_map<(d0) -> (d0)>>>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<()[s0] -> (s0)>} : () -> f32
    "bascule.yield"(%s) : (f32) -> ()
  }) {ranges = affine_map<() -> ()>} : () -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// A variance is two sums: of the elements, and of squares about their mean.
// CHECK-LABEL: func.func @variance
// CHECK: kind = "sum"
// CHECK: arith.divf
// CHECK: arith.subf
// CHECK: kind = "sum"
// CHECK-NOT: welford
// CHECK: decision = "split into 528 chunks of
func.func @variance(%n: index, %x: tensor<?xf32, #bascule.layout<affine_map<(d0) -> (d0)>>> {bascule.shape = affine_map<()[s0] -> (s0)>}) -> tensor<f32> attributes {bascule.graph, bascule.seen = array<i64: 16777216>} {
  %0 = "bascule.compute"() ({
    %s:3 = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %x[%k] : tensor<?xf32, #bascule.layout<affine_map<(d0) -> (d0)>>>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "welford", ranges = affine_map<()[s0] -> (s0)>} : () -> (f32, f32, f32)
    %v = arith.divf %s#1, %s#2 : f32
    "bascule.yield"(%v) : (f32) -> ()
  }) {ranges = affine_map<() -> ()>} : () -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// Seen short, it is not worth a launch. A position is counted in chunks of one size.
// CHECK-LABEL: func.func @short
// CHECK-NOT: tensor<528xf32>
// CHECK-LABEL: func.func @position
// CHECK: decision = "not split", {{.*}}reason = "the number of its elements is not known
func.func @short(%n: index, %x: tensor<?xf32, #bascule.layout<affine_map<(d0) -> (d0)>>> {bascule.shape = affine_map<()[s0] -> (s0)>}) -> tensor<f32> attributes {bascule.graph, bascule.seen = array<i64: 1000>} {
  %0 = "bascule.compute"() ({
    %s = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %x[%k] : tensor<?xf32, #bascule.layout<affine_map<(d0) -> (d0)>>>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<()[s0] -> (s0)>} : () -> f32
    "bascule.yield"(%s) : (f32) -> ()
  }) {ranges = affine_map<() -> ()>} : () -> tensor<f32>
  return %0 : tensor<f32>
}
func.func @position(%n: index, %x: tensor<?xf32, #bascule.layout<affine_map<(d0) -> (d0)>>> {bascule.shape = affine_map<()[s0] -> (s0)>}) -> tensor<i64> attributes {bascule.graph, bascule.seen = array<i64: 16777216>} {
  %0 = "bascule.compute"() ({
    %s = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %x[%k] : tensor<?xf32, #bascule.layout<affine_map<(d0) -> (d0)>>>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "argmax", ranges = affine_map<()[s0] -> (s0)>} : () -> i64
    "bascule.yield"(%s) : (i64) -> ()
  }) {ranges = affine_map<() -> ()>} : () -> tensor<i64>
  return %0 : tensor<i64>
}

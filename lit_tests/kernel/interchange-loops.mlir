// RUN: bascule-opt %s '--pass-pipeline=builtin.module(interchange-loops)' --split-input-file | filecheck %s
// RUN: bascule-opt %s '--pass-pipeline=builtin.module(interchange-loops{target=cuda})' --split-input-file | filecheck %s --check-prefix=CUDA

// Channels-last images of sizes that are not known: (n, h, w, c).
#last = affine_map<(d0, d1, d2, d3)[s0, s1] -> (d0 * (s0 * (s1 * s1)) + d1 + d2 * (s0 * s1) + d3 * s0)>
// CHECK: #[[RANGES:.*]] = affine_map<()[s0, s1] -> (4, s1, s1, s0)>
// CHECK-LABEL: @images
// CHECK: ^bb0(%[[N:.*]]: index, %[[H:.*]]: index, %[[W:.*]]: index, %[[C:.*]]: index):
// CHECK: tensor.extract %{{.*}}[%[[N]], %[[C]], %[[H]], %[[W]]]
// CHECK: tensor.extract %{{.*}}[%[[C]]]
// CHECK: "bascule.store"(%{{.*}}, %{{.*}}, %[[N]], %[[C]], %[[H]], %[[W]])
// CHECK: ranges = #[[RANGES]]
// CUDA-LABEL: @images
// CUDA: ^bb0(%[[N:.*]]: index, %[[C:.*]]: index, %[[H:.*]]: index, %[[W:.*]]: index):
// CUDA: tensor.extract %{{.*}}[%[[N]], %[[C]], %[[H]], %[[W]]]
func.func private @images(%s0: index, %s1: index, %x: tensor<4x?x?x?xf32, #bascule.layout<#last>> {bascule.shape = affine_map<()[s0, s1] -> (4, s0, s1, s1)>},
    %b: tensor<?xf32, #bascule.layout<affine_map<(d0) -> (d0)>>> {bascule.shape = affine_map<()[s0, s1] -> (s0)>}) -> tensor<4x?x?x?xf32, #bascule.layout<#last>>
    attributes {bascule.shapes = [affine_map<()[s0, s1] -> (4, s0, s1, s1)>]} {
  %o = bufferization.alloc_tensor(%s0, %s1, %s1) : tensor<4x?x?x?xf32, #bascule.layout<#last>>
  "bascule.kernel"() ({
  ^bb0(%n: index, %c: index, %h: index, %w: index):
    %0 = tensor.extract %x[%n, %c, %h, %w] : tensor<4x?x?x?xf32, #bascule.layout<#last>>
    %1 = tensor.extract %b[%c] : tensor<?xf32, #bascule.layout<affine_map<(d0) -> (d0)>>>
    %2 = arith.mulf %0, %1 : f32
    "bascule.store"(%2, %o, %n, %c, %h, %w) : (f32, tensor<4x?x?x?xf32, #bascule.layout<#last>>, index, index, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<()[s0, s1] -> (4, s0, s1, s1)>} : () -> ()
  return %o : tensor<4x?x?x?xf32, #bascule.layout<#last>>
}

// -----

// Loops inside of a kernel. Both sums run as one loop; the position of the largest counts in the order as written, and with it what walks along.
#columns = affine_map<(d0, d1) -> (d0 + d1 * 8)>
// CHECK-DAG: #[[TURNED:.*]] = affine_map<() -> (16, 8)>
// CHECK-DAG: #[[WRITTEN:.*]] = affine_map<() -> (8, 16)>
// CHECK-LABEL: @sums
// CHECK: ^bb0(%[[J:.*]]: index, %[[I:.*]]: index):
// CHECK: tensor.extract %{{.*}}[%[[I]], %[[J]]]
// CHECK: kind = "sum", ranges = #[[TURNED]]
// CHECK: kind = "max", ranges = #[[TURNED]]
// CHECK: ^bb0(%[[J:.*]]: index, %[[I:.*]]: index):
// CHECK: "bascule.store"(%{{.*}}, %{{.*}}, %[[I]], %[[J]])
// CHECK: ranges = #[[TURNED]]
func.func private @sums(%x: tensor<8x16xf32, #bascule.layout<#columns>>) -> tensor<8x16xf32, #bascule.layout<#columns>> {
  %o = bufferization.alloc_tensor() : tensor<8x16xf32, #bascule.layout<#columns>>
  "bascule.kernel"() ({
    %s = "bascule.reduce"() ({
    ^bb0(%i: index, %j: index):
      %0 = tensor.extract %x[%i, %j] : tensor<8x16xf32, #bascule.layout<#columns>>
      "bascule.yield"(%0) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (8, 16)>} : () -> f32
    %m = "bascule.reduce"() ({
    ^bb0(%i: index, %j: index):
      %0 = tensor.extract %x[%i, %j] : tensor<8x16xf32, #bascule.layout<#columns>>
      "bascule.yield"(%0) : (f32) -> ()
    }) {kind = "max", ranges = affine_map<() -> (8, 16)>} : () -> f32
    %f = arith.addf %s, %m : f32
    "bascule.foreach"() ({
    ^bb0(%i: index, %j: index):
      %0 = tensor.extract %x[%i, %j] : tensor<8x16xf32, #bascule.layout<#columns>>
      %1 = arith.divf %0, %f : f32
      "bascule.store"(%1, %o, %i, %j) : (f32, tensor<8x16xf32, #bascule.layout<#columns>>, index, index) -> ()
      "bascule.yield"() : () -> ()
    }) {ranges = affine_map<() -> (8, 16)>} : () -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> ()>} : () -> ()
  return %o : tensor<8x16xf32, #bascule.layout<#columns>>
}

// CHECK-LABEL: @position
// CHECK: kind = "argmax", ranges = #[[WRITTEN]]
// CHECK: kind = "max", ranges = #[[WRITTEN]]
func.func private @position(%x: tensor<8x16xf32, #bascule.layout<#columns>>) -> (tensor<i64>, tensor<f32>) {
  %o = bufferization.alloc_tensor() : tensor<i64>
  %p = bufferization.alloc_tensor() : tensor<f32>
  "bascule.kernel"() ({
    %s = "bascule.reduce"() ({
    ^bb0(%i: index, %j: index):
      %0 = tensor.extract %x[%i, %j] : tensor<8x16xf32, #bascule.layout<#columns>>
      "bascule.yield"(%0) : (f32) -> ()
    }) {kind = "argmax", ranges = affine_map<() -> (8, 16)>} : () -> i64
    %m = "bascule.reduce"() ({
    ^bb0(%i: index, %j: index):
      %0 = tensor.extract %x[%i, %j] : tensor<8x16xf32, #bascule.layout<#columns>>
      "bascule.yield"(%0) : (f32) -> ()
    }) {kind = "max", ranges = affine_map<() -> (8, 16)>} : () -> f32
    "bascule.store"(%s, %o) : (i64, tensor<i64>) -> ()
    "bascule.store"(%m, %p) : (f32, tensor<f32>) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> ()>} : () -> ()
  return %o, %p : tensor<i64>, tensor<f32>
}

// Two points may store to one place: what is left there is of the last in the order as written.
// CHECK-LABEL: @meeting
// CHECK: ^bb0(%[[I:.*]]: index, %[[J:.*]]: index):
// CHECK: tensor.extract %{{.*}}[%[[I]], %[[J]]]
// CHECK: ranges = #[[WRITTEN]]
func.func private @meeting(%x: tensor<8x16xf32, #bascule.layout<#columns>>, %k: tensor<8x16xi64, #bascule.layout<#columns>>) -> tensor<32xf32> {
  %o = bufferization.alloc_tensor() : tensor<32xf32>
  "bascule.kernel"() ({
  ^bb0(%i: index, %j: index):
    %0 = tensor.extract %x[%i, %j] : tensor<8x16xf32, #bascule.layout<#columns>>
    %1 = tensor.extract %k[%i, %j] : tensor<8x16xi64, #bascule.layout<#columns>>
    %2 = arith.index_cast %1 : i64 to index
    "bascule.store"(%0, %o, %2) : (f32, tensor<32xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (8, 16)>} : () -> ()
  return %o : tensor<32xf32>
}

// A row that is kept near the processor is row-major.
// CHECK-LABEL: @near
// CHECK: "bascule.compute"
// CHECK: ^bb0(%[[I:.*]]: index, %[[J:.*]]: index):
// CHECK: tensor.extract %{{.*}}[%[[I]], %[[J]]]
// CHECK: ranges = #[[WRITTEN]]
// CHECK: "bascule.foreach"
// CHECK: ^bb0(%[[I:.*]]: index, %[[J:.*]]: index):
// CHECK: tensor.extract %{{.*}}[%[[I]], %[[J]]] : tensor<8x16xf32>
// CHECK: ranges = #[[WRITTEN]]
func.func private @near(%x: tensor<8x16xf32, #bascule.layout<#columns>>) -> tensor<8x16xf32, #bascule.layout<#columns>> {
  %o = bufferization.alloc_tensor() : tensor<8x16xf32, #bascule.layout<#columns>>
  "bascule.kernel"() ({
    %row = "bascule.compute"() ({
    ^bb0(%i: index, %j: index):
      %0 = tensor.extract %x[%i, %j] : tensor<8x16xf32, #bascule.layout<#columns>>
      %1 = math.exp %0 : f32
      "bascule.yield"(%1) : (f32) -> ()
    }) {ranges = affine_map<() -> (8, 16)>} : () -> tensor<8x16xf32>
    "bascule.foreach"() ({
    ^bb0(%i: index, %j: index):
      %0 = tensor.extract %row[%i, %j] : tensor<8x16xf32>
      "bascule.store"(%0, %o, %i, %j) : (f32, tensor<8x16xf32, #bascule.layout<#columns>>, index, index) -> ()
      "bascule.yield"() : () -> ()
    }) {ranges = affine_map<() -> (8, 16)>} : () -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> ()>} : () -> ()
  return %o : tensor<8x16xf32, #bascule.layout<#columns>>
}

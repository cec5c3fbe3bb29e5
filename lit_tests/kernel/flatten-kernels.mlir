// RUN: bascule-opt %s '--pass-pipeline=builtin.module(flatten-kernels{target=cuda})' | filecheck %s
// RUN: bascule-opt %s '--pass-pipeline=builtin.module(flatten-kernels)' | filecheck %s --check-prefix=CPU
// RUN: bascule-run %s --pipeline='builtin.module(flatten-kernels{target=cuda})'

// One foreach over places beside the reads of a channel: channels and places are the domain.
// CHECK-LABEL: func.func private @scale(
// CHECK: ^bb0(%[[C:.*]]: index, %[[N:.*]]: index):
// CHECK: tensor.extract %{{.*}}[%[[C]]]
// CHECK-NOT: "bascule.foreach"
// CHECK: tensor.extract %{{.*}}[%[[N]], %[[C]]]
// CHECK: ranges = #[[BOTH:.*]]}
// CPU: "bascule.foreach"
func.func private @scale(%w: tensor<8xf32>, %x: tensor<20x8xf32>) -> tensor<20x8xf32> {
  %out = bufferization.alloc_tensor() : tensor<20x8xf32>
  "bascule.kernel"() ({
  ^bb0(%c: index):
    %s = tensor.extract %w[%c] : tensor<8xf32>
    "bascule.foreach"() ({
    ^bb0(%n: index):
      %e = tensor.extract %x[%n, %c] : tensor<20x8xf32>
      %f = arith.mulf %e, %s : f32
      "bascule.store"(%f, %out, %n, %c) : (f32, tensor<20x8xf32>, index, index) -> ()
      "bascule.yield"() : () -> ()
    }) {ranges = affine_map<() -> (20)>} : () -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (8)>} : () -> ()
  return %out : tensor<20x8xf32>
}

// A reduction at each point stays: its result is for all of the loop.
// CHECK-LABEL: func.func private @centre(
// CHECK: "bascule.reduce"
// CHECK: "bascule.foreach"
func.func private @centre(%x: tensor<20x8xf32>) -> tensor<20x8xf32> {
  %out = bufferization.alloc_tensor() : tensor<20x8xf32>
  "bascule.kernel"() ({
  ^bb0(%n: index):
    %s = "bascule.reduce"() ({
    ^bb0(%c: index):
      %e = tensor.extract %x[%n, %c] : tensor<20x8xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "max", ranges = affine_map<() -> (8)>} : () -> f32
    "bascule.foreach"() ({
    ^bb0(%c: index):
      %e = tensor.extract %x[%n, %c] : tensor<20x8xf32>
      %f = arith.subf %e, %s : f32
      "bascule.store"(%f, %out, %n, %c) : (f32, tensor<20x8xf32>, index, index) -> ()
      "bascule.yield"() : () -> ()
    }) {ranges = affine_map<() -> (8)>} : () -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (20)>} : () -> ()
  return %out : tensor<20x8xf32>
}

func.func @main(%w: tensor<8xf32>, %x: tensor<20x8xf32>) -> tensor<20x8xf32> attributes {bascule.graph} {
  %0 = call @scale(%w, %x) : (tensor<8xf32>, tensor<20x8xf32>) -> tensor<20x8xf32>
  %1 = call @centre(%0) : (tensor<20x8xf32>) -> tensor<20x8xf32>
  return %1 : tensor<20x8xf32>
}

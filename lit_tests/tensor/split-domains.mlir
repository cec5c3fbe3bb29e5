// RUN: bascule-opt %s --split-domains | filecheck %s
// RUN: bascule-run %s --interpret-only --function=groups --pipeline=split-domains
// RUN: bascule-opt %s '--pass-pipeline=builtin.module(split-domains,form-kernels)' | filecheck %s --check-prefix=KERNELS
#in_group = affine_map<(d0, d1) -> (d0 * 4 + d1)>
#group = affine_map<(d0) -> (d0 floordiv 4)>
#other = affine_map<(d0) -> (d0 floordiv 2)>
!x = tensor<2x32x64x16xf32>
!cl = tensor<2x32x64x16xf32, #bascule.layout<affine_map<(d0, d1, d2, d3) -> (d0 * 32768 + d1 + d2 * 512 + d3 * 32)>>>

// Sums over groups of 4 channels; what reads them at a quotient of the channel runs over groups and channels in them, and is one kernel with
// them. The weights are read at the two together.
// CHECK-DAG: #[[APART:map[0-9]*]] = affine_map<() -> (2, 8, 4, 64, 16)>
// CHECK-DAG: #[[TOGETHER:map[0-9]*]] = affine_map<(d0, d1) -> (d0 * 4 + d1)>
// CHECK-DAG: #[[SEEN:map[0-9]*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1 floordiv 4, d1 mod 4, d2, d3)>
// CHECK-DAG: #[[WHOLE:map[0-9]*]] = affine_map<() -> (2, 32, 64, 16)>

// CHECK-LABEL: func.func @groups(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<2x32x64x16xf32>, %[[W:[a-z0-9]+]]: tensor<32xf32>
// CHECK: %[[SUM:[a-z0-9]+]] = "bascule.compute"()
// CHECK: %[[Y:[a-z0-9]+]] = "bascule.compute"() ({
// CHECK-NEXT: ^bb0(%[[N:[a-z0-9]+]]: index, %[[G:[a-z0-9]+]]: index, %[[R:[a-z0-9]+]]: index, %[[H:[a-z0-9]+]]: index, %[[V:[a-z0-9]+]]: index):
// CHECK: %[[C:[a-z0-9]+]] = affine.apply #[[TOGETHER]](%[[G]], %[[R]])
// CHECK: tensor.extract %[[X]][%[[N]], %[[C]], %[[H]], %[[V]]]
// CHECK: tensor.extract %[[SUM]][%[[N]], %[[G]]]
// CHECK: tensor.extract %[[W]][%[[C]]]
// CHECK: {ranges = #[[APART]]} : () -> tensor<2x8x4x64x16xf32>
// CHECK: %[[Z:[a-z0-9]+]] = "bascule.view"(%[[Y]]) {map = #[[SEEN]], shape = #[[WHOLE]]}
// CHECK: return %[[Z]]
// KERNELS-LABEL: func.func @groups(
// KERNELS-COUNT-1: call @
// KERNELS-NOT: call @
// KERNELS: return
func.func @groups(%x: !x, %w: tensor<32xf32>) -> !x attributes {bascule.graph} {
  %sum = "bascule.compute"() ({
  ^bb0(%n: index, %g: index):
    %s = "bascule.reduce"() ({
    ^bb0(%r: index, %h: index, %v: index):
      %c = affine.apply #in_group(%g, %r)
      %e = tensor.extract %x[%n, %c, %h, %v] : !x
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (4, 64, 16)>} : () -> f32
    "bascule.yield"(%s) : (f32) -> ()
  }) {ranges = affine_map<() -> (2, 8)>} : () -> tensor<2x8xf32>
  %y = "bascule.compute"() ({
  ^bb0(%n: index, %c: index, %h: index, %v: index):
    %g = affine.apply #group(%c)
    %e = tensor.extract %x[%n, %c, %h, %v] : !x
    %s = tensor.extract %sum[%n, %g] : tensor<2x8xf32>
    %a = tensor.extract %w[%c] : tensor<32xf32>
    %d = arith.subf %e, %s : f32
    %r = arith.mulf %d, %a : f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (2, 32, 64, 16)>} : () -> !x
  return %y : !x
}

// Read at quotients by two sizes, the channel would still be divided: it stays.
// CHECK-LABEL: func.func @two_sizes(
// CHECK-NOT: bascule.view
// CHECK: return
func.func @two_sizes(%x: !x, %w: tensor<16xf32>) -> !x attributes {bascule.graph} {
  %sum = "bascule.compute"() ({
  ^bb0(%n: index, %g: index):
    %s = "bascule.reduce"() ({
    ^bb0(%r: index, %h: index, %v: index):
      %c = affine.apply #in_group(%g, %r)
      %e = tensor.extract %x[%n, %c, %h, %v] : !x
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (4, 64, 16)>} : () -> f32
    "bascule.yield"(%s) : (f32) -> ()
  }) {ranges = affine_map<() -> (2, 8)>} : () -> tensor<2x8xf32>
  %y = "bascule.compute"() ({
  ^bb0(%n: index, %c: index, %h: index, %v: index):
    %g = affine.apply #group(%c)
    %o = affine.apply #other(%c)
    %e = tensor.extract %x[%n, %c, %h, %v] : !x
    %s = tensor.extract %sum[%n, %g] : tensor<2x8xf32>
    %a = tensor.extract %w[%o] : tensor<16xf32>
    %d = arith.subf %e, %s : f32
    %r = arith.mulf %d, %a : f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (2, 32, 64, 16)>} : () -> !x
  return %y : !x
}

// The groups of a channels-last tensor are 4 elements next to each other: it stays.
// CHECK-LABEL: func.func @short_runs(
// CHECK-NOT: bascule.view
// CHECK: return
func.func @short_runs(%x: !cl) -> !cl attributes {bascule.graph} {
  %sum = "bascule.compute"() ({
  ^bb0(%n: index, %g: index):
    %s = "bascule.reduce"() ({
    ^bb0(%r: index, %h: index, %v: index):
      %c = affine.apply #in_group(%g, %r)
      %e = tensor.extract %x[%n, %c, %h, %v] : !cl
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (4, 64, 16)>} : () -> f32
    "bascule.yield"(%s) : (f32) -> ()
  }) {ranges = affine_map<() -> (2, 8)>} : () -> tensor<2x8xf32>
  %y = "bascule.compute"() ({
  ^bb0(%n: index, %c: index, %h: index, %v: index):
    %g = affine.apply #group(%c)
    %e = tensor.extract %x[%n, %c, %h, %v] : !cl
    %s = tensor.extract %sum[%n, %g] : tensor<2x8xf32>
    %d = arith.subf %e, %s : f32
    "bascule.yield"(%d) : (f32) -> ()
  }) {ranges = affine_map<() -> (2, 32, 64, 16)>} : () -> !cl
  return %y : !cl
}

// What reads the result sums over its channels: it would take the two together again. It stays.
// CHECK-LABEL: func.func @read_by_sums(
// CHECK-NOT: bascule.view
// CHECK: return
func.func @read_by_sums(%x: !x) -> (!x, tensor<2xf32>) attributes {bascule.graph} {
  %sum = "bascule.compute"() ({
  ^bb0(%n: index, %g: index):
    %s = "bascule.reduce"() ({
    ^bb0(%r: index, %h: index, %v: index):
      %c = affine.apply #in_group(%g, %r)
      %e = tensor.extract %x[%n, %c, %h, %v] : !x
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (4, 64, 16)>} : () -> f32
    "bascule.yield"(%s) : (f32) -> ()
  }) {ranges = affine_map<() -> (2, 8)>} : () -> tensor<2x8xf32>
  %y = "bascule.compute"() ({
  ^bb0(%n: index, %c: index, %h: index, %v: index):
    %g = affine.apply #group(%c)
    %e = tensor.extract %x[%n, %c, %h, %v] : !x
    %s = tensor.extract %sum[%n, %g] : tensor<2x8xf32>
    %d = arith.subf %e, %s : f32
    "bascule.yield"(%d) : (f32) -> ()
  }) {ranges = affine_map<() -> (2, 32, 64, 16)>} : () -> !x
  %t = "bascule.compute"() ({
  ^bb0(%n: index):
    %s = "bascule.reduce"() ({
    ^bb0(%c: index, %h: index, %v: index):
      %e = tensor.extract %y[%n, %c, %h, %v] : !x
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (32, 64, 16)>} : () -> f32
    "bascule.yield"(%s) : (f32) -> ()
  }) {ranges = affine_map<() -> (2)>} : () -> tensor<2xf32>
  return %y, %t : !x, tensor<2xf32>
}

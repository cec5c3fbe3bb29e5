// RUN: bascule-opt %s --torch-to-bascule | filecheck %s
// RUN: bascule-opt %s --torch-to-bascule=numerics=eager | filecheck %s --check-prefix=EAGER

// A rule's op over tensors whose layouts are in their types; `torch.operator` and the dialect's own ops alike.
// CHECK-LABEL: func.func @layouts
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<2x3xf32, #bascule.layout<#[[T:[a-z0-9]+]]>>) -> tensor<2x3xf32> attributes {bascule.graph}
func.func @layouts(%x: !torch.vtensor<[2,3],f32> {bascule.layout = #bascule.layout<affine_map<(d0, d1) -> (d0 + d1 * 2)>>}) -> !torch.vtensor<[2,3],f32> attributes {bascule.graph} {
  %int2 = torch.constant.int 2
  // CHECK: %[[Y:[a-z0-9]+]] = "bascule.compute"
  // CHECK: tensor.extract %[[X]]
  // CHECK: ranges = #{{[a-z0-9]+}}} : () -> tensor<2x3xf32, #bascule.layout<#[[T]]>>
  // CHECK: %[[Z:[a-z0-9]+]] = "bascule.compute"
  // CHECK: tensor.extract %[[Y]]
  // CHECK: tensor<2x3xf32>
  %y = torch.operator "torch.aten.mul.Tensor"(%x, %int2) {bascule.layouts = [#bascule.layout<affine_map<(d0, d1) -> (d0 + d1 * 2)>>]} : (!torch.vtensor<[2,3],f32>, !torch.int) -> !torch.vtensor<[2,3],f32>
  %z = torch.aten.relu %y : !torch.vtensor<[2,3],f32> -> !torch.vtensor<[2,3],f32>
  // CHECK: return %[[Z]]
  return %z : !torch.vtensor<[2,3],f32>
}

// Signed elements become signless, unsigned ones stay.
// CHECK-LABEL: func.func @elements
// CHECK-SAME: (%{{.*}}: tensor<2xi32>, %{{.*}}: tensor<2xui8>, %{{.*}}: tensor<2xi1>)
func.func @elements(%x: !torch.vtensor<[2],si32>, %y: !torch.vtensor<[2],ui8>, %z: !torch.vtensor<[2],i1>) -> (!torch.vtensor<[2],si32>, !torch.vtensor<[2],ui8>, !torch.vtensor<[2],i1>) {
  return %x, %y, %z : !torch.vtensor<[2],si32>, !torch.vtensor<[2],ui8>, !torch.vtensor<[2],i1>
}

// What nothing uses goes.
// CHECK-LABEL: func.func @dead
// CHECK-NEXT: return
func.func @dead(%x: !torch.vtensor<[2],f32>) -> !torch.vtensor<[2],f32> {
  %0 = torch.aten.exp %x : !torch.vtensor<[2],f32> -> !torch.vtensor<[2],f32>
  %1 = torch.aten.log %0 : !torch.vtensor<[2],f32> -> !torch.vtensor<[2],f32>
  return %x : !torch.vtensor<[2],f32>
}

// One result an element of a list.
// CHECK-LABEL: func.func @lists
// CHECK: %[[A:[a-z0-9]+]] = "bascule.view"(%[[X:[a-z0-9]+]])
// CHECK: %[[B:[a-z0-9]+]] = "bascule.view"(%[[X]])
// CHECK: return %[[A]], %[[B]]
func.func @lists(%x: !torch.vtensor<[4,3],f32>) -> (!torch.vtensor<[2,3],f32>, !torch.vtensor<[2,3],f32>) {
  %int0 = torch.constant.int 0
  %int2 = torch.constant.int 2
  %0:2 = torch.operator "torch.aten.split.Tensor"(%x, %int2, %int0) : (!torch.vtensor<[4,3],f32>, !torch.int, !torch.int) -> (!torch.vtensor<[2,3],f32>, !torch.vtensor<[2,3],f32>)
  return %0#0, %0#1 : !torch.vtensor<[2,3],f32>, !torch.vtensor<[2,3],f32>
}

// The last write of a mutated input.
// CHECK-LABEL: func.func @mutation
// CHECK: %[[Y:[a-z0-9]+]] = "bascule.compute"
// CHECK: "bascule.copy_into"(%[[Y]], %[[X:[a-z0-9]+]])
// CHECK: return %[[X]]
func.func @mutation(%x: !torch.vtensor<[2],f32>) -> !torch.vtensor<[2],f32> {
  %false = torch.constant.bool false
  %0 = torch.aten.exp %x : !torch.vtensor<[2],f32> -> !torch.vtensor<[2],f32>
  %1 = torch.operator "torch.aten.copy_"(%x, %0, %false) : (!torch.vtensor<[2],f32>, !torch.vtensor<[2],f32>, !torch.bool) -> !torch.vtensor<[2],f32>
  return %1 : !torch.vtensor<[2],f32>
}

// A function of a later stage is left alone.
// CHECK-LABEL: func.func @converted(%arg0: tensor<2xf32>) -> tensor<2xf32>
// CHECK-NEXT: return %arg0
func.func @converted(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}

// The user's own cast is marked; one in the decomposition of another operator rounds as that operator does.
// CHECK-LABEL: func.func @casts
// CHECK: arith.truncf %{{[^ ]*}} {bascule.cast} : f32 to bf16
// CHECK: arith.truncf %{{[^ ]*}} : f32 to bf16
// EAGER-LABEL: func.func @casts
// EAGER-COUNT-2: arith.truncf %{{.*}} to_nearest_even : f32 to bf16
func.func @casts(%x: !torch.vtensor<[4],f32>) -> (!torch.vtensor<[4],bf16>, !torch.vtensor<[4],bf16>) {
  %bf16 = torch.constant.int 15
  %none = torch.constant.none
  %false = torch.constant.bool false
  %0 = torch.aten._to_copy %x, %bf16, %none, %none, %none, %false, %none : !torch.vtensor<[4],f32>, !torch.int, !torch.none, !torch.none, !torch.none, !torch.bool, !torch.none -> !torch.vtensor<[4],bf16>
  %1 = torch.aten._to_copy %x, %bf16, %none, %none, %none, %false, %none {bascule.decomposed} : !torch.vtensor<[4],f32>, !torch.int, !torch.none, !torch.none, !torch.none, !torch.bool, !torch.none -> !torch.vtensor<[4],bf16>
  return %0, %1 : !torch.vtensor<[4],bf16>, !torch.vtensor<[4],bf16>
}

// RUN: bascule-opt %s --torch-to-bascule | filecheck %s
// RUN: bascule-opt %s --torch-to-bascule='random=eager' | filecheck %s --check-prefix=EAGER

// Numbers are drawn inside the kernel, from a seed that the graph draws once; or by the operator, as eager draws them, two calls apart.
// EAGER: func.func private @aten.rand_like(tensor<4x8xf32>) -> tensor<4x8xf32>
// EAGER-SAME: bascule.effects
// EAGER-SAME: bascule.reason = "eager's random numbers are asked for"
// CHECK-LABEL: func.func @drawn
// CHECK: call @aten.randint.low
// CHECK-NOT: call @aten.rand_like
// CHECK: "bascule.random"
// CHECK: "bascule.random"
// EAGER-LABEL: func.func @drawn
// EAGER-NOT: bascule.random
// EAGER: %[[X:.*]] = call @aten.rand_like
// EAGER: %[[Y:.*]] = call @aten.rand_like
// EAGER-NOT: bascule.random
// EAGER: return %[[X]], %[[Y]]
func.func @drawn(%x: !torch.vtensor<[4,8],f32>) -> (!torch.vtensor<[4,8],f32>, !torch.vtensor<[4,8],f32>) {
  %none = torch.constant.none
  %false = torch.constant.bool false
  %0 = torch.aten.rand_like %x, %none, %none, %none, %false, %none : !torch.vtensor<[4,8],f32>, !torch.none, !torch.none, !torch.none, !torch.bool, !torch.none -> !torch.vtensor<[4,8],f32>
  %1 = torch.aten.rand_like %x, %none, %none, %none, %false, %none : !torch.vtensor<[4,8],f32>, !torch.none, !torch.none, !torch.none, !torch.bool, !torch.none -> !torch.vtensor<[4,8],f32>
  return %0, %1 : !torch.vtensor<[4,8],f32>, !torch.vtensor<[4,8],f32>
}

// What nothing uses moves the generator: the operator is called all the same.
// CHECK-LABEL: func.func @drawn_first
// CHECK-NOT: call @aten.rand_like
// CHECK: "bascule.random"
// CHECK-NOT: "bascule.random"
// EAGER-LABEL: func.func @drawn_first
// EAGER: call @aten.rand_like
// EAGER: %[[Y:.*]] = call @aten.rand_like
// EAGER: return %[[Y]]
func.func @drawn_first(%x: !torch.vtensor<[4,8],f32>) -> !torch.vtensor<[4,8],f32> {
  %none = torch.constant.none
  %false = torch.constant.bool false
  %0 = torch.aten.rand_like %x, %none, %none, %none, %false, %none : !torch.vtensor<[4,8],f32>, !torch.none, !torch.none, !torch.none, !torch.bool, !torch.none -> !torch.vtensor<[4,8],f32>
  %1 = torch.aten.rand_like %x, %none, %none, %none, %false, %none : !torch.vtensor<[4,8],f32>, !torch.none, !torch.none, !torch.none, !torch.bool, !torch.none -> !torch.vtensor<[4,8],f32>
  return %1 : !torch.vtensor<[4,8],f32>
}

// RUN: bascule-opt %s --torch-to-bascule | filecheck %s

// A wait has the operands of what it waits for, behind its own: their memory is nobody else's until then. What nothing uses stays where the
// operator says so.
// CHECK: func.func private @_c10d_functional.wait_tensor(tensor<4xf32>, tensor<2xf32>) -> tensor<4xf32>
// CHECK-SAME: bascule.arguments = [#bascule.operand<0 : i64>]
// CHECK-SAME: bascule.effects
// CHECK: func.func private @_c10d_functional.all_gather_into_tensor(tensor<2xf32>) -> tensor<4xf32>
// CHECK-SAME: bascule.begins
// CHECK-SAME: bascule.effects
// CHECK-LABEL: func.func @waited
// CHECK: %[[Y:[0-9]+]] = {{.*}}bascule.compute
// CHECK: %[[R:.*]] = call @_c10d_functional.all_gather_into_tensor(%[[Y]])
// CHECK: call @_c10d_functional.wait_tensor(%[[R]], %[[Y]])
func.func @waited(%x: !torch.vtensor<[2],f32>) -> !torch.vtensor<[2],f32> {
  %int2 = torch.constant.int 2
  %str = torch.constant.str "0"
  %y = torch.aten.sin %x : !torch.vtensor<[2],f32> -> !torch.vtensor<[2],f32>
  %0 = torch.operator "torch._c10d_functional.all_gather_into_tensor"(%y, %int2, %str) {bascule.effects} : (!torch.vtensor<[2],f32>, !torch.int, !torch.str) -> !torch.vtensor<[4],f32>
  %1 = torch.operator "torch._c10d_functional.wait_tensor"(%0) {bascule.effects} : (!torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32>
  return %x : !torch.vtensor<[2],f32>
}

// What the caller waits for reads a copy.
// CHECK-LABEL: func.func @returned
// CHECK: %[[Y:[0-9]+]] = {{.*}}bascule.compute
// CHECK: %[[C:.*]] = call @aten.clone(%[[Y]])
// CHECK: call @_c10d_functional.all_gather_into_tensor(%[[C]])
func.func @returned(%x: !torch.vtensor<[2],f32>) -> !torch.vtensor<[4],f32> {
  %int2 = torch.constant.int 2
  %str = torch.constant.str "0"
  %y = torch.aten.sin %x : !torch.vtensor<[2],f32> -> !torch.vtensor<[2],f32>
  %0 = torch.operator "torch._c10d_functional.all_gather_into_tensor"(%y, %int2, %str) {bascule.effects} : (!torch.vtensor<[2],f32>, !torch.int, !torch.str) -> !torch.vtensor<[4],f32>
  return %0 : !torch.vtensor<[4],f32>
}

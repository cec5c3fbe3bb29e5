// RUN: bascule-opt %s --torch-to-bascule --split-input-file | filecheck %s

// Equal calls share a declaration. Its arguments are those of the schema.
// CHECK: func.func private @aten.addmm(tensor<2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
// CHECK-SAME: bascule.arguments = [#bascule.operand<0 : i64>, #bascule.operand<1 : i64>, #bascule.operand<1 : i64>, 1, 5.000000e-01]
// CHECK-SAME: bascule.extern = "aten.addmm.default"
// CHECK-SAME: bascule.reason = "a matrix product
// CHECK-SAME: bascule.results = array<i64: 0>
// CHECK-LABEL: func.func @shared
func.func @shared(%b: !torch.vtensor<[2],f32>, %x: !torch.vtensor<[2,2],f32>) -> !torch.vtensor<[2,2],f32> {
  %int1 = torch.constant.int 1
  %half = torch.constant.float 5.000000e-01
  // CHECK: %[[Y:[a-z0-9]+]] = call @aten.addmm(%[[B:[a-z0-9]+]], %[[X:[a-z0-9]+]])
  // CHECK: call @aten.addmm(%[[B]], %[[Y]])
  %0 = torch.aten.addmm %b, %x, %x, %int1, %half : !torch.vtensor<[2],f32>, !torch.vtensor<[2,2],f32>, !torch.vtensor<[2,2],f32>, !torch.int, !torch.float -> !torch.vtensor<[2,2],f32>
  %1 = torch.aten.addmm %b, %0, %0, %int1, %half : !torch.vtensor<[2],f32>, !torch.vtensor<[2,2],f32>, !torch.vtensor<[2,2],f32>, !torch.int, !torch.float -> !torch.vtensor<[2,2],f32>
  return %1 : !torch.vtensor<[2,2],f32>
}

// -----

// An operator without a rule; None, lists and strings among its arguments; an output that is not a tensor.
// CHECK: func.func private @mylib.op(tensor<2xf32>) -> tensor<2xf32>
// CHECK-SAME: bascule.arguments = [#bascule.operand<0 : i64>, unit, [1, 2], "none", true]
// CHECK-SAME: bascule.extern = "mylib.op.default"
// CHECK-SAME: bascule.reason = "no rule
// CHECK-SAME: bascule.results = array<i64: 1>
// CHECK-LABEL: func.func @no_rule
func.func @no_rule(%x: !torch.vtensor<[2],f32>) -> !torch.vtensor<[2],f32> {
  %none = torch.constant.none
  %int1 = torch.constant.int 1
  %int2 = torch.constant.int 2
  %true = torch.constant.bool true
  %str = torch.constant.str "none"
  %list = torch.prim.ListConstruct %int1, %int2 : (!torch.int, !torch.int) -> !torch.list<int>
  // CHECK: %[[Y:[a-z0-9]+]] = call @mylib.op(%{{.*}}) : (tensor<2xf32>) -> tensor<2xf32>
  %0:2 = torch.operator "torch.mylib.op"(%x, %none, %list, %str, %true) : (!torch.vtensor<[2],f32>, !torch.none, !torch.list<int>, !torch.str, !torch.bool) -> (!torch.none, !torch.vtensor<[2],f32>)
  // CHECK: return %[[Y]]
  return %0#1 : !torch.vtensor<[2],f32>
}

// -----

// A view operator without a rule is called in its copying form: the result has memory of its own.
// CHECK: func.func private @aten.view_as_real_copy(tensor<2xcomplex<f32>>) -> tensor<2x2xf32>
// CHECK-SAME: bascule.extern = "aten.view_as_real_copy.default"
func.func @copied(%x: !torch.vtensor<[2],complex<f32>>) -> !torch.vtensor<[2,2],f32> {
  %0 = torch.operator "torch.aten.view_as_real"(%x) : (!torch.vtensor<[2],complex<f32>>) -> !torch.vtensor<[2,2],f32>
  return %0 : !torch.vtensor<[2,2],f32>
}

// -----

// What returns nothing has an effect, and stays.
// CHECK-LABEL: func.func @effect
// CHECK: call @aten._linalg_check_errors(%{{.*}})
func.func @effect(%info: !torch.vtensor<[],si32>) -> !torch.vtensor<[],si32> {
  %name = torch.constant.str "torch.linalg.inv"
  %true = torch.constant.bool true
  torch.operator "torch.aten._linalg_check_errors"(%info, %name, %true) : (!torch.vtensor<[],si32>, !torch.str, !torch.bool) -> ()
  return %info : !torch.vtensor<[],si32>
}

// -----

// So does what says that it has one, whether or not its result is used.
// CHECK-LABEL: func.func @told
// CHECK: call @aten.mm(%{{[a-z0-9]+}})
// CHECK-NOT: call @aten.mm
func.func @told(%x: !torch.vtensor<[2,2],f32>) -> !torch.vtensor<[2,2],f32> {
  %0 = torch.aten.mm %x, %x {bascule.effects} : !torch.vtensor<[2,2],f32>, !torch.vtensor<[2,2],f32> -> !torch.vtensor<[2,2],f32>
  %1 = torch.aten.mm %0, %x : !torch.vtensor<[2,2],f32>, !torch.vtensor<[2,2],f32> -> !torch.vtensor<[2,2],f32>
  return %x : !torch.vtensor<[2,2],f32>
}

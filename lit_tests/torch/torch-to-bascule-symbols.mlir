// RUN: bascule-opt %s --torch-to-bascule | filecheck %s

// Symbols are the leading arguments. Sizes stand in `bascule.shape`, `ranges` and `bascule.shapes`.
// CHECK: func.func private @aten.mm(tensor<?x4xf32, #bascule.layout<#[[ROWS:[a-z0-9]+]]>>, tensor<4x4xf32>) -> tensor<?x4xf32, #bascule.layout<#[[ROWS]]>>
// CHECK-SAME: bascule.shapes = [#[[SIZES:[a-z0-9]+]]]
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[S:[a-z0-9]+]]: index, %[[X:[a-z0-9]+]]: tensor<?x4xf32, #bascule.layout<#[[ROWS]]>> {bascule.shape = #[[SIZES]]}
// CHECK-SAME: bascule.shapes = [#[[SIZES]], #[[HALF:[a-z0-9]+]]]
func.func @main(%s0: index, %x: !torch.vtensor<[?,4],f32> {bascule.layout = #bascule.layout<affine_map<(d0, d1) -> (d0 * 4 + d1)>>, bascule.shape = affine_map<()[s0] -> (s0, 4)>}, %w: !torch.vtensor<[4,4],f32>) -> (!torch.vtensor<[?,4],f32>, !torch.vtensor<[?],si64>) attributes {bascule.graph} {
  %0 = torch.aten.mm %x, %w {bascule.layouts = [#bascule.layout<affine_map<(d0, d1) -> (d0 * 4 + d1)>>], bascule.shapes = [affine_map<()[s0] -> (s0, 4)>]} : !torch.vtensor<[?,4],f32>, !torch.vtensor<[4,4],f32> -> !torch.vtensor<[?,4],f32>
  %int2 = torch.constant.int 2
  %i = torch.symbolic_int "s0" {min_val = 2, max_val = 1024} {bascule.expr = affine_map<()[s0] -> (s0)>} : !torch.int
  %half = torch.aten.floordiv.int %i, %int2 {bascule.expr = affine_map<()[s0] -> (s0 floordiv 2)>} : !torch.int, !torch.int -> !torch.int
  %list = torch.prim.ListConstruct %half : (!torch.int) -> !torch.list<int>
  %none = torch.constant.none
  // An integer of the symbols as a number: its expression, applied to the function's symbols.
  // CHECK: "bascule.compute"
  // CHECK: affine.apply #{{.*}}()[%[[S]]]
  // CHECK: ranges = #[[HALF]]
  %1 = torch.operator "torch.aten.full"(%list, %half, %none, %none, %none, %none) {bascule.layouts = [#bascule.layout<affine_map<(d0) -> (d0)>>], bascule.shapes = [affine_map<()[s0] -> (s0 floordiv 2)>]} : (!torch.list<int>, !torch.int, !torch.none, !torch.none, !torch.none, !torch.none) -> !torch.vtensor<[?],si64>
  return %0, %1 : !torch.vtensor<[?,4],f32>, !torch.vtensor<[?],si64>
}

// A number that is no integer is a tensor of rank 0 in f64.
// CHECK-LABEL: func.func @number
// CHECK: %[[N:[a-z0-9]+]] = "bascule.compute"
// CHECK: arith.divf
// CHECK: tensor<f64>
// CHECK: "bascule.compute"
// CHECK: tensor.extract %[[N]][] : tensor<f64>
func.func @number(%s0: index, %x: !torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32> {
  %int3 = torch.constant.int 3
  %i = torch.symbolic_int "s0" {min_val = 2, max_val = 1024} {bascule.expr = affine_map<()[s0] -> (s0)>} : !torch.int
  %n = torch.operator "torch.sym.div"(%i, %int3) : (!torch.int, !torch.int) -> !torch.float
  %0 = torch.operator "torch.aten.mul.Tensor"(%x, %n) : (!torch.vtensor<[4],f32>, !torch.float) -> !torch.vtensor<[4],f32>
  return %0 : !torch.vtensor<[4],f32>
}

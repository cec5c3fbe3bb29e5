// Operands that eager refuses, as an edited graph may have them: the operator is left to ATen, or is refused at its place.
// RUN: not bascule-opt %s --torch-to-bascule --split-input-file 2>&1 | filecheck %s
// RUN: not bascule-opt %s --torch-to-bascule --split-input-file 2>/dev/null | filecheck %s --check-prefix=LEFT

// CHECK: refused-operands.mlir:9:8: error: 'aten.index_put.default' does not take its operands: eager gives torch.float32 of [], the op has float32 of [6]
func.func @mask(%x: !torch.vtensor<[6],f32>, %m: !torch.vtensor<[6],i1>, %n: !torch.vtensor<[],f32>) -> !torch.vtensor<[6],f32> attributes {bascule.graph, bascule.symbols = []} {
  %l = torch.prim.ListConstruct %m : (!torch.vtensor<[6],i1>) -> !torch.list<optional<vtensor>>
  %false = torch.constant.bool false
  %1 = torch.aten.index_put %n, %l, %x, %false : !torch.vtensor<[],f32>, !torch.list<optional<vtensor>>, !torch.vtensor<[6],f32>, !torch.bool -> !torch.vtensor<[6],f32>
  return %1 : !torch.vtensor<[6],f32>
}

// -----

// LEFT: call @aten.add.Tensor
func.func @add(%a: !torch.vtensor<[6],f32>, %b: !torch.vtensor<[5],f32>) -> !torch.vtensor<[6],f32> attributes {bascule.graph, bascule.symbols = []} {
  %int1 = torch.constant.int 1
  %0 = torch.aten.add.Tensor %a, %b, %int1 : !torch.vtensor<[6],f32>, !torch.vtensor<[5],f32>, !torch.int -> !torch.vtensor<[6],f32>
  return %0 : !torch.vtensor<[6],f32>
}

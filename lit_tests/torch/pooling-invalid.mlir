// Windows that eager refuses, of no elements or no step, are left to ATen, which refuses them where it runs.
// RUN: bascule-opt %s --torch-to-bascule | filecheck %s
// CHECK: call @aten.max_pool2d_with_indices
func.func @max_pool(%x: !torch.vtensor<[4,6,5],f32>) -> (!torch.vtensor<[4,3,2],f32>, !torch.vtensor<[4,3,2],si64>) attributes {bascule.graph, bascule.symbols = []} {
  %int0 = torch.constant.int 0
  %int1 = torch.constant.int 1
  %int2 = torch.constant.int 2
  %kernel = torch.prim.ListConstruct %int2, %int2 : (!torch.int, !torch.int) -> !torch.list<int>
  %stride = torch.prim.ListConstruct %int0, %int0 : (!torch.int, !torch.int) -> !torch.list<int>
  %padding = torch.prim.ListConstruct %int0, %int0 : (!torch.int, !torch.int) -> !torch.list<int>
  %dilation = torch.prim.ListConstruct %int1, %int1 : (!torch.int, !torch.int) -> !torch.list<int>
  %false = torch.constant.bool false
  %result0, %result1 = torch.aten.max_pool2d_with_indices %x, %kernel, %stride, %padding, %dilation, %false : !torch.vtensor<[4,6,5],f32>, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool -> !torch.vtensor<[4,3,2],f32>, !torch.vtensor<[4,3,2],si64>
  return %result0, %result1 : !torch.vtensor<[4,3,2],f32>, !torch.vtensor<[4,3,2],si64>
}

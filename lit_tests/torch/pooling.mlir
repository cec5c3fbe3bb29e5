// RUN: bascule-opt %s --torch-to-bascule --split-input-file | filecheck %s

// Windows that all lie inside the input are read without a guard; the second result is the place of the largest element.

// CHECK-LABEL: func.func @max_pool
// CHECK: "bascule.reduce"
// CHECK-NOT: scf.if
// CHECK: kind = "max", ranges = #[[WINDOW:.*]]}
// CHECK: "bascule.reduce"
// CHECK-NOT: scf.if
// CHECK: kind = "argmax", ranges = #[[WINDOW]]}
// CHECK: arith.index_cast %{{.*}} : index to i64
func.func @max_pool(%x: !torch.vtensor<[4,6,5],f32>) -> (!torch.vtensor<[4,3,2],f32>, !torch.vtensor<[4,3,2],si64>) attributes {bascule.graph, bascule.symbols = []} {
  %int2 = torch.constant.int 2
  %0 = torch.prim.ListConstruct %int2, %int2 : (!torch.int, !torch.int) -> !torch.list<int>
  %1 = torch.prim.ListConstruct  : () -> !torch.list<int>
  %int0 = torch.constant.int 0
  %2 = torch.prim.ListConstruct %int0, %int0 : (!torch.int, !torch.int) -> !torch.list<int>
  %int1 = torch.constant.int 1
  %3 = torch.prim.ListConstruct %int1, %int1 : (!torch.int, !torch.int) -> !torch.list<int>
  %false = torch.constant.bool false
  %result0, %result1 = torch.aten.max_pool2d_with_indices %x, %0, %1, %2, %3, %false : !torch.vtensor<[4,6,5],f32>, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool -> !torch.vtensor<[4,3,2],f32>, !torch.vtensor<[4,3,2],si64>
  return %result0, %result1 : !torch.vtensor<[4,3,2],f32>, !torch.vtensor<[4,3,2],si64>
}

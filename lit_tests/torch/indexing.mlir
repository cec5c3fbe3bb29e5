// RUN: bascule-opt %s --torch-to-bascule --split-input-file | filecheck %s

// An index from data: a negative one counts from the end, and what is out of range stays inside.

// CHECK-LABEL: func.func @index
// CHECK: "bascule.compute"
// CHECK: %[[I:.*]] = tensor.extract %arg1[%{{.*}}, %{{.*}}] : tensor<1x2xi64>
// CHECK: %[[PLACE:.*]] = arith.index_cast %[[I]] : i64 to index
// CHECK: arith.cmpi slt, %[[PLACE]]
// CHECK: %[[WRAPPED:.*]] = arith.select
// CHECK: %[[LOW:.*]] = arith.maxsi %[[WRAPPED]]
// CHECK: %[[ROW:.*]] = arith.minsi %[[LOW]]
// CHECK: tensor.extract %arg0[%[[ROW]], %{{.*}}] : tensor<6x5xf32>
func.func @index(%x: !torch.vtensor<[6,5],f32>, %i: !torch.vtensor<[1,2],si64>) -> !torch.vtensor<[1,2,5],f32> attributes {bascule.graph, bascule.symbols = []} {
  %0 = torch.prim.ListConstruct %i : (!torch.vtensor<[1,2],si64>) -> !torch.list<optional<vtensor>>
  %1 = torch.aten.index.Tensor %x, %0 : !torch.vtensor<[6,5],f32>, !torch.list<optional<vtensor>> -> !torch.vtensor<[1,2,5],f32>
  return %1 : !torch.vtensor<[1,2,5],f32>
}

// -----

// A mask gives a result whose size depends on data: left to ATen.

// CHECK: func.func private @{{.*}}index.Tensor{{.*}} attributes {{.*}}bascule.extern = "aten.index.Tensor"
// CHECK-LABEL: func.func @mask
// CHECK-NOT: bascule.compute
// CHECK: call
func.func @mask(%x: !torch.vtensor<[6],f32>, %i: !torch.vtensor<[6],i1>) -> !torch.vtensor<[3],f32> attributes {bascule.graph, bascule.symbols = []} {
  %0 = torch.prim.ListConstruct %i : (!torch.vtensor<[6],i1>) -> !torch.list<optional<vtensor>>
  %1 = torch.aten.index.Tensor %x, %0 : !torch.vtensor<[6],f32>, !torch.list<optional<vtensor>> -> !torch.vtensor<[3],f32>
  return %1 : !torch.vtensor<[3],f32>
}

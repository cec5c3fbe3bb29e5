// RUN: bascule-opt %s --torch-to-bascule --split-input-file | filecheck %s
// RUN: bascule-opt %s --pass-pipeline='torch-to-bascule{deterministic=true},canonicalize' --split-input-file | filecheck %s --check-prefix=ORDERED

// Sums of bf16 are accumulated in f32 and rounded once. Rows that are added may be ordered later.

// CHECK-LABEL: func.func @accumulate
// ORDERED-LABEL: func.func @accumulate
// ORDERED: bascule.ordered
// ORDERED-NOT: call @aten
// CHECK: %[[WIDE:.*]] = "bascule.compute"
// CHECK: arith.extf
// CHECK: %[[SUMS:.*]] = "bascule.scatter"(%[[WIDE]])
// CHECK: "bascule.store"(%{{.*}}) {mode = "add"} : (f32, tensor<6x5xf32>, index, index) -> ()
// CHECK: "bascule.compute"
// CHECK: tensor.extract %[[SUMS]]
// CHECK: arith.truncf %{{.*}} : f32 to bf16
func.func @accumulate(%x: !torch.vtensor<[6,5],bf16>, %v: !torch.vtensor<[2,5],bf16>, %i: !torch.vtensor<[2],si64>) -> !torch.vtensor<[6,5],bf16> attributes {bascule.graph, bascule.symbols = []} {
  %0 = torch.prim.ListConstruct %i : (!torch.vtensor<[2],si64>) -> !torch.list<optional<vtensor>>
  %true = torch.constant.bool true
  %1 = torch.aten.index_put %x, %0, %v, %true : !torch.vtensor<[6,5],bf16>, !torch.list<optional<vtensor>>, !torch.vtensor<[2,5],bf16>, !torch.bool -> !torch.vtensor<[6,5],bf16>
  return %1 : !torch.vtensor<[6,5],bf16>
}

// -----

// One value under a mask needs no scatter.

// CHECK-LABEL: func.func @mask
// CHECK-NOT: bascule.scatter
// CHECK: %[[M:.*]] = tensor.extract %arg1[%{{.*}}] : tensor<6xi1>
// CHECK: scf.if %[[M]] -> (f32)
func.func @mask(%x: !torch.vtensor<[6],f32>, %m: !torch.vtensor<[6],i1>, %v: !torch.vtensor<[],f32>) -> !torch.vtensor<[6],f32> attributes {bascule.graph, bascule.symbols = []} {
  %0 = torch.prim.ListConstruct %m : (!torch.vtensor<[6],i1>) -> !torch.list<optional<vtensor>>
  %false = torch.constant.bool false
  %1 = torch.aten.index_put %x, %0, %v, %false : !torch.vtensor<[6],f32>, !torch.list<optional<vtensor>>, !torch.vtensor<[],f32>, !torch.bool -> !torch.vtensor<[6],f32>
  return %1 : !torch.vtensor<[6],f32>
}

// -----

// Where writes meet, a number put there is the same whichever comes last.

// CHECK-LABEL: func.func @fill
// CHECK: bascule.scatter
// ORDERED-LABEL: func.func @fill
// ORDERED: bascule.scatter
func.func @fill(%x: !torch.vtensor<[6],f32>, %i: !torch.vtensor<[3],si64>) -> !torch.vtensor<[6],f32> attributes {bascule.graph, bascule.symbols = []} {
  %int0 = torch.constant.int 0
  %float1 = torch.constant.float 1.000000e+00
  %1 = torch.aten.scatter.value %x, %int0, %i, %float1 : !torch.vtensor<[6],f32>, !torch.int, !torch.vtensor<[3],si64>, !torch.float -> !torch.vtensor<[6],f32>
  return %1 : !torch.vtensor<[6],f32>
}

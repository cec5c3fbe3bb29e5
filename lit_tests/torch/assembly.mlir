// RUN: bascule-opt %s --torch-to-bascule --split-input-file | filecheck %s

// `cat` finds the operand by bisection; only that one is read.

// CHECK-LABEL: func.func @cat
// CHECK: %[[FIRST:.*]] = arith.cmpi slt, %[[J:.*]], %c6
// CHECK: scf.if %[[FIRST]] -> (f32)
// CHECK: tensor.extract %arg0[%{{.*}}, %[[J]], %{{.*}}]
// CHECK: } else {
// CHECK: %[[SECOND:.*]] = arith.cmpi slt, %[[J]], %c8
// CHECK: scf.if %[[SECOND]] -> (f32)
// CHECK: tensor.extract %arg1
// CHECK: } else {
// CHECK: tensor.extract %arg0
func.func @cat(%x: !torch.vtensor<[4,6,5],f32>, %y: !torch.vtensor<[4,2,5],f32>) -> !torch.vtensor<[4,14,5],f32> attributes {bascule.graph, bascule.symbols = []} {
  %0 = torch.prim.ListConstruct %x, %y, %x : (!torch.vtensor<[4,6,5],f32>, !torch.vtensor<[4,2,5],f32>, !torch.vtensor<[4,6,5],f32>) -> !torch.list<vtensor>
  %int1 = torch.constant.int 1
  %1 = torch.aten.cat %0, %int1 : !torch.list<vtensor>, !torch.int -> !torch.vtensor<[4,14,5],f32>
  return %1 : !torch.vtensor<[4,14,5],f32>
}

// -----

// A border on one side needs one comparison.

// CHECK-LABEL: func.func @pad
// CHECK: %[[INSIDE:.*]] = arith.cmpi sge
// CHECK-NOT: arith.cmpi
// CHECK: scf.if %[[INSIDE]] -> (f32)
// CHECK: tensor.extract %arg0
// CHECK: } else {
// CHECK: arith.constant 1.500000e+00 : f32
func.func @pad(%x: !torch.vtensor<[4,5],f32>) -> !torch.vtensor<[4,6],f32> attributes {bascule.graph, bascule.symbols = []} {
  %int1 = torch.constant.int 1
  %int0 = torch.constant.int 0
  %0 = torch.prim.ListConstruct %int1, %int0 : (!torch.int, !torch.int) -> !torch.list<int>
  %float1.5 = torch.constant.float 1.500000e+00
  %1 = torch.aten.constant_pad_nd %x, %0, %float1.5 : !torch.vtensor<[4,5],f32>, !torch.list<int>, !torch.float -> !torch.vtensor<[4,6],f32>
  return %1 : !torch.vtensor<[4,6],f32>
}

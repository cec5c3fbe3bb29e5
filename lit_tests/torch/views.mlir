// RUN: bascule-opt %s --torch-to-bascule --split-input-file | filecheck %s

// A reshape costs a quotient only where one dimension of the result crosses several of the source.

// CHECK-DAG: #[[SPLIT:map[0-9]*]] = affine_map<(d0, d1, d2, d3) -> (d0 * 2 + d1, d2, d3)>
// CHECK-DAG: #[[MERGE:map[0-9]*]] = affine_map<(d0, d1) -> (d0 floordiv 6, d0 mod 6, d1)>
// CHECK-LABEL: func.func @reshapes
// CHECK-NEXT: "bascule.view"(%arg0) {map = #[[SPLIT]]
// CHECK-NEXT: "bascule.view"(%arg0) {map = #[[MERGE]]
func.func @reshapes(%x: !torch.vtensor<[4,6,5],f32>) -> (!torch.vtensor<[2,2,6,5],f32>, !torch.vtensor<[24,5],f32>) attributes {bascule.graph, bascule.symbols = []} {
  %int2 = torch.constant.int 2
  %int5 = torch.constant.int 5
  %int6 = torch.constant.int 6
  %int24 = torch.constant.int 24
  %0 = torch.prim.ListConstruct %int2, %int2, %int6, %int5 : (!torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
  %1 = torch.aten.view %x, %0 : !torch.vtensor<[4,6,5],f32>, !torch.list<int> -> !torch.vtensor<[2,2,6,5],f32>
  %2 = torch.prim.ListConstruct %int24, %int5 : (!torch.int, !torch.int) -> !torch.list<int>
  %3 = torch.aten.view %x, %2 : !torch.vtensor<[4,6,5],f32>, !torch.list<int> -> !torch.vtensor<[24,5],f32>
  return %1, %3 : !torch.vtensor<[2,2,6,5],f32>, !torch.vtensor<[24,5],f32>
}

// -----

// Sizes with symbols take the same path. A negative start counts from the end.

#sizes = affine_map<()[s0, s1, s2] -> (s0, s1, s2)>
#layout = affine_map<(d0, d1, d2)[s0, s1, s2] -> (d0 * (s1 * s2) + d1 * s2 + d2)>
#merged = affine_map<()[s0, s1, s2] -> (s0 * s1, s2)>
#rows = affine_map<(d0, d1)[s0, s1, s2] -> (d0 * s2 + d1)>
#last = affine_map<()[s0, s1, s2] -> (s0, 3, s2)>
// CHECK-DAG: #[[MERGE:map[0-9]*]] = affine_map<(d0, d1)[s0, s1] -> (d0 floordiv s1, d0 mod s1, d1)>
// CHECK-DAG: #[[LAST:map[0-9]*]] = affine_map<(d0, d1, d2)[s0, s1] -> (d0, d1 + s1 - 3, d2)>
// CHECK-LABEL: func.func @symbols
// CHECK-NEXT: "bascule.view"(%arg3) {map = #[[MERGE]]
// CHECK-NEXT: "bascule.view"(%arg3) {map = #[[LAST]]
func.func @symbols(%s0: index, %s1: index, %s2: index, %x: !torch.vtensor<[?,?,?],f32> {bascule.layout = #bascule.layout<#layout>, bascule.shape = #sizes}) -> (!torch.vtensor<[?,?],f32>, !torch.vtensor<[?,3,?],f32>) attributes {bascule.graph, bascule.symbols = ["s0", "s1", "s2"]} {
  %0 = torch.symbolic_int "s2" {min_val = 2, max_val = 9223372036854775807} {bascule.expr = affine_map<()[s0, s1, s2] -> (s2)>} : !torch.int
  %int-1 = torch.constant.int -1
  %1 = torch.prim.ListConstruct %int-1, %0 : (!torch.int, !torch.int) -> !torch.list<int>
  %2 = torch.aten.view %x, %1 {bascule.layouts = [#bascule.layout<#rows>], bascule.shapes = [#merged]} : !torch.vtensor<[?,?,?],f32>, !torch.list<int> -> !torch.vtensor<[?,?],f32>
  %int1 = torch.constant.int 1
  %int-3 = torch.constant.int -3
  %none = torch.constant.none
  %3 = torch.aten.slice.Tensor %x, %int1, %int-3, %none, %int1 {bascule.layouts = [#bascule.layout<#layout>], bascule.shapes = [#last]} : !torch.vtensor<[?,?,?],f32>, !torch.int, !torch.int, !torch.none, !torch.int -> !torch.vtensor<[?,3,?],f32>
  return %2, %3 : !torch.vtensor<[?,?],f32>, !torch.vtensor<[?,3,?],f32>
}

// The pretty form: values named by their operators, sizes in the heads of loops, no aliases, schedules that begin with the form that was chosen.
// It parses back: printed again, it is the same.
// RUN: bascule-opt %s --pretty -o %t.mlir && filecheck %s < %t.mlir
// RUN: bascule-opt %t.mlir --pretty | diff - %t.mlir
// RUN: bascule-opt %s -o %t.plain.mlir && bascule-opt %t.mlir | diff - %t.plain.mlir
// RUN: bascule-opt %s --pretty --mlir-print-ir-after=cse --cse -o %t.mlir 2>&1 | filecheck %s --check-prefix=AFTER
// RUN: bascule-opt %s --pretty --mlir-print-skip-regions | filecheck %s --check-prefix=OMITTED
// RUN: not bascule-opt %s --pretty --mlir-print-debuginfo 2>&1 | filecheck %s --check-prefix=LOCATIONS
// RUN: not bascule-opt %s --pretty --emit-bytecode 2>&1 | filecheck %s --check-prefix=LOCATIONS

// AFTER: IR Dump After cse
// AFTER: %mm = call
// OMITTED: // This form does not parse back: {{.+}}.
// OMITTED-NEXT: module
// LOCATIONS: bascule-opt: --pretty: this form is text, and has no locations

#layout = affine_map<(d0, d1)[s0] -> (d0 * 8 + d1)>
#sizes = affine_map<()[s0] -> (s0, 8)>

// CHECK-NOT: #layout =
// CHECK: module
func.func private @aten.mm(tensor<?x8xf32, #bascule.layout<#layout>>, tensor<8x8xf32>) -> tensor<?x8xf32, #bascule.layout<#layout>> attributes {
  bascule.extern = "aten.mm.default", bascule.arguments = [#bascule.operand<0 : i64>, #bascule.operand<1 : i64>], bascule.results = array<i64: 0>,
  bascule.shapes = [#sizes]
}

// CHECK: func.func private @kernel(%s0: index, %arg0: tensor<?x8xf32, #bascule.layout<affine_map<(d0, d1)[s0] -> (d0 * 8 + d1)>>>
func.func private @kernel(%n: index, %x: tensor<?x8xf32, #bascule.layout<#layout>> {bascule.shape = #sizes}) -> (tensor<?x8xf32, #bascule.layout<#layout>>, tensor<8xf32>) attributes {bascule.shapes = [#sizes, affine_map<()[s0] -> (8)>]} {
  // CHECK-NEXT: %out = bufferization.alloc_tensor(%s0)
  // CHECK-NEXT: %out_1 = bufferization.alloc_tensor()
  %0 = bufferization.alloc_tensor(%n) : tensor<?x8xf32, #bascule.layout<#layout>>
  %1 = bufferization.alloc_tensor() : tensor<8xf32>
  // CHECK-NEXT: "bascule.kernel"() ({
  // CHECK-NEXT: ^bb0(%i: index, %j: index):  // %i < s0, %j < 8
  "bascule.kernel"() ({
  ^bb0(%a: index, %b: index):
    // CHECK-NEXT: %c0.5_f32 = arith.constant
    // CHECK-NEXT: %extract = tensor.extract %arg0[%i, %j]
    // CHECK-NEXT: %expf = math.exp %extract
    // CHECK-NEXT: %expf_1 = math.exp %expf
    // CHECK-NEXT: %mulf = arith.mulf %expf_1, %c0.5_f32
    %half = arith.constant 0.5 : f32
    %e = tensor.extract %x[%a, %b] : tensor<?x8xf32, #bascule.layout<#layout>>
    %f = math.exp %e : f32
    %g = math.exp %f : f32
    %h = arith.mulf %g, %half : f32
    // CHECK-NEXT: %reduce_sum = "bascule.reduce"() ({
    // CHECK-NEXT: ^bb0(%k: index):  // %k < 8
    // CHECK-NEXT: %extract_1 = tensor.extract %arg0[%i, %k]
    %s = "bascule.reduce"() ({
    ^bb0(%k: index):
      %v = tensor.extract %x[%a, %k] : tensor<?x8xf32, #bascule.layout<#layout>>
      "bascule.yield"(%v) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (8)>} : () -> f32
    %t = arith.addf %s, %h : f32
    "bascule.store"(%t, %0, %a, %b) : (f32, tensor<?x8xf32, #bascule.layout<#layout>>, index, index) -> ()
    "bascule.yield"() : () -> ()
  // CHECK: schedule = #bascule.schedule<{target = "mine", kind = "rows", depths = [1, 2], inner = {tile = "square", block = 4, name = "x"}, small = 1 : i8, warps = 4}>
  }) {ranges = #sizes, schedule = #bascule.schedule<{depths = [1, 2], inner = {block = 4 : i64, name = "x", tile = "square"}, kind = "rows", small = 1 : i8, target = "mine", warps = 4 : i64}>} : () -> ()
  return %0, %1 : tensor<?x8xf32, #bascule.layout<#layout>>, tensor<8xf32>
}

// CHECK: func.func @main(%s0: index, %arg0:
func.func @main(%n: index, %x: tensor<?x8xf32, #bascule.layout<#layout>> {bascule.shape = #sizes}, %w: tensor<8x8xf32>) -> tensor<?x8xf32, #bascule.layout<#layout>> attributes {bascule.graph, bascule.shapes = [#sizes]} {
  // CHECK-NEXT: %mm = call @aten.mm(%arg0, %arg1)
  // CHECK-NEXT: %mm_1 = call @aten.mm(%mm, %arg1)
  // CHECK-NEXT: %kernel:2 = call @kernel(%s0, %mm_1)
  // CHECK-NEXT: return %kernel#0
  %0 = call @aten.mm(%x, %w) : (tensor<?x8xf32, #bascule.layout<#layout>>, tensor<8x8xf32>) -> tensor<?x8xf32, #bascule.layout<#layout>>
  %1 = call @aten.mm(%0, %w) : (tensor<?x8xf32, #bascule.layout<#layout>>, tensor<8x8xf32>) -> tensor<?x8xf32, #bascule.layout<#layout>>
  %2:2 = call @kernel(%n, %1) : (index, tensor<?x8xf32, #bascule.layout<#layout>>) -> (tensor<?x8xf32, #bascule.layout<#layout>>, tensor<8xf32>)
  return %2#0 : tensor<?x8xf32, #bascule.layout<#layout>>
}

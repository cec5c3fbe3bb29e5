// RUN: bascule-opt %s | bascule-opt | filecheck %s

// CHECK-LABEL: func.func @gather
func.func @gather(%x: tensor<10x8xf32>, %at: tensor<4xi64>) -> tensor<4x8xf32> {
  // CHECK: %[[OUT:.*]] = "bascule.compute"() ({
  // CHECK-NEXT: ^bb0(%[[I:.*]]: index, %[[J:.*]]: index):
  // CHECK: "bascule.yield"(%{{.*}}) : (f32) -> ()
  // CHECK-NEXT: }) {ranges = #{{.*}}} : () -> tensor<4x8xf32>
  %out = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %a = tensor.extract %at[%i] : tensor<4xi64>
    %row = arith.index_cast %a : i64 to index
    %v = tensor.extract %x[%row, %j] : tensor<10x8xf32>
    "bascule.yield"(%v) : (f32) -> ()
  }) {ranges = affine_map<() -> (4, 8)>} : () -> tensor<4x8xf32>
  return %out : tensor<4x8xf32>
}

// A symbol is the function's leading index argument; a dynamic tensor carries its layout.
// CHECK-LABEL: func.func @dynamic
func.func @dynamic(%s0: index, %x: tensor<?x8xui8, #bascule.layout<affine_map<(d0, d1) -> (d0 * 8 + d1)>>> {bascule.shape = affine_map<()[s0] -> (s0, 8)>})
    -> tensor<?x8xui8, #bascule.layout<affine_map<(d0, d1) -> (d0 * 8 + d1)>>> {
  // CHECK: builtin.unrealized_conversion_cast %{{.*}} : ui8 to i8
  // CHECK: tensor<?x8xui8, #bascule.layout<#{{.*}}>>
  %out = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %u = tensor.extract %x[%i, %j] : tensor<?x8xui8, #bascule.layout<affine_map<(d0, d1) -> (d0 * 8 + d1)>>>
    %v = builtin.unrealized_conversion_cast %u : ui8 to i8
    "bascule.yield"(%v) : (i8) -> ()
  }) {ranges = affine_map<()[s0] -> (s0, 8)>} : () -> tensor<?x8xui8, #bascule.layout<affine_map<(d0, d1) -> (d0 * 8 + d1)>>>
  return %out : tensor<?x8xui8, #bascule.layout<affine_map<(d0, d1) -> (d0 * 8 + d1)>>>
}

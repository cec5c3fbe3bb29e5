// Arguments whose elements share memory, of no elements, of no dims, whose memory the graph gives back, or of more elements than there is memory for.
// RUN: bascule-run %s --function=main --pipeline=default --compare | filecheck %s
// RUN: bascule-run %s --function=freed --pipeline=default --compare | filecheck %s
// RUN: not bascule-run %s --function=huge 2>&1 | filecheck %s --check-prefix=HUGE
// RUN: not bascule-run %s --function=read_after 2>&1 | filecheck %s --check-prefix=AFTER
// CHECK: match (interpreted)
// CHECK: match (compiled)
// HUGE: has argument 0, {{.*}}, of which none can be made
// AFTER: is given memory that was given back
#repeated = #bascule.layout<affine_map<(d0, d1) -> (d1)>>
#overlapping = #bascule.layout<affine_map<(d0, d1) -> (d0 + d1)>>
func.func @main(%x: tensor<4x8xf32, #repeated>, %y: tensor<4x8xf32, #overlapping>, %none: tensor<0x8xf32>, %one: tensor<f32>)
    -> (tensor<4x8xf32>, tensor<0x8xf32>) attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %a = tensor.extract %x[%i, %j] : tensor<4x8xf32, #repeated>
    %b = tensor.extract %y[%i, %j] : tensor<4x8xf32, #overlapping>
    %c = tensor.extract %one[] : tensor<f32>
    %d = arith.mulf %a, %b : f32
    %s = arith.subf %d, %c : f32
    "bascule.yield"(%s) : (f32) -> ()
  }) {ranges = affine_map<() -> (4, 8)>} : () -> tensor<4x8xf32>
  %1 = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %a = tensor.extract %none[%i, %j] : tensor<0x8xf32>
    "bascule.yield"(%a) : (f32) -> ()
  }) {ranges = affine_map<() -> (0, 8)>} : () -> tensor<0x8xf32>
  return %0, %1 : tensor<4x8xf32>, tensor<0x8xf32>
}
func.func private @sin(tensor<64xf32>) -> tensor<64xf32> attributes {bascule.extern = "aten.sin.default", bascule.arguments = [#bascule.operand<0>], bascule.results = array<i64: 0>}
func.func private @resize(tensor<64xf32>) attributes {bascule.extern = "inductor.resize_storage_bytes_.default", bascule.arguments = [#bascule.operand<0>, 0 : i64], bascule.results = array<i64>, bascule.effects}
func.func @freed(%x: tensor<64xf32>) -> tensor<64xf32> attributes {bascule.graph} {
  %0 = call @sin(%x) : (tensor<64xf32>) -> tensor<64xf32>
  call @resize(%x) : (tensor<64xf32>) -> ()
  return %0 : tensor<64xf32>
}
func.func @read_after(%x: tensor<64xf32>) -> tensor<64xf32> attributes {bascule.graph} {
  call @resize(%x) : (tensor<64xf32>) -> ()
  %0 = call @sin(%x) : (tensor<64xf32>) -> tensor<64xf32>
  return %0 : tensor<64xf32>
}
func.func @huge(%x: tensor<36028797018963968xf32>) attributes {bascule.graph} {
  return
}

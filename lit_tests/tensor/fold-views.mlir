// RUN: bascule-opt %s --fold-views | filecheck %s
// RUN: bascule-run %s --interpret-only --pipeline=fold-views

// CHECK-DAG: #[[SPLIT:map[0-9]*]] = affine_map<(d0, d1, d2) -> (d0, d1 * 8 + d2)>
// CHECK-DAG: #[[BEHIND:map[0-9]*]] = affine_map<(d0, d1, d2) -> (0, d0 * 16 + d1 * 4 + d2 + 16)>
// CHECK-DAG: #[[SWAP:map[0-9]*]] = affine_map<(d0, d1) -> (d1, d0)>
#transposed = #bascule.layout<affine_map<(d0, d1) -> (d0 + d1 * 32)>>

func.func private @aten.relu(tensor<8x4x8xf32>) -> tensor<8x4x8xf32> attributes {bascule.extern = "aten.relu.default", bascule.arguments = [#bascule.operand<0 : i64>], bascule.results = array<i64: 0>}

// CHECK-LABEL: func.func @main
// CHECK-SAME: [[X:%[0-9a-z_]+]]: tensor<8x32xf32>, [[U:%[0-9a-z_]+]]: tensor<4xui8>
func.func @main(%x: tensor<8x32xf32>, %u: tensor<4xui8>)
    -> (tensor<256xf32>, tensor<8x4x8xf32>, tensor<32x8xf32, #transposed>, tensor<32x8xf32>, tensor<4xi8>) attributes {bascule.graph} {
  // Views that feed a call or the return, and are aliases, stay.
  // CHECK-NEXT: [[V:%[0-9a-z_]+]] = "bascule.view"([[X]]) {map = #[[SPLIT]]
  %v = "bascule.view"(%x) {map = affine_map<(d0, d1, d2) -> (d0, d1 * 8 + d2)>, shape = affine_map<() -> (8, 4, 8)>} : (tensor<8x32xf32>) -> tensor<8x4x8xf32>
  %flat = "bascule.view"(%v) {map = affine_map<(d0) -> (d0 floordiv 32, (d0 floordiv 8) mod 4, d0 mod 8)>, shape = affine_map<() -> (256)>} : (tensor<8x4x8xf32>) -> tensor<256xf32>
  // CHECK-NEXT: [[T:%[0-9a-z_]+]] = "bascule.view"([[X]]) {map = #[[SWAP]]
  %t = "bascule.view"(%x) {map = affine_map<(d0, d1) -> (d1, d0)>, shape = affine_map<() -> (32, 8)>} : (tensor<8x32xf32>) -> tensor<32x8xf32, #transposed>
  // The same with a row-major result is no alias: it becomes a copy.
  // CHECK-NEXT: [[C:%[0-9a-z_]+]] = "bascule.compute"() ({
  // CHECK-NEXT: ^bb0([[I:%[0-9a-z_]+]]: index, [[J:%[0-9a-z_]+]]: index):
  // CHECK-NEXT: tensor.extract [[X]][[[J]], [[I]]]
  %c = "bascule.view"(%x) {map = affine_map<(d0, d1) -> (d1, d0)>, shape = affine_map<() -> (32, 8)>} : (tensor<8x32xf32>) -> tensor<32x8xf32>
  // A read through a view of a view is a read of the source.
  // CHECK: ^bb0([[I:%[0-9a-z_]+]]: index):
  // CHECK-NEXT: [[A:%[0-9a-z_]+]] = affine.apply #{{.*}}([[I]])
  // CHECK-NEXT: [[B:%[0-9a-z_]+]] = affine.apply #{{.*}}([[I]])
  // CHECK-NEXT: tensor.extract [[X]][[[A]], [[B]]]
  %0 = "bascule.compute"() ({
  ^bb0(%i: index):
    %e = tensor.extract %flat[%i] : tensor<256xf32>
    %s = arith.addf %e, %e : f32
    "bascule.yield"(%s) : (f32) -> ()
  }) {ranges = affine_map<() -> (256)>} : () -> tensor<256xf32>
  // Unsigned elements keep their cast to the signless scalar.
  // CHECK: [[E:%[0-9a-z_]+]] = tensor.extract [[U]][
  // CHECK-NEXT: builtin.unrealized_conversion_cast [[E]] : ui8 to i8
  %r = "bascule.view"(%u) {map = affine_map<(d0) -> (3 - d0)>, shape = affine_map<() -> (4)>} : (tensor<4xui8>) -> tensor<4xui8>
  %1 = "bascule.compute"() ({
  ^bb0(%i: index):
    %e = tensor.extract %r[%i] : tensor<4xui8>
    %s = builtin.unrealized_conversion_cast %e : ui8 to i8
    "bascule.yield"(%s) : (i8) -> ()
  }) {ranges = affine_map<() -> (4)>} : () -> tensor<4xi8>
  // CHECK: call @aten.relu([[V]])
  // CHECK-NEXT: return %{{.*}}, %{{.*}}, [[T]], [[C]], %{{.*}}
  %2 = func.call @aten.relu(%v) : (tensor<8x4x8xf32>) -> tensor<8x4x8xf32>
  return %0, %2, %t, %c, %1 : tensor<256xf32>, tensor<8x4x8xf32>, tensor<32x8xf32, #transposed>, tensor<32x8xf32>, tensor<4xi8>
}

// A view without elements lies where eager's does: 16 elements behind, though the composed map has no dimension to say so.
// CHECK-LABEL: func.func @empty
// CHECK-SAME: [[X:%[0-9a-z_]+]]: tensor<4x4xf32>
func.func @empty(%x: tensor<4x4xf32>) -> tensor<0x4x4xf32> attributes {bascule.graph} {
  // CHECK-NEXT: [[E:%[0-9a-z_]+]] = "bascule.view"([[X]]) {map = #[[BEHIND]], shape
  // CHECK-NEXT: return [[E]]
  %one = "bascule.view"(%x) {map = affine_map<(d0, d1, d2) -> (d1, d2)>, shape = affine_map<() -> (1, 4, 4)>} : (tensor<4x4xf32>) -> tensor<1x4x4xf32>
  %none = "bascule.view"(%one) {map = affine_map<(d0, d1, d2) -> (d0 + 1, d1, d2)>, shape = affine_map<() -> (0, 4, 4)>} : (tensor<1x4x4xf32>) -> tensor<0x4x4xf32>
  return %none : tensor<0x4x4xf32>
}

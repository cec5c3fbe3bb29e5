// The elements of constants that stand behind a module are a part of it, in all forms.
// RUN: bascule-opt %s --verify-roundtrip --cse | filecheck %s
// RUN: bascule-opt %s --pretty | bascule-opt | filecheck %s
// RUN: bascule-opt %s --emit-bytecode | bascule-opt | filecheck %s
// CHECK: arith.constant dense_resource<numbers> : tensor<3xi32>
// CHECK: numbers: "0x04000000010000000200000003000000"
func.func @f() -> tensor<3xi32> {
  %0 = arith.constant dense_resource<numbers> : tensor<3xi32>
  return %0 : tensor<3xi32>
}
{-#
  dialect_resources: { builtin: { numbers: "0x04000000010000000200000003000000" } }
#-}

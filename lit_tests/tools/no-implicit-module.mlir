// One operation is read and printed as it stands, in no module; passes run on it as on one in a module.
// RUN: bascule-opt %s --no-implicit-module --canonicalize --verify-roundtrip | filecheck %s
// RUN: echo 'module @m {}' | bascule-opt --no-implicit-module | filecheck %s --check-prefix=MODULE
// RUN: echo "module {} module {}" | not bascule-opt --no-implicit-module 2>&1 | filecheck %s --check-prefix=TWO
// CHECK-NOT: module
// CHECK: func.func @f(%[[X:.*]]: i32) -> i32 {
// CHECK-NEXT: return %[[X]] : i32
// MODULE: module @m
// TWO: error: source must contain a single top-level operation, found: 2
func.func @f(%x: i32) -> i32 {
  %zero = arith.constant 0 : i32
  %0 = arith.addi %x, %zero : i32
  return %0 : i32
}

// What is of no dialect that is there is taken where that is asked for: as text, as bytecode, and in what both print.
// RUN: bascule-opt %s --allow-unregistered-dialect --verify-roundtrip --emit-bytecode -o %t.mlirbc
// RUN: bascule-opt %t.mlirbc --allow-unregistered-dialect --verify-roundtrip | filecheck %s
// RUN: bascule-opt %s --allow-unregistered-dialect --pretty | bascule-opt --allow-unregistered-dialect | filecheck %s
// RUN: not bascule-opt %t.mlirbc 2>&1 | filecheck %s --check-prefix=REFUSED
// CHECK: func.func @f(%[[X:.*]]: !mine.type<4>) -> i32 attributes {mine.attribute = #mine.value<x>}
// CHECK-NEXT: "mine.op"(%[[X]]) {by = 3 : i7} : (!mine.type<4>) -> i32
// REFUSED: unregistered dialect
func.func @f(%x: !mine.type<4>) -> i32 attributes {mine.attribute = #mine.value<x>} {
  %0 = "mine.op"(%x) {by = 3 : i7} : (!mine.type<4>) -> i32
  return %0 : i32
}

// RUN: bascule-opt %s --expand-random --canonicalize | filecheck %s

// The published words of Philox4x32-10 for key 0 and counter 0: 6627e8d5 e169c58d bc57ac4c 9b00dbd8.
// CHECK-LABEL: func.func @words
// CHECK-DAG: arith.constant 1713891541 : i32
// CHECK-DAG: arith.constant -2204013331526194987 : i64
func.func @words() -> (i32, i64) {
  %zero = arith.constant 0 : i64
  %0 = "bascule.random"(%zero, %zero) {distribution = "bits"} : (i64, i64) -> i32
  %1 = "bascule.random"(%zero, %zero) {distribution = "bits"} : (i64, i64) -> i64
  return %0, %1 : i32, i64
}

// The same words as numbers: 0x6627e8 / 2**24, and (0xe169c58d6627e8d5 >> 11) / 2**53.
// CHECK-LABEL: func.func @uniform
// CHECK-DAG: arith.constant 0.399046421 : f32
// CHECK-DAG: arith.constant 0.88052019788861{{[0-9]*}} : f64
func.func @uniform() -> (f32, f64) {
  %zero = arith.constant 0 : i64
  %0 = "bascule.random"(%zero, %zero) {distribution = "uniform"} : (i64, i64) -> f32
  %1 = "bascule.random"(%zero, %zero) {distribution = "uniform"} : (i64, i64) -> f64
  return %0, %1 : f32, f64
}

// CHECK-LABEL: func.func @normal
// CHECK-NOT: bascule.random
// CHECK: math.log
// CHECK: math.sqrt
// CHECK: math.cos
func.func @normal(%seed: i64, %offset: i64) -> f32 {
  %0 = "bascule.random"(%seed, %offset) {distribution = "normal"} : (i64, i64) -> f32
  return %0 : f32
}

// CHECK-LABEL: func.func @other
// CHECK-NEXT: math.sin
// CHECK-NEXT: return
func.func @other(%x: f32) -> f32 {
  %0 = math.sin %x : f32
  return %0 : f32
}

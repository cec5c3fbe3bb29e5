// RUN: bascule-opt %s --simplify-masks | filecheck %s

// A number below 0.9 is a word below the next multiple of 2**-24, as a signed number.
// CHECK-LABEL: func.func @dropout
// CHECK: [[BITS:%[0-9a-z_-]+]] = "bascule.random"({{.*}}) {distribution = "bits"} : (i64, index) -> i32
// CHECK: [[BOUND:%[0-9a-z_-]+]] = arith.constant -429496832 : i32
// CHECK: [[MASK:%[0-9a-z_-]+]] = arith.cmpi ult, [[BITS]], [[BOUND]]
// CHECK-NOT: arith.uitofp
// CHECK: [[FACTOR:%[0-9a-z_-]+]] = arith.select [[MASK]]
// CHECK: arith.mulf %{{.*}}, [[FACTOR]]
func.func @dropout(%x: tensor<16xf32>, %seed: tensor<i64>) -> tensor<16xf32> {
  %out = "bascule.compute"() ({
  ^bb0(%i: index):
    %keep = arith.constant 0.9 : f32
    %scale = arith.constant 1.11111116 : f32
    %e = tensor.extract %x[%i] : tensor<16xf32>
    %s = tensor.extract %seed[] : tensor<i64>
    %0 = "bascule.random"(%s, %i) {distribution = "uniform"} : (i64, index) -> f32
    %1 = arith.cmpf olt, %0, %keep : f32
    %2 = arith.uitofp %1 : i1 to f32
    %3 = arith.mulf %2, %scale : f32
    %4 = arith.mulf %e, %3 : f32
    "bascule.yield"(%4) : (f32) -> ()
  }) {ranges = affine_map<() -> (16)>} : () -> tensor<16xf32>
  return %out : tensor<16xf32>
}

// A half is exact: from 1 << 31 on, which as a signed number is the least, or from the next number on.
// CHECK-LABEL: func.func @half
// CHECK: [[HALF:%[0-9a-z_-]+]] = arith.constant -2147483648 : i32
// CHECK: arith.cmpi uge, %{{.*}}, [[HALF]]
// CHECK: [[ABOVE:%[0-9a-z_-]+]] = arith.constant -2147483392 : i32
// CHECK: arith.cmpi uge, %{{.*}}, [[ABOVE]]
func.func @half(%seed: tensor<i64>) -> tensor<16xi1> {
  %out = "bascule.compute"() ({
  ^bb0(%i: index):
    %half = arith.constant 0.5 : f32
    %s = tensor.extract %seed[] : tensor<i64>
    %0 = "bascule.random"(%s, %i) {distribution = "uniform"} : (i64, index) -> f32
    %1 = arith.cmpf oge, %0, %half : f32
    %2 = arith.cmpf ogt, %0, %half : f32
    %3 = arith.xori %1, %2 : i1
    "bascule.yield"(%3) : (i1) -> ()
  }) {ranges = affine_map<() -> (16)>} : () -> tensor<16xi1>
  return %out : tensor<16xi1>
}

// The number itself is used; the comparison always holds; a negative factor gives -0.0.
// CHECK-LABEL: func.func @others
// CHECK: "bascule.random"({{.*}}) {distribution = "uniform"}
// CHECK: "bascule.random"({{.*}}) {distribution = "uniform"}
// CHECK: arith.uitofp
// CHECK-NOT: arith.select
// CHECK: return
func.func @others(%seed: tensor<i64>) -> tensor<16xf32> {
  %out = "bascule.compute"() ({
  ^bb0(%i: index):
    %half = arith.constant 0.5 : f32
    %one = arith.constant 1.0 : f32
    %minus = arith.constant -2.0 : f32
    %s = tensor.extract %seed[] : tensor<i64>
    %0 = "bascule.random"(%s, %i) {distribution = "uniform"} : (i64, index) -> f32
    %1 = arith.cmpf olt, %0, %half : f32
    %2 = arith.uitofp %1 : i1 to f32
    %3 = "bascule.random"(%s, %i) {distribution = "uniform"} : (i64, index) -> f32
    %4 = arith.cmpf olt, %3, %one : f32
    %5 = arith.uitofp %4 : i1 to f32
    %6 = arith.mulf %5, %minus : f32
    %7 = arith.addf %0, %6 : f32
    %8 = arith.addf %2, %7 : f32
    "bascule.yield"(%8) : (f32) -> ()
  }) {ranges = affine_map<() -> (16)>} : () -> tensor<16xf32>
  return %out : tensor<16xf32>
}

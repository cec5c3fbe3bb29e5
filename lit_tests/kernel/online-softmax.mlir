// RUN: bascule-opt %s '--pass-pipeline=builtin.module(form-kernels,online-softmax{target=cuda})' | filecheck %s
// RUN: bascule-opt %s '--pass-pipeline=builtin.module(form-kernels,online-softmax)' | filecheck %s --check-prefix=CPU
// RUN: bascule-run %s --function=long --pipeline='builtin.module(form-kernels,online-softmax{target=cuda})'

// A row of 65536 is walked: the maximum and the sum about it in one walk. For a CPU nothing changes.
// CHECK-LABEL: func.func private @kernel_0(
// CHECK: %[[PAIR:.*]]:2 = "bascule.reduce"
// CHECK-NOT: math.exp
// CHECK: kind = "softmax"
// CHECK-NOT: "bascule.reduce"
// CHECK: math.log %[[PAIR]]#1
// CHECK: arith.addf %{{.*}}, %[[PAIR]]#0
// CPU: kind = "max"
// CPU: kind = "sum"
func.func @long(%x: tensor<16x65536xf32>) -> tensor<16xf32> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index):
    %m = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %x[%i, %k] : tensor<16x65536xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "max", ranges = affine_map<() -> (65536)>} : () -> f32
    %s = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %x[%i, %k] : tensor<16x65536xf32>
      %d = arith.subf %e, %m : f32
      %p = math.exp %d : f32
      "bascule.yield"(%p) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (65536)>} : () -> f32
    %l = math.log %s : f32
    %r = arith.addf %l, %m : f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (16)>} : () -> tensor<16xf32>
  return %0 : tensor<16xf32>
}



// A row that registers hold is read once anyway: left alone.
// CHECK-LABEL: func.func private @kernel_0_0(
// CHECK: kind = "max"
// CHECK: kind = "sum"
func.func @short(%x: tensor<16x4096xf32>) -> tensor<16xf32> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index):
    %m = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %x[%i, %k] : tensor<16x4096xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "max", ranges = affine_map<() -> (4096)>} : () -> f32
    %s = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %x[%i, %k] : tensor<16x4096xf32>
      %d = arith.subf %e, %m : f32
      %p = math.exp %d : f32
      "bascule.yield"(%p) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (4096)>} : () -> f32
    "bascule.yield"(%s) : (f32) -> ()
  }) {ranges = affine_map<() -> (16)>} : () -> tensor<16xf32>
  return %0 : tensor<16xf32>
}



// The sum is about the maximum of something else: left alone.
// CHECK-LABEL: func.func private @kernel_0_1(
// CHECK: kind = "max"
// CHECK: kind = "sum"
func.func @other(%x: tensor<16x65536xf32>, %y: tensor<16x65536xf32>) -> tensor<16xf32> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index):
    %m = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %x[%i, %k] : tensor<16x65536xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "max", ranges = affine_map<() -> (65536)>} : () -> f32
    %s = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %y[%i, %k] : tensor<16x65536xf32>
      %d = arith.subf %e, %m : f32
      %p = math.exp %d : f32
      "bascule.yield"(%p) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (65536)>} : () -> f32
    "bascule.yield"(%s) : (f32) -> ()
  }) {ranges = affine_map<() -> (16)>} : () -> tensor<16xf32>
  return %0 : tensor<16xf32>
}

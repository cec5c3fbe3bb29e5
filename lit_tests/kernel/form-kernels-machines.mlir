// RUN: bascule-opt %s --form-kernels='target=cuda sm-count=132' | filecheck %s --check-prefix=BUSY
// RUN: bascule-opt %s --form-kernels='target=cuda sm-count=256' --remarks 2>&1 | filecheck %s --check-prefix=IDLE

// A program for each of 100 rows keeps a good part of 132 multiprocessors busy. Of 256 too many would be idle: two kernels.
// BUSY-COUNT-1: call @
// BUSY-NOT: call @
// IDLE: a loop of 1000 elements at each of 100 points leaves processors idle
func.func @shifted(%x: tensor<100x1000xf32>) -> tensor<100x1000xf32> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index):
    %r = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %x[%i, %k] : tensor<100x1000xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "max", ranges = affine_map<() -> (1000)>} : () -> f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (100)>} : () -> tensor<100xf32>
  %1 = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %x[%i, %j] : tensor<100x1000xf32>
    %m = tensor.extract %0[%i] : tensor<100xf32>
    %d = arith.subf %e, %m : f32
    "bascule.yield"(%d) : (f32) -> ()
  }) {ranges = affine_map<() -> (100, 1000)>} : () -> tensor<100x1000xf32>
  return %1 : tensor<100x1000xf32>
}

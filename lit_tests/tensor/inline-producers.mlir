// RUN: bascule-opt %s --inline-producers --canonicalize | filecheck %s
// RUN: bascule-run %s --interpret-only --pipeline=inline-producers
!wide = tensor<512x1024xf32>
!rows = tensor<512x1xf32>

// CHECK-LABEL: func.func @main
// CHECK-SAME: [[X:%[0-9a-z_]+]]: tensor<512x1024xf32>, [[Y:%[0-9a-z_]+]]: tensor<512x1024xf32>
func.func @main(%x: !wide, %y: !wide) -> (!wide, !wide, !rows, !wide, !wide, !wide) attributes {bascule.graph} {
  // One consumer that asks once: a chain becomes one compute, and an element read twice is computed once.
  // CHECK: ^bb0([[I:%[0-9a-z_]+]]: index, [[J:%[0-9a-z_]+]]: index):
  // CHECK-NEXT: [[E:%[0-9a-z_]+]] = tensor.extract [[X]][[[I]], [[J]]]
  // CHECK-NEXT: [[EXP:%[0-9a-z_]+]] = math.exp [[E]]
  // CHECK-NEXT: arith.mulf [[EXP]], [[EXP]]
  // CHECK-NEXT: "bascule.yield"
  %exp = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %x[%j, %i] : !wide
    %r = math.exp %e : f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (1024, 512)>} : () -> tensor<1024x512xf32>
  %0 = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %a = tensor.extract %exp[%j, %i] : tensor<1024x512xf32>
    %b = tensor.extract %exp[%j, %i] : tensor<1024x512xf32>
    %r = arith.mulf %a, %b : f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (512, 1024)>} : () -> !wide

  // Cheap, and reads no more than its result has: it is repeated in both consumers, one of them a reduction.
  // CHECK: "bascule.compute"() ({
  // CHECK: tensor.extract [[X]]
  // CHECK-NEXT: arith.negf
  // CHECK: "bascule.reduce"() ({
  // CHECK: tensor.extract [[X]]
  // CHECK-NEXT: arith.negf
  %neg = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %x[%i, %j] : !wide
    %r = arith.negf %e : f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (512, 1024)>} : () -> !wide
  %1 = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %a = tensor.extract %neg[%i, %j] : !wide
    %b = tensor.extract %y[%i, %j] : !wide
    %r = arith.subf %b, %a : f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (512, 1024)>} : () -> !wide
  %2 = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %a = tensor.extract %neg[%i, %k] : !wide
      "bascule.yield"(%a) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (1024)>} : () -> f32
    "bascule.yield"(%sum) : (f32) -> ()
  }) {ranges = affine_map<() -> (512, 1)>} : () -> !rows

  // Costly and read by two: it stays, for form-kernels to put all three into one kernel.
  // CHECK: [[TANH:%[0-9a-z_]+]] = "bascule.compute"() ({
  // CHECK: math.tanh
  // CHECK: tensor.extract [[TANH]]
  // CHECK: tensor.extract [[TANH]]
  %tanh = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %x[%i, %j] : !wide
    %r = math.tanh %e : f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (512, 1024)>} : () -> !wide
  %3 = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %a = tensor.extract %tanh[%i, %k] : !wide
      "bascule.yield"(%a) : (f32) -> ()
    }) {kind = "max", ranges = affine_map<() -> (1024)>} : () -> f32
    "bascule.yield"(%sum) : (f32) -> ()
  }) {ranges = affine_map<() -> (512, 1)>} : () -> !rows
  %4 = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %zero = arith.constant 0 : index
    %a = tensor.extract %tanh[%i, %j] : !wide
    %b = tensor.extract %3[%i, %zero] : !rows
    %r = arith.subf %a, %b : f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (512, 1024)>} : () -> !wide

  // Returned, so it is in memory anyway, and its reader would read two tensors in place of one: it stays.
  // CHECK: [[SUM:%[0-9a-z_]+]] = "bascule.compute"() ({
  // CHECK: arith.addf
  // CHECK: tensor.extract [[SUM]]
  // CHECK-NEXT: math.absf
  %sum = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %a = tensor.extract %x[%i, %j] : !wide
    %b = tensor.extract %y[%i, %j] : !wide
    %r = arith.addf %a, %b : f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (512, 1024)>} : () -> !wide
  %5 = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %a = tensor.extract %sum[%i, %j] : !wide
    %r = math.absf %a : f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (512, 1024)>} : () -> !wide
  return %0, %1, %2, %4, %sum, %5 : !wide, !wide, !rows, !wide, !wide, !wide
}

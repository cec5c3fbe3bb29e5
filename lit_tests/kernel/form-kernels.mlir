// RUN: bascule-opt %s --form-kernels | filecheck %s
// RUN: bascule-run %s --interpret-only --pipeline=form-kernels --shapes=s0=6
!t = tensor<512x1024xf32>
!r = tensor<512x1xf32>
!c = tensor<1024xf32>
#vector = #bascule.layout<affine_map<(d0) -> (d0)>>

// A softmax over rows: nothing but the result is in memory, and the exponentials are kept in a row.
// CHECK-LABEL: func.func private @softmax_0
// CHECK-SAME: index, [[X:%[0-9a-z_]+]]: tensor<512x1024xf32>) -> tensor<512x1024xf32> attributes {bascule.operators = ["aten.softmax.int"]}
// CHECK-NEXT: [[OUT:%[0-9a-z_]+]] = bufferization.alloc_tensor()
// CHECK-NEXT: "bascule.kernel"() ({
// CHECK-NEXT: ^bb0([[I:%[0-9a-z_]+]]: index):
// CHECK: [[MAX:%[0-9a-z_]+]] = "bascule.reduce"() ({
// CHECK: tensor.extract [[X]][[[I]],
// CHECK: [[ROW:%[0-9a-z_]+]] = "bascule.compute"() ({
// CHECK: arith.subf %{{.*}}, [[MAX]]
// CHECK: math.exp
// CHECK: -> tensor<1024xf32>
// CHECK: [[SUM:%[0-9a-z_]+]] = "bascule.reduce"() ({
// CHECK: tensor.extract [[ROW]][
// CHECK: "bascule.foreach"() ({
// CHECK: tensor.extract [[ROW]][
// CHECK: arith.divf %{{.*}}, [[SUM]]
// CHECK: "bascule.store"(%{{[0-9]+}}, [[OUT]], [[I]],
// CHECK-NOT: bascule.store
// CHECK: return [[OUT]]

// Two sums of the same columns are one kernel.
// CHECK-LABEL: func.func private @sum_square_0
// CHECK: [[A:%[0-9a-z_]+]] = bufferization.alloc_tensor() : tensor<1024xf32>
// CHECK-NEXT: [[B:%[0-9a-z_]+]] = bufferization.alloc_tensor() : tensor<1024xf32>
// CHECK-NEXT: "bascule.kernel"() ({
// CHECK: bascule.reduce
// CHECK: "bascule.store"(%{{[0-9]+}}, [[A]],
// CHECK: bascule.reduce
// CHECK: "bascule.store"(%{{[0-9]+}}, [[B]],
// CHECK: return [[A]], [[B]]

// Small ones whose results nothing here reads are one launch, each a loop of its own. Sizes in symbols are arguments of the kernel,
// and give its destinations their sizes.
// CHECK-LABEL: func.func private @exp_neg_0
// CHECK-SAME: ([[N:%[0-9a-z_]+]]: index, %{{[0-9a-z_]+}}: tensor<16xf32>, %{{[0-9a-z_]+}}: tensor<?xf32, #{{[a-z.<#0-9]+}}>> {bascule.shape = #[[SIZE:map[0-9]*]]})
// CHECK-SAME: bascule.shapes = [#[[SIXTEEN:map[0-9]*]], #[[SIZE]]]
// CHECK-NEXT: bufferization.alloc_tensor()
// CHECK-NEXT: [[DIM:%[0-9a-z_]+]] = affine.apply #[[SIZE]]()[[[N]]]
// CHECK-NEXT: bufferization.alloc_tensor([[DIM]])
// CHECK-NEXT: "bascule.kernel"() ({
// CHECK-NEXT: "bascule.foreach"() ({
// CHECK: math.exp
// CHECK: ranges = #[[SIXTEEN]]
// CHECK-NEXT: "bascule.foreach"() ({
// CHECK: arith.negf
// CHECK: ranges = #[[SIZE]]

// CHECK-LABEL: func.func @main
// CHECK-SAME: ([[N:%[0-9a-z_]+]]: index, [[X:%[0-9a-z_]+]]: tensor<512x1024xf32>, [[Y:%[0-9a-z_]+]]: tensor<512x1024xf32>,
// CHECK-DAG: [[P:%[0-9a-z_]+]] = call @softmax_0([[N]], [[X]])
// Equal kernels share a function.
// CHECK-DAG: [[Q:%[0-9a-z_]+]] = call @softmax_0([[N]], [[Y]])
// CHECK-DAG: call @sum_square_0([[N]], [[X]])
// CHECK-DAG: call @exp_neg_0([[N]],

#softmax = loc(fused["aten.softmax.int", "model.py":3:0])
#sum = loc(fused["aten.sum.dim_IntList", "model.py":4:0])
#square = loc(fused["aten.square.default", "model.py":5:0])
#exp = loc(fused["aten.exp.default", "model.py":7:0])
#neg = loc(fused["aten.neg.default", "model.py":6:0])
func.func @main(%n: index, %x: !t, %y: !t, %z: tensor<?xf32, #vector> {bascule.shape = affine_map<()[s0] -> (s0)>}, %v: tensor<16xf32>)
    -> (!t, !t, !c, !c, tensor<?xf32, #vector>, tensor<16xf32>) attributes {bascule.graph, bascule.symbols = ["s0"], bascule.shapes = [affine_map<() -> (512, 1024)>, affine_map<() -> (512, 1024)>, affine_map<() -> (1024)>, affine_map<() -> (1024)>, affine_map<()[s0] -> (s0)>, affine_map<() -> (16)>]} {
  %pm = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %r = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %x[%i, %k] : !t
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "max", ranges = affine_map<() -> (1024)>} : () -> f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (512, 1)>} : () -> !r loc(#softmax)
  %pe = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %zero = arith.constant 0 : index
    %e = tensor.extract %x[%i, %j] : !t
    %m = tensor.extract %pm[%i, %zero] : !r
    %d = arith.subf %e, %m : f32
    %w = math.exp %d : f32
    "bascule.yield"(%w) : (f32) -> ()
  }) {ranges = affine_map<() -> (512, 1024)>} : () -> !t loc(#softmax)
  %ps = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %r = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %pe[%i, %k] : !t
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (1024)>} : () -> f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (512, 1)>} : () -> !r loc(#softmax)
  %p = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %zero = arith.constant 0 : index
    %e = tensor.extract %pe[%i, %j] : !t
    %s = tensor.extract %ps[%i, %zero] : !r
    %q = arith.divf %e, %s : f32
    "bascule.yield"(%q) : (f32) -> ()
  }) {ranges = affine_map<() -> (512, 1024)>} : () -> !t loc(#softmax)
  %qm = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %r = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %y[%i, %k] : !t
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "max", ranges = affine_map<() -> (1024)>} : () -> f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (512, 1)>} : () -> !r loc(#softmax)
  %qe = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %zero = arith.constant 0 : index
    %e = tensor.extract %y[%i, %j] : !t
    %m = tensor.extract %qm[%i, %zero] : !r
    %d = arith.subf %e, %m : f32
    %w = math.exp %d : f32
    "bascule.yield"(%w) : (f32) -> ()
  }) {ranges = affine_map<() -> (512, 1024)>} : () -> !t loc(#softmax)
  %qs = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %r = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %qe[%i, %k] : !t
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (1024)>} : () -> f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (512, 1)>} : () -> !r loc(#softmax)
  %q = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %zero = arith.constant 0 : index
    %e = tensor.extract %qe[%i, %j] : !t
    %s = tensor.extract %qs[%i, %zero] : !r
    %q = arith.divf %e, %s : f32
    "bascule.yield"(%q) : (f32) -> ()
  }) {ranges = affine_map<() -> (512, 1024)>} : () -> !t loc(#softmax)
  %a = "bascule.compute"() ({
  ^bb0(%j: index):
    %r = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %x[%k, %j] : !t
      "bascule.yield"(%e) : (f32) -> () loc(#sum)
    }) {kind = "sum", ranges = affine_map<() -> (512)>} : () -> f32
    "bascule.yield"(%r) : (f32) -> () loc(#sum)
  }) {ranges = affine_map<() -> (1024)>} : () -> !c loc(#sum)
  %b = "bascule.compute"() ({
  ^bb0(%j: index):
    %r = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %x[%k, %j] : !t
      %f = arith.mulf %e, %e : f32
      "bascule.yield"(%f) : (f32) -> () loc(#square)
    }) {kind = "sum", ranges = affine_map<() -> (512)>} : () -> f32
    "bascule.yield"(%r) : (f32) -> () loc(#square)
  }) {ranges = affine_map<() -> (1024)>} : () -> !c loc(#square)
  %neg = "bascule.compute"() ({
  ^bb0(%i: index):
    %e = tensor.extract %z[%i] : tensor<?xf32, #vector>
    %r = arith.negf %e : f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<()[s0] -> (s0)>} : () -> tensor<?xf32, #vector> loc(#neg)
  %exp = "bascule.compute"() ({
  ^bb0(%i: index):
    %e = tensor.extract %v[%i] : tensor<16xf32>
    %r = math.exp %e : f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (16)>} : () -> tensor<16xf32> loc(#exp)
  return %p, %q, %a, %b, %neg, %exp : !t, !t, !c, !c, tensor<?xf32, #vector>, tensor<16xf32>
}

// RUN: bascule-opt %s --split-reductions=min-size=256,cache=1024 --canonicalize --form-kernels=min-shared=1 --cse | filecheck %s
// RUN: bascule-opt %s --split-reductions=min-size=256,cache=1024 --canonicalize --form-kernels=min-shared=1 --remarks 2>&1 | filecheck %s --check-prefix=REMARK
// RUN: bascule-run %s --pipeline='split-reductions{min-size=256 cache=1024},canonicalize,form-kernels{min-shared=1},cse,schedule-kernels,order-program,bufferize-kernels,plan-memory'
!t = tensor<32x64xf32>

// Rows with a reduction, and the sums of the columns of what they read: one kernel over chunks of rows, one that adds the chunks' sums.
// CHECK: #[[PIECE:map[0-9]*]] = affine_map<(d0, d1) -> (d0 * 2 + d1)>
// CHECK-LABEL: func.func private @
// CHECK: [[DX:%[0-9]+]] = bufferization.alloc_tensor() : tensor<32x64xf32>
// CHECK-NEXT: [[PARTIAL:%[0-9]+]] = bufferization.alloc_tensor() : tensor<16x64xf32>
// CHECK: "bascule.kernel"() ({
// CHECK-NEXT: ^bb0([[C:%[a-z0-9]+]]: index):
// CHECK: "bascule.foreach"() ({
// CHECK-NEXT: ^bb0([[R:%[a-z0-9]+]]: index):
// CHECK-NEXT: [[I:%[0-9]+]] = affine.apply #[[PIECE]]([[C]], [[R]])
// CHECK-NEXT: "bascule.reduce"() ({
// CHECK: tensor.extract %{{.*}}[[[I]],
// CHECK: "bascule.foreach"() ({
// CHECK: "bascule.store"(%{{[0-9]+}}, [[DX]], [[I]],
// CHECK: "bascule.foreach"() ({
// CHECK-NEXT: ^bb0([[J:%[a-z0-9]+]]: index):
// CHECK-NEXT: [[S:%[0-9]+]] = "bascule.reduce"() ({
// CHECK-NEXT: ^bb0([[K:%[a-z0-9]+]]: index):
// CHECK-NEXT: affine.apply #[[PIECE]]([[C]], [[K]])
// CHECK: "bascule.store"([[S]], [[PARTIAL]], [[C]], [[J]])

// Without a reduction of rows the domain is chunks and columns.
// CHECK-LABEL: func.func private @
// CHECK: [[G:%[0-9]+]] = bufferization.alloc_tensor() : tensor<32x64xf32>
// CHECK-NEXT: [[PARTIAL:%[0-9]+]] = bufferization.alloc_tensor() : tensor<8x64xf32>
// CHECK: "bascule.kernel"() ({
// CHECK-NEXT: ^bb0([[C:%[a-z0-9]+]]: index, [[J:%[a-z0-9]+]]: index):
// CHECK: "bascule.foreach"() ({
// CHECK: "bascule.store"(%{{[0-9]+}}, [[G]], %{{[0-9]+}}, [[J]])
// CHECK: [[S:%[0-9]+]] = "bascule.reduce"() ({
// CHECK: "bascule.store"([[S]], [[PARTIAL]], [[C]], [[J]])

// Columns of what the rows' own reductions give would have to wait for them.
// REMARK-DAG: not fused with {{.*}}: sums columns of what the rows' own reductions give; 8.2 kB more memory traffic
func.func @main(%x: !t, %y: !t, %u: !t, %v: !t, %z: !t)
    -> (!t, tensor<64xf32>, !t, tensor<64xf32>, !t, tensor<64xf32>) attributes {bascule.graph} {
  %row = "bascule.compute"() ({
  ^bb0(%i: index):
    %r = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %x[%i, %k] : !t
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (64)>} : () -> f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (32)>} : () -> tensor<32xf32>
  %dx = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %x[%i, %j] : !t
    %r = tensor.extract %row[%i] : tensor<32xf32>
    %d = arith.subf %e, %r : f32
    "bascule.yield"(%d) : (f32) -> ()
  }) {ranges = affine_map<() -> (32, 64)>} : () -> !t
  %dw = "bascule.compute"() ({
  ^bb0(%j: index):
    %r = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %x[%k, %j] : !t
      %f = tensor.extract %y[%k, %j] : !t
      %p = arith.mulf %e, %f : f32
      "bascule.yield"(%p) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (32)>} : () -> f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (64)>} : () -> tensor<64xf32>
  %g = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %u[%i, %j] : !t
    %f = tensor.extract %v[%i, %j] : !t
    %p = arith.mulf %e, %f : f32
    "bascule.yield"(%p) : (f32) -> ()
  }) {ranges = affine_map<() -> (32, 64)>} : () -> !t
  %db = "bascule.compute"() ({
  ^bb0(%j: index):
    %r = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %g[%k, %j] : !t
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (32)>} : () -> f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (64)>} : () -> tensor<64xf32>
  %most = "bascule.compute"() ({
  ^bb0(%i: index):
    %r = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %z[%i, %k] : !t
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "max", ranges = affine_map<() -> (64)>} : () -> f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (32)>} : () -> tensor<32xf32>
  %dz = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %z[%i, %j] : !t
    %r = tensor.extract %most[%i] : tensor<32xf32>
    %d = arith.divf %e, %r : f32
    "bascule.yield"(%d) : (f32) -> ()
  }) {ranges = affine_map<() -> (32, 64)>} : () -> !t
  %dv = "bascule.compute"() ({
  ^bb0(%j: index):
    %r = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %dz[%k, %j] : !t
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (32)>} : () -> f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (64)>} : () -> tensor<64xf32>
  return %dx, %dw, %g, %db, %dz, %dv : !t, tensor<64xf32>, !t, tensor<64xf32>, !t, tensor<64xf32>
}

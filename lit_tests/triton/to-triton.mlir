// RUN: bascule-opt %s --to-triton | filecheck %s

// A flat tile: every buffer that is dense in the domain is addressed by the flat position, the broadcast row by a remainder.
// CHECK-LABEL: "tt.func"
// CHECK-NEXT: ^bb0(%[[X:.*]]: !tt.ptr<f32>, %[[W:.*]]: !tt.ptr<f32>, %[[OUT:.*]]: !tt.ptr<bf16>):
// CHECK: %[[AT:.*]] = arith.addi %{{.*}}, %{{.*}} : tensor<256xi32>
// CHECK: %[[IN:.*]] = arith.cmpi slt, %[[AT]], %{{.*}} : tensor<256xi32>
// CHECK: "tt.addptr"(%{{.*}}, %[[AT]])
// CHECK: "tt.load"(%{{.*}}, %[[IN]])
// CHECK: %[[J:.*]] = arith.remui %[[AT]], %{{.*}} : tensor<256xi32>
// CHECK: "tt.addptr"(%{{.*}}, %[[J]])
// CHECK: arith.mulf
// CHECK: arith.truncf %{{.*}} : tensor<256xf32> to tensor<256xbf16>
// CHECK: "tt.addptr"(%{{.*}}, %[[AT]])
// CHECK: "tt.store"(%{{.*}}, %{{.*}}, %[[IN]])
// CHECK: tt.divisibility = 16 : i32
// CHECK-SAME: bascule.warps = 1 : i32
// CHECK-SAME: sym_name = "scale"
func.func private @scale(%x: memref<6x40xf32>, %w: memref<40xf32>, %out: memref<6x40xbf16>) {
  "bascule.kernel"() ({
  ^bb0(%i: index, %j: index):
    %e = memref.load %x[%i, %j] : memref<6x40xf32>
    %s = memref.load %w[%j] : memref<40xf32>
    %f = arith.mulf %e, %s : f32
    %r = arith.truncf %f to_nearest_even : f32 to bf16
    "bascule.store"(%r, %out, %i, %j) : (bf16, memref<6x40xbf16>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (6, 40)>, schedule = #bascule.schedule<{target = "cuda", order = array<i64: 0, 1>, axes = array<i64: 2>, tile = array<i64: 256>,
      loops = [], warps = 1 : i64, stages = 1 : i64, index_bits = 32 : i64, capability = 90 : i64}>} : () -> ()
  return
}

// A row that fits is read once: the second loop takes the value from registers.
// CHECK-LABEL: "tt.func"
// CHECK: %[[ROW:.*]] = "tt.load"(%{{.*}}, %{{.*}}) {{.*}} -> tensor<16x64xf32>
// CHECK: %[[KEPT:.*]] = arith.select %{{.*}}, %[[ROW]], %{{.*}} : tensor<16x64xi1>, tensor<16x64xf32>
// CHECK: %[[MAX:.*]] = "tt.reduce"(%[[KEPT]])
// CHECK-NEXT: ^bb0(%[[A:.*]]: f32, %[[B:.*]]: f32):
// CHECK-NEXT: %[[C:.*]] = arith.maximumf %[[A]], %[[B]] : f32
// CHECK-NEXT: "tt.reduce.return"(%[[C]])
// CHECK: axis = 1 : i32
// CHECK-NOT: tt.load
// CHECK: arith.subf %[[ROW]], %{{.*}} : tensor<16x64xf32>
// CHECK: sym_name = "centre"
func.func private @centre(%x: memref<100x40xf32>, %out: memref<100x40xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %max = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = memref.load %x[%i, %k] : memref<100x40xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "max", ranges = affine_map<() -> (40)>} : () -> f32
    "bascule.foreach"() ({
    ^bb0(%k: index):
      %e = memref.load %x[%i, %k] : memref<100x40xf32>
      %d = arith.subf %e, %max : f32
      "bascule.store"(%d, %out, %i, %k) : (f32, memref<100x40xf32>, index, index) -> ()
      "bascule.yield"() : () -> ()
    }) {ranges = affine_map<() -> (40)>} : () -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (100)>, schedule = #bascule.schedule<{target = "cuda", order = array<i64: 0>, axes = array<i64: 1>, tile = array<i64: 16>,
      loops = [{along = -1 : i64, evict = "normal", fold = 0 : i64, loops = [], order = array<i64: 0>, step = 64 : i64, walk = 0 : i64}, {along = -1 : i64, evict = "normal", fold = 0 : i64, loops = [], order = array<i64: 0>, step = 64 : i64, walk = 1 : i64}], warps = 1 : i64, stages = 1 : i64, index_bits = 32 : i64, capability = 90 : i64}>} : () -> ()
  return
}

// A schedule for this target decides: here a row in steps, with an accumulator a lane, and one point a program. Masks are for what is left
// of whole steps.
// CHECK-LABEL: "tt.func"
// CHECK: %[[SUMS:.*]] = scf.for %[[K:.*]] = %{{.*}} to %{{.*}} step %{{.*}} iter_args(%[[ACC:.*]] = %{{.*}}) -> (tensor<128xf32>)  : i32 {
// CHECK: %[[NEXT:.*]] = arith.addf %[[ACC]], %{{.*}} : tensor<128xf32>
// CHECK: scf.yield %[[NEXT]]
// CHECK: %[[LEFT:.*]] = arith.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<128xi1>, tensor<128xf32>
// CHECK: %[[ALL:.*]] = arith.addf %[[SUMS]], %[[LEFT]] : tensor<128xf32>
// CHECK: "tt.reduce"(%[[ALL]])
// CHECK: "tt.store"(%{{.*}}, %{{.*}}) {{.*}} : (!tt.ptr<f32>, f32) -> ()
// CHECK: bascule.grid = #[[GRID:.*]], bascule.stages = 3 : i32, bascule.warps = 2 : i32
// CHECK-SAME: sym_name = "walked"
func.func private @walked(%x: memref<100x1000xf32>, %out: memref<100xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = memref.load %x[%i, %k] : memref<100x1000xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (1000)>} : () -> f32
    "bascule.store"(%sum, %out, %i) : (f32, memref<100xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (100)>,
      schedule = #bascule.schedule<{target = "cuda", order = array<i64: 0>, axes = array<i64: 1>, tile = array<i64: 1>,
      loops = [{along = -1 : i64, evict = "normal", fold = 0 : i64, loops = [], order = array<i64: 0>, step = 128 : i64, walk = 0 : i64}], warps = 2 : i64, stages = 3 : i64, index_bits = 32 : i64, capability = 90 : i64}>} : () -> ()
  return
}

// A guarded read is masked by its condition, not by a branch; a boolean is a byte; a dynamic size is a parameter, and then indices have 64 bits.
// CHECK-LABEL: "tt.func"
// CHECK-NEXT: ^bb0(%[[N:.*]]: i64, %{{.*}}: !tt.ptr<i8>, %{{.*}}: !tt.ptr<i8>):
// CHECK: %[[BOUND:.*]] = arith.cmpi slt, %{{.*}}, %{{.*}} : tensor<1024xi64>
// CHECK: %[[GUARD:.*]] = arith.cmpi sge, %{{.*}}, %{{.*}} : tensor<1024xi64>
// CHECK: %[[MASK:.*]] = arith.andi %[[BOUND]], %[[GUARD]] : tensor<1024xi1>
// CHECK: %[[BYTE:.*]] = "tt.load"(%{{.*}}, %[[MASK]])
// CHECK: arith.cmpi ne, %[[BYTE]], %{{.*}} : tensor<1024xi8>
// CHECK-NOT: scf.if
// CHECK: arith.select
// CHECK: arith.extui %{{.*}} : tensor<1024xi1> to tensor<1024xi8>
// CHECK: sym_name = "shift"
func.func private @shift(%n: index, %x: memref<?xi1, affine_map<(d0)[s0] -> (d0)>> {bascule.shape = affine_map<()[s0] -> (s0)>},
                         %out: memref<?xi1, affine_map<(d0)[s0] -> (d0)>> {bascule.shape = affine_map<()[s0] -> (s0)>}) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %zero = arith.constant 0 : index
    %false = arith.constant false
    %before = affine.apply affine_map<(d0) -> (d0 - 1)>(%i)
    %inside = arith.cmpi sge, %before, %zero : index
    %e = scf.if %inside -> (i1) {
      %r = memref.load %x[%before] : memref<?xi1, affine_map<(d0)[s0] -> (d0)>>
      scf.yield %r : i1
    } else {
      scf.yield %false : i1
    }
    "bascule.store"(%e, %out, %i) : (i1, memref<?xi1, affine_map<(d0)[s0] -> (d0)>>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<()[s0] -> (s0)>, schedule = #bascule.schedule<{target = "cuda", order = array<i64: 0>, axes = array<i64: 1>, tile = array<i64: 1024>,
      loops = [], warps = 1 : i64, stages = 1 : i64, index_bits = 64 : i64, capability = 90 : i64}>} : () -> ()
  return
}

// Places that meet take an atomic.
// CHECK-LABEL: "tt.func"
// CHECK: "tt.atomic_rmw"({{.*}}) {atomic_rmw_op = 5 : i32
// CHECK: sym_name = "add"
func.func private @add(%i: memref<9xi64>, %x: memref<9xf32>, %out: memref<4xf32>) {
  "bascule.kernel"() ({
  ^bb0(%k: index):
    %p = memref.load %i[%k] : memref<9xi64>
    %at = arith.index_cast %p : i64 to index
    %e = memref.load %x[%k] : memref<9xf32>
    "bascule.store"(%e, %out, %at) {mode = "add"} : (f32, memref<4xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (9)>, schedule = #bascule.schedule<{target = "cuda", order = array<i64: 0>, axes = array<i64: 1>, tile = array<i64: 32>,
      loops = [], warps = 1 : i64, stages = 1 : i64, index_bits = 32 : i64, capability = 90 : i64}>} : () -> ()
  return
}

// The graph function goes.
// CHECK-NOT: func.func
func.func @main(%i: memref<9xi64>, %x: memref<9xf32>, %out: memref<4xf32>) attributes {bascule.graph} {
  call @add(%i, %x, %out) : (memref<9xi64>, memref<9xf32>, memref<4xf32>) -> ()
  return
}

// RUN: bascule-opt %s --segment-scatters=target=cuda --split-input-file | filecheck %s
// RUN: bascule-opt %s --segment-scatters=target=cuda,always=true,merged=0 --canonicalize --split-input-file | filecheck %s --check-prefix=ALWAYS
// RUN: bascule-opt %s --segment-scatters=target=cuda,always=true --canonicalize --split-input-file | filecheck %s --check-prefix=MERGED
// RUN: bascule-opt %s --segment-scatters=target=cuda,always=true,tile=32768 --split-input-file | filecheck %s --check-prefix=WIDE
// RUN: not bascule-opt %s --segment-scatters=tile=1000 2>&1 | filecheck %s --check-prefix=TILE
// RUN: bascule-opt %s --segment-scatters=always=true --split-input-file | filecheck %s --check-prefix=CPU

// The gradient of an embedding: numbers of rows as integers of 32 bits, beyond the last one for the padding index; their order; where each
// row's points begin; sums of 32 neighbours that go to one row, and of 32 of those; and the rows, rounded where they are made.

// Up to 65536 points are ordered by kernels: keys with the place in a tile below; those of a tile, each at the number of smaller ones; all,
// each at the number of those before it in every tile, with the point below the row.

// TILE: 'tile' is a power of two

#table = affine_map<() -> (128256, 2048)>

// CHECK-LABEL: func.func @embedding
// CPU-LABEL: func.func @embedding
// CPU: bascule.scatter
// ALWAYS-LABEL: func.func @embedding
// ALWAYS: [[KEYS:%[0-9]+]] = "bascule.compute"
// ALWAYS: arith.cmpi eq, %{{.*}}, %{{c7_i64.*}} : i64
// ALWAYS: arith.select %{{.*}}, %{{c128256.*}}, %{{.*}} : index
// ALWAYS: -> tensor<32768xi32>
// ALWAYS: [[SORTED:%[0-9]+]]:2 = call @aten.sort.stable([[KEYS]]) : (tensor<32768xi32>) -> (tensor<32768xi32>, tensor<32768xi64>)
// ALWAYS: [[STARTS:%[0-9]+]] = "bascule.compute"
// ALWAYS: scf.for %{{.*}} = %{{c0_i32.*}} to %{{c16_i32.*}} step
// ALWAYS: -> tensor<128257xi32>
// ALWAYS: [[RUNS:%[0-9]+]] = "bascule.compute"
// ALWAYS: scf.for
// ALWAYS: tensor.extract [[SORTED]]#1
// ALWAYS: -> tensor<1024x2048xf32>
// ALWAYS: [[MORE:%[0-9]+]] = "bascule.compute"
// ALWAYS: scf.for
// ALWAYS: tensor.extract [[RUNS]]
// ALWAYS: -> tensor<32x2048xf32>
// ALWAYS: [[SUMS:%[0-9]+]] = "bascule.compute"
// ALWAYS: tensor.extract [[STARTS]]
// ALWAYS: scf.for {{.*}} iter_args(%{{.*}} = %{{cst.*}}) -> (f32)
// ALWAYS: tensor.extract [[SORTED]]#1
// ALWAYS: arith.remui
// ALWAYS: tensor.extract %arg0
// ALWAYS: arith.addf
// ALWAYS: scf.for
// ALWAYS: tensor.extract [[RUNS]]
// ALWAYS: scf.for
// ALWAYS: tensor.extract [[MORE]]
// ALWAYS: -> tensor<128256x2048xf32>
// ALWAYS: "bascule.compute"
// ALWAYS: tensor.extract [[SUMS]]
// ALWAYS: arith.truncf
// MERGED-LABEL: func.func @embedding
// MERGED: [[KEYS:%[0-9]+]] = "bascule.compute"
// MERGED: -> tensor<32x1024xi32>
// MERGED: [[TILES:%[0-9]+]] = "bascule.scatter"
// MERGED: [[OWN:%.*]] = tensor.extract [[KEYS]]
// MERGED: [[PLACE:%.*]] = "bascule.reduce"
// MERGED: tensor.extract [[KEYS]]
// MERGED: arith.cmpi slt, %{{.*}}, [[OWN]] : i32
// MERGED: kind = "sum"
// MERGED: bascule.whole
// MERGED: [[ORDER:%[0-9]+]] = "bascule.scatter"
// MERGED: "bascule.reduce"
// MERGED-COUNT-11: tensor.extract [[TILES]]
// MERGED: kind = "sum"
// MERGED: arith.ori %{{.*}} : i64
// MERGED: bascule.whole
// MERGED: "bascule.compute"
// MERGED: tensor.extract [[ORDER]]
// MERGED: arith.shrui
// MERGED: -> tensor<128257xi32>
// MERGED: scf.for
// MERGED-NOT: call @aten.sort
// WIDE-LABEL: func.func @embedding
// WIDE: -> tensor<1x32768xi64>
// WIDE: arith.cmpi slt, %{{.*}}, %{{.*}} : i64
// CHECK: bascule.remarks = [{at = {{.*}}, cost = 2457553920 : i64, decision = "as sums of segments of sorted rows", kind = "passed", op = "bascule.scatter", pass = "segment-scatters", reason = "faster than atomics by about 2458 MB of memory traffic"}]
// CHECK-NOT: bascule.scatter
func.func @embedding(%g: tensor<8x4096x2048xbf16>, %i: tensor<8x4096xi64>) -> tensor<128256x2048xbf16> attributes {bascule.graph} {
  %zero = "bascule.compute"() ({
  ^bb0(%v: index, %j: index):
    %0 = arith.constant 0.0 : f32
    "bascule.yield"(%0) : (f32) -> ()
  }) {ranges = #table} : () -> tensor<128256x2048xf32>
  %sums = "bascule.scatter"(%zero) ({
  ^bb0(%b: index, %t: index, %j: index, %dest: tensor<128256x2048xf32>):
    %word = tensor.extract %i[%b, %t] : tensor<8x4096xi64>
    %row = arith.index_cast %word : i64 to index
    %e = tensor.extract %g[%b, %t, %j] : tensor<8x4096x2048xbf16>
    %f = arith.extf %e : bf16 to f32
    %seven = arith.constant 7 : i64
    %0 = arith.constant 0.0 : f32
    %padding = arith.cmpi eq, %word, %seven : i64
    %value = arith.select %padding, %0, %f : f32
    "bascule.store"(%value, %dest, %row, %j) {mode = "add"} : (f32, tensor<128256x2048xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (8, 4096, 2048)>} : (tensor<128256x2048xf32>) -> tensor<128256x2048xf32>
  %out = "bascule.compute"() ({
  ^bb0(%v: index, %j: index):
    %s = tensor.extract %sums[%v, %j] : tensor<128256x2048xf32>
    %r = arith.truncf %s : f32 to bf16
    "bascule.yield"(%r) : (bf16) -> ()
  }) {ranges = #table} : () -> tensor<128256x2048xbf16>
  return %out : tensor<128256x2048xbf16>
}

// -----

// Too little for a sort. With `always`: keys of 16 bits, an init in memory, a number of points that is not known.

#vector = #bascule.layout<affine_map<(d0) -> (d0)>>
#rows = #bascule.layout<affine_map<(d0, d1) -> (d0 * 64 + d1)>>

// CHECK-LABEL: func.func @small
// CHECK: bascule.scatter
// MERGED-LABEL: func.func @small
// MERGED: call @aten.sort.stable
// ALWAYS-LABEL: func.func @small
// ALWAYS: call @aten.sort.stable({{.*}}) {bascule.shapes = {{.*}}} : (tensor<?xi16, #{{.*}}>) -> (tensor<?xi16, #{{.*}}>, tensor<?xi64, #{{.*}}>)
// ALWAYS: arith.minsi %{{.*}} : i64
// ALWAYS: tensor.extract %arg1[%{{.*}}, %{{.*}}] : tensor<100x64xf32>
// ALWAYS-NOT: "bascule.scatter"(
func.func @small(%n: index, %x: tensor<100x64xf32>, %i: tensor<?xi64, #vector> {bascule.shape = affine_map<()[s0] -> (s0)>}, %g: tensor<?x64xf32, #rows> {bascule.shape = affine_map<()[s0] -> (s0, 64)>}) -> tensor<100x64xf32> attributes {bascule.graph, bascule.symbols = ["s0"]} {
  %sums = "bascule.scatter"(%x) ({
  ^bb0(%k: index, %j: index, %dest: tensor<100x64xf32>):
    %number = tensor.extract %i[%k] : tensor<?xi64, #vector>
    %row = arith.index_cast %number : i64 to index
    %e = tensor.extract %g[%k, %j] : tensor<?x64xf32, #rows>
    "bascule.store"(%e, %dest, %row, %j) {mode = "add"} : (f32, tensor<100x64xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<()[s0] -> (s0, 64)>} : (tensor<100x64xf32>) -> tensor<100x64xf32>
  return %sums : tensor<100x64xf32>
}

// -----

// What is no sum of whole rows stays: the largest, parts of rows, an index for each element.

// ALWAYS-LABEL: func.func @others
// ALWAYS-COUNT-3: bascule.scatter
// ALWAYS-NOT: aten.sort
func.func @others(%x: tensor<100x64xf32>, %i: tensor<50xi64>, %each: tensor<50x64xi64>, %g: tensor<50x64xf32>) -> (tensor<100x64xf32>, tensor<100x64xf32>, tensor<100x64xf32>) attributes {bascule.graph} {
  %largest = "bascule.scatter"(%x) ({
  ^bb0(%k: index, %j: index, %dest: tensor<100x64xf32>):
    %number = tensor.extract %i[%k] : tensor<50xi64>
    %row = arith.index_cast %number : i64 to index
    %e = tensor.extract %g[%k, %j] : tensor<50x64xf32>
    "bascule.store"(%e, %dest, %row, %j) {mode = "max"} : (f32, tensor<100x64xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (50, 64)>} : (tensor<100x64xf32>) -> tensor<100x64xf32>
  %parts = "bascule.scatter"(%x) ({
  ^bb0(%k: index, %j: index, %dest: tensor<100x64xf32>):
    %number = tensor.extract %i[%k] : tensor<50xi64>
    %row = arith.index_cast %number : i64 to index
    %e = tensor.extract %g[%k, %j] : tensor<50x64xf32>
    "bascule.store"(%e, %dest, %row, %j) {mode = "add"} : (f32, tensor<100x64xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (50, 32)>} : (tensor<100x64xf32>) -> tensor<100x64xf32>
  %scattered = "bascule.scatter"(%x) ({
  ^bb0(%k: index, %j: index, %dest: tensor<100x64xf32>):
    %number = tensor.extract %each[%k, %j] : tensor<50x64xi64>
    %row = arith.index_cast %number : i64 to index
    %e = tensor.extract %g[%k, %j] : tensor<50x64xf32>
    "bascule.store"(%e, %dest, %row, %j) {mode = "add"} : (f32, tensor<100x64xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (50, 64)>} : (tensor<100x64xf32>) -> tensor<100x64xf32>
  return %largest, %parts, %scattered : tensor<100x64xf32>, tensor<100x64xf32>, tensor<100x64xf32>
}

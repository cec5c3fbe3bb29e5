// RUN: bascule-opt %s --split-input-file --form-kernels --schedule-kernels=target=cuda | filecheck %s
// RUN: bascule-opt %s --split-input-file --form-kernels --schedule-kernels='target=cuda l2-bytes=280000000' | filecheck %s --check-prefix=MORE
// RUN: not bascule-opt %s --split-input-file --form-kernels '--pass-pipeline=builtin.module(schedule-kernels{target=cuda sm-count=0})' 2>&1 | filecheck %s --check-prefix=BAD

// BAD: option 'sm-count' cannot be 0

// Memory runs along the domain, flattened: 16 bytes a thread, 128 threads a program.
// CHECK: axes = array<i64: 2>, capability = 90 : i64, index_bits = 32 : i64, kind = "pointwise", loops = [], order = array<i64: 0, 1>, {{.*}}tile = array<i64: 1024>, warps = 4 : i64
func.func @pointwise(%x: tensor<4096x512xbf16>) -> tensor<4096x512xbf16> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %x[%i, %j] : tensor<4096x512xbf16>
    %f = arith.extf %e : bf16 to f32
    %r = math.exp %f : f32
    %t = arith.truncf %r : f32 to bf16
    "bascule.yield"(%t) : (bf16) -> ()
  }) {ranges = affine_map<() -> (4096, 512)>} : () -> tensor<4096x512xbf16>
  return %0 : tensor<4096x512xbf16>
}

// -----

// Two directions: a tile of two axes.
// CHECK: axes = array<i64: 1, 1>, {{.*}}kind = "transposed", {{.*}}tile = array<i64: 64, 64>, warps = 8 : i64
func.func @transposed(%x: tensor<512x64xf32>, %y: tensor<64x512xf32>) -> tensor<64x512xf32> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %x[%j, %i] : tensor<512x64xf32>
    %f = tensor.extract %y[%i, %j] : tensor<64x512xf32>
    %r = arith.addf %e, %f : f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (64, 512)>} : () -> tensor<64x512xf32>
  return %0 : tensor<64x512xf32>
}

// -----

// All accesses have one memory order, which is not that of the domain: channels-last.
// CHECK: axes = array<i64: 4>, {{.*}}kind = "pointwise", {{.*}}order = array<i64: 0, 2, 3, 1>, {{.*}}tile = array<i64: {{[0-9]+}}>
#last = #bascule.layout<affine_map<(d0, d1, d2, d3) -> (d0 * 50176 + d1 + d2 * 896 + d3 * 16)>>
func.func @channels_last(%x: tensor<4x16x56x56xf32, #last>) -> tensor<4x16x56x56xf32, #last> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%n: index, %c: index, %h: index, %w: index):
    %e = tensor.extract %x[%n, %c, %h, %w] : tensor<4x16x56x56xf32, #last>
    %r = arith.negf %e : f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (4, 16, 56, 56)>} : () -> tensor<4x16x56x56xf32, #last>
  return %0 : tensor<4x16x56x56xf32, #last>
}

// -----

// Of one of 768 three tiles are held: one of 1024 would waste a quarter of the threads.
// CHECK: kind = "row", loops = [{along = -1 : i64, evict = "normal", fold = 0 : i64, held = true, loops = [], order = array<i64: 0>, step = 256 : i64, walk = 0 : i64}], {{.*}}tile = array<i64: 2>, warps = 2 : i64
func.func @tiles(%x: tensor<640x768xf32>) -> tensor<640xf32> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index):
    %r = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %x[%i, %k] : tensor<640x768xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (768)>} : () -> f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (640)>} : () -> tensor<640xf32>
  return %0 : tensor<640xf32>
}

// -----

// A row of 16384 is held in registers and read once.
// CHECK: kind = "row", loops = [{along = -1 : i64, evict = "normal", fold = 0 : i64, loops = [], order = array<i64: 0>, step = 16384 : i64, walk = 0 : i64}], {{.*}}tile = array<i64: 1>, warps = 16 : i64
func.func @rows(%x: tensor<64x16384xf32>) -> tensor<64xf32> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index):
    %r = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %x[%i, %k] : tensor<64x16384xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (16384)>} : () -> f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (64)>} : () -> tensor<64xf32>
  return %0 : tensor<64xf32>
}

// -----

// A reduction across memory: columns in the tile, their rows in steps.
// CHECK: kind = "column", loops = [{{.*}}step = 128 : i64, walk = 0 : i64}], {{.*}}tile = array<i64: 64>
func.func @columns(%x: tensor<4096x16384xf32>) -> tensor<16384xf32> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index):
    %r = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %x[%k, %i] : tensor<4096x16384xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (4096)>} : () -> f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (16384)>} : () -> tensor<16384xf32>
  return %0 : tensor<16384xf32>
}

// -----

// A row that is read twice and too long to hold, by the programs of a cluster too: a program has a multiprocessor to itself, so that the row is still in the cache,
// or but for its first steps, which registers keep. Each thread has one state for all it loads in a step.
// CHECK: evict = "last", fold = 4 : i64, kept = 5 : i64, {{.*}}step = 8192 : i64, walk = 0 : i64}, {{.*}}evict = "first", fold = 4 : i64, kept = 5 : i64, {{.*}}walk = 1 : i64}], {{.*}}warps = 32 : i64
// MORE: evict = "last", fold = 4 : i64, kept = 4 : i64, {{.*}}step = 8192 : i64, walk = 0 : i64}
func.func @walked(%x: tensor<4096x262144xf32>) -> tensor<4096x262144xf32> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index, %u: index):
    %r = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %x[%i, %k] : tensor<4096x262144xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "max", ranges = affine_map<() -> (262144)>} : () -> f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (4096, 1)>} : () -> tensor<4096x1xf32>
  %c0 = arith.constant 0 : index
  %1 = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %x[%i, %j] : tensor<4096x262144xf32>
    %m = tensor.extract %0[%i, %c0] : tensor<4096x1xf32>
    %d = arith.subf %e, %m : f32
    "bascule.yield"(%d) : (f32) -> ()
  }) {ranges = affine_map<() -> (4096, 262144)>} : () -> tensor<4096x262144xf32>
  return %1 : tensor<4096x262144xf32>
}

// -----

// Rows of two tensors side by side: a tile of two axes takes no position apart, and a thread reads 16 bytes at once, as it does of a flat one.
// CHECK: axes = array<i64: 1, 1>, {{.*}}kind = "pointwise", {{.*}}tile = array<i64: 1, 2048>, warps = 8 : i64
func.func @beside(%x: tensor<8192x4096xbf16>, %y: tensor<8192x4096xbf16>) -> tensor<8192x8192xbf16> attributes {bascule.graph} {
  %c4096 = arith.constant 4096 : index
  %0 = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %left = arith.cmpi slt, %j, %c4096 : index
    %e = scf.if %left -> (bf16) {
      %a = tensor.extract %x[%i, %j] : tensor<8192x4096xbf16>
      scf.yield %a : bf16
    } else {
      %k = affine.apply affine_map<(d0) -> (d0 - 4096)>(%j)
      %b = tensor.extract %y[%i, %k] : tensor<8192x4096xbf16>
      scf.yield %b : bf16
    }
    "bascule.yield"(%e) : (bf16) -> ()
  }) {ranges = affine_map<() -> (8192, 8192)>} : () -> tensor<8192x8192xbf16>
  return %0 : tensor<8192x8192xbf16>
}

// -----

// Loops that walk together ask the cache for one thing, whatever each of them reads.

// CHECK-LABEL: func.func private @one_eviction(
// CHECK: {{{.*}}evict = "last"{{[^}]*}}walk = 0 : i64}, {{{.*}}evict = "first"{{[^}]*}}walk = 1 : i64}, {{{.*}}evict = "last"{{[^}]*}}walk = 0 : i64}
func.func private @one_eviction(%x: tensor<4096x20480xf32>, %y: tensor<4096x20480xf32>) -> (tensor<4096x20480xf32>, tensor<20480xf32>) {
  %out = bufferization.alloc_tensor() : tensor<4096x20480xf32>
  %ratio = bufferization.alloc_tensor() : tensor<20480xf32>
  "bascule.kernel"() ({
  ^bb0(%j: index):
    %a = "bascule.reduce"() ({
    ^bb0(%i: index):
      %e = tensor.extract %x[%i, %j] : tensor<4096x20480xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (4096)>} : () -> f32
    %b = "bascule.reduce"() ({
    ^bb0(%i: index):
      %e = tensor.extract %y[%i, %j] : tensor<4096x20480xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "max", ranges = affine_map<() -> (4096)>} : () -> f32
    %r = arith.divf %a, %b : f32
    "bascule.store"(%r, %ratio, %j) : (f32, tensor<20480xf32>, index) -> ()
    "bascule.foreach"() ({
    ^bb0(%i: index):
      %e = tensor.extract %x[%i, %j] : tensor<4096x20480xf32>
      %f = tensor.extract %y[%i, %j] : tensor<4096x20480xf32>
      %s = arith.addf %e, %f : f32
      "bascule.store"(%s, %out, %i, %j) : (f32, tensor<4096x20480xf32>, index, index) -> ()
      "bascule.yield"() : () -> ()
    }) {ranges = affine_map<() -> (4096)>} : () -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (20480)>} : () -> ()
  return %out, %ratio : tensor<4096x20480xf32>, tensor<20480xf32>
}

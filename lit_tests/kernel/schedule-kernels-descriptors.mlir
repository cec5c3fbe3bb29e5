// Factors of contractions that tensor descriptors load: matrices in memory, one side contiguous, strides multiples of 16 bytes.
// RUN: bascule-opt %s --schedule-kernels=target=cuda | filecheck %s
// RUN: bascule-opt %s --schedule-kernels='target=cuda capability=80' | filecheck %s --check-prefix=OLDER

// OLDER-NOT: descriptors

// Rows and columns along which memory does not run are loaded across, and so are those along which it does.
// CHECK-LABEL: func.func private @alike(
// CHECK: along
// CHECK-SAME: descriptors = array<i64: 0, 1>
// CHECK-SAME: dot = true
func.func private @alike(%x: tensor<512x256xbf16>, %y: tensor<256x512xbf16>) -> tensor<512x512xf32> {
  %out = bufferization.alloc_tensor() : tensor<512x512xf32>
  "bascule.kernel"() ({
  ^bb0(%m: index, %n: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %a = tensor.extract %x[%m, %k] : tensor<512x256xbf16>
      %c = arith.extf %a : bf16 to f32
      %d = tensor.extract %y[%k, %n] : tensor<256x512xbf16>
      %g = arith.extf %d : bf16 to f32
      %p = arith.mulf %c, %g : f32
      "bascule.yield"(%p) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (256)>} : () -> f32
    "bascule.store"(%sum, %out, %m, %n) : (f32, tensor<512x512xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (512, 512)>} : () -> ()
  return %out : tensor<512x512xf32>
}

// The batch is a dim of its own, and what is summed may be several that are one in memory.
// CHECK-LABEL: func.func private @batch(
// CHECK: along
// CHECK-SAME: descriptors = array<i64: 0, 1>
// CHECK-SAME: dot = true
func.func private @batch(%x: tensor<4x512x16x16xbf16>, %y: tensor<4x512x256xbf16>) -> tensor<4x512x512xf32> {
  %out = bufferization.alloc_tensor() : tensor<4x512x512xf32>
  "bascule.kernel"() ({
  ^bb0(%b: index, %m: index, %n: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index, %l: index):
      %kl = affine.apply affine_map<(d0, d1) -> (d0 * 16 + d1)>(%k, %l)
      %a = tensor.extract %x[%b, %m, %k, %l] : tensor<4x512x16x16xbf16>
      %c = arith.extf %a : bf16 to f32
      %d = tensor.extract %y[%b, %n, %kl] : tensor<4x512x256xbf16>
      %g = arith.extf %d : bf16 to f32
      %p = arith.mulf %c, %g : f32
      "bascule.yield"(%p) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (16, 16)>} : () -> f32
    "bascule.store"(%sum, %out, %b, %m, %n) : (f32, tensor<4x512x512xf32>, index, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (4, 512, 512)>} : () -> ()
  return %out : tensor<4x512x512xf32>
}

// Heads that lie beside rows, and two of which share one: quotients of the batch are dims too.
// CHECK-LABEL: func.func private @heads(
// CHECK: along
// CHECK-SAME: descriptors = array<i64: 0, 1>
// CHECK-SAME: dot = true
func.func private @heads(%x: tensor<2x512x6x64xbf16>, %y: tensor<2x512x3x64xbf16>) -> tensor<12x512x512xf32> {
  %out = bufferization.alloc_tensor() : tensor<12x512x512xf32>
  "bascule.kernel"() ({
  ^bb0(%b: index, %m: index, %n: index):
    %batch = affine.apply affine_map<(d0) -> (d0 floordiv 6)>(%b)
    %head = affine.apply affine_map<(d0) -> (d0 mod 6)>(%b)
    %shared = affine.apply affine_map<(d0) -> ((d0 mod 6) floordiv 2)>(%b)
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %a = tensor.extract %x[%batch, %m, %head, %k] : tensor<2x512x6x64xbf16>
      %c = arith.extf %a : bf16 to f32
      %d = tensor.extract %y[%batch, %n, %shared, %k] : tensor<2x512x3x64xbf16>
      %g = arith.extf %d : bf16 to f32
      %p = arith.mulf %c, %g : f32
      "bascule.yield"(%p) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (64)>} : () -> f32
    "bascule.store"(%sum, %out, %b, %m, %n) : (f32, tensor<12x512x512xf32>, index, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (12, 512, 512)>} : () -> ()
  return %out : tensor<12x512x512xf32>
}

// A slice ends where its dims end.
// CHECK-LABEL: func.func private @slice(
// CHECK: along
// CHECK-SAME: descriptors = array<i64: 0, 1>
// CHECK-SAME: dot = true
func.func private @slice(%x: tensor<512x256xbf16, #bascule.layout<affine_map<(d0, d1) -> (d0 * 272 + d1 + 16)>>>, %y: tensor<512x256xbf16>) -> tensor<512x512xf32> {
  %out = bufferization.alloc_tensor() : tensor<512x512xf32>
  "bascule.kernel"() ({
  ^bb0(%m: index, %n: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %a = tensor.extract %x[%m, %k] : tensor<512x256xbf16, #bascule.layout<affine_map<(d0, d1) -> (d0 * 272 + d1 + 16)>>>
      %c = arith.extf %a : bf16 to f32
      %d = tensor.extract %y[%n, %k] : tensor<512x256xbf16>
      %g = arith.extf %d : bf16 to f32
      %p = arith.mulf %c, %g : f32
      "bascule.yield"(%p) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (256)>} : () -> f32
    "bascule.store"(%sum, %out, %m, %n) : (f32, tensor<512x512xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (512, 512)>} : () -> ()
  return %out : tensor<512x512xf32>
}

// Rows of 129 elements begin anywhere.
// CHECK-LABEL: func.func private @ragged(
// CHECK: along
// CHECK-SAME: descriptors = array<i64: 1>
// CHECK-SAME: dot = true
func.func private @ragged(%x: tensor<512x129xbf16>, %y: tensor<129x512xbf16>) -> tensor<512x512xf32> {
  %out = bufferization.alloc_tensor() : tensor<512x512xf32>
  "bascule.kernel"() ({
  ^bb0(%m: index, %n: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %a = tensor.extract %x[%m, %k] : tensor<512x129xbf16>
      %c = arith.extf %a : bf16 to f32
      %d = tensor.extract %y[%k, %n] : tensor<129x512xbf16>
      %g = arith.extf %d : bf16 to f32
      %p = arith.mulf %c, %g : f32
      "bascule.yield"(%p) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (129)>} : () -> f32
    "bascule.store"(%sum, %out, %m, %n) : (f32, tensor<512x512xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (512, 512)>} : () -> ()
  return %out : tensor<512x512xf32>
}

// A slice that does not begin at 16 bytes.
// CHECK-LABEL: func.func private @offset(
// CHECK: along
// CHECK-SAME: descriptors = array<i64: 1>
// CHECK-SAME: dot = true
func.func private @offset(%x: tensor<512x256xbf16, #bascule.layout<affine_map<(d0, d1) -> (d0 * 272 + d1 + 4)>>>, %y: tensor<512x256xbf16>) -> tensor<512x512xf32> {
  %out = bufferization.alloc_tensor() : tensor<512x512xf32>
  "bascule.kernel"() ({
  ^bb0(%m: index, %n: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %a = tensor.extract %x[%m, %k] : tensor<512x256xbf16, #bascule.layout<affine_map<(d0, d1) -> (d0 * 272 + d1 + 4)>>>
      %c = arith.extf %a : bf16 to f32
      %d = tensor.extract %y[%n, %k] : tensor<512x256xbf16>
      %g = arith.extf %d : bf16 to f32
      %p = arith.mulf %c, %g : f32
      "bascule.yield"(%p) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (256)>} : () -> f32
    "bascule.store"(%sum, %out, %m, %n) : (f32, tensor<512x512xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (512, 512)>} : () -> ()
  return %out : tensor<512x512xf32>
}

// Every third element, rows in reverse.
// CHECK-LABEL: func.func private @strides(
// CHECK-NOT: descriptors
// CHECK: dot = true
func.func private @strides(%x: tensor<512x256xbf16, #bascule.layout<affine_map<(d0, d1) -> (d0 * 768 + d1 * 3)>>>, %y: tensor<512x256xbf16>) -> tensor<512x512xf32> {
  %out = bufferization.alloc_tensor() : tensor<512x512xf32>
  "bascule.kernel"() ({
  ^bb0(%m: index, %n: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %a = tensor.extract %x[%m, %k] : tensor<512x256xbf16, #bascule.layout<affine_map<(d0, d1) -> (d0 * 768 + d1 * 3)>>>
      %c = arith.extf %a : bf16 to f32
      %r = affine.apply affine_map<(d0) -> (511 - d0)>(%n)
      %d = tensor.extract %y[%r, %k] : tensor<512x256xbf16>
      %g = arith.extf %d : bf16 to f32
      %p = arith.mulf %c, %g : f32
      "bascule.yield"(%p) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (256)>} : () -> f32
    "bascule.store"(%sum, %out, %m, %n) : (f32, tensor<512x512xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (512, 512)>} : () -> ()
  return %out : tensor<512x512xf32>
}

// A factor that is computed.
// CHECK-LABEL: func.func private @computed(
// CHECK: along
// CHECK-SAME: descriptors = array<i64: 1>
// CHECK-SAME: dot = true
func.func private @computed(%x: tensor<512x256xbf16>, %y: tensor<512x256xbf16>) -> tensor<512x512xf32> {
  %out = bufferization.alloc_tensor() : tensor<512x512xf32>
  "bascule.kernel"() ({
  ^bb0(%m: index, %n: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %r = tensor.extract %x[%m, %k] : tensor<512x256xbf16>
      %a = arith.addf %r, %r : bf16
      %c = arith.extf %a : bf16 to f32
      %d = tensor.extract %y[%n, %k] : tensor<512x256xbf16>
      %g = arith.extf %d : bf16 to f32
      %p = arith.mulf %c, %g : f32
      "bascule.yield"(%p) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (256)>} : () -> f32
    "bascule.store"(%sum, %out, %m, %n) : (f32, tensor<512x512xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (512, 512)>} : () -> ()
  return %out : tensor<512x512xf32>
}

// Factors of f32 are multiplied in registers.
// CHECK-LABEL: func.func private @wide(
// CHECK-NOT: descriptors
// CHECK: dot = true
func.func private @wide(%x: tensor<512x256xf32>, %y: tensor<512x256xf32>) -> tensor<512x512xf32> {
  %out = bufferization.alloc_tensor() : tensor<512x512xf32>
  "bascule.kernel"() ({
  ^bb0(%m: index, %n: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %a = tensor.extract %x[%m, %k] : tensor<512x256xf32>
      %d = tensor.extract %y[%n, %k] : tensor<512x256xf32>
      %p = arith.mulf %a, %d : f32
      "bascule.yield"(%p) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (256)>} : () -> f32
    "bascule.store"(%sum, %out, %m, %n) : (f32, tensor<512x512xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (512, 512)>} : () -> ()
  return %out : tensor<512x512xf32>
}

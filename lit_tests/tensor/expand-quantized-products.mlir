// Products of operands of few bits become computes for tensor cores, where these take no longer than a call.
// RUN: bascule-opt %s --expand-quantized-products=target=cuda | filecheck %s
// RUN: bascule-opt %s --expand-quantized-products='target=cuda form=once' | filecheck %s --check-prefix=ONCE
// RUN: bascule-opt %s --expand-quantized-products='target=cuda form=call' | filecheck %s --check-prefix=CALLS
// RUN: bascule-opt %s --expand-quantized-products='target=cuda capability=80' | filecheck %s --check-prefix=CALLS
// RUN: bascule-opt %s --expand-quantized-products=target=cpu | filecheck %s --check-prefix=CALLS

#transposed = #bascule.layout<affine_map<(d0, d1) -> (d0 + d1 * 256)>>

func.func private @aten._scaled_mm(tensor<256x256xf8E4M3FN>, tensor<256x512xf8E4M3FN, #transposed>, tensor<256x1xf32>, tensor<1x512xf32>, tensor<512xbf16>) -> tensor<256x512xbf16> attributes {bascule.extern = "aten._scaled_mm.default", bascule.arguments = [#bascule.operand<0>, #bascule.operand<1>, #bascule.operand<2>, #bascule.operand<3>, #bascule.operand<4>, unit, 15, false], bascule.results = array<i64: 0>}
func.func private @aten._scaled_mm_0(tensor<256x256xf8E4M3FN>, tensor<256x512xf8E4M3FN, #transposed>, tensor<256x2xf32>, tensor<2x512xf32>) -> tensor<256x512xbf16> attributes {bascule.extern = "aten._scaled_mm.default", bascule.arguments = [#bascule.operand<0>, #bascule.operand<1>, #bascule.operand<2>, #bascule.operand<3>, unit, unit, 15, true], bascule.results = array<i64: 0>}
func.func private @aten._int_mm(tensor<256x256xi8>, tensor<256x512xi8, #transposed>) -> tensor<256x512xi32> attributes {bascule.extern = "aten._int_mm.default", bascule.arguments = [#bascule.operand<0>, #bascule.operand<1>], bascule.results = array<i64: 0>}
func.func private @aten._int_mm_0(tensor<256x256xi8>, tensor<256x512xi8>) -> tensor<256x512xi32> attributes {bascule.extern = "aten._int_mm.default", bascule.arguments = [#bascule.operand<0>, #bascule.operand<1>], bascule.results = array<i64: 0>}
func.func private @aten.mm(tensor<64x256xbf16>, tensor<256x512xbf16, #transposed>) -> tensor<64x512xbf16> attributes {bascule.extern = "aten.mm.default", bascule.arguments = [#bascule.operand<0>, #bascule.operand<1>], bascule.results = array<i64: 0>}

// With its scales and bias; sums of 128 elements may have fewer bits. What reads it would be a kernel after a call.
// CHECK-LABEL: func.func @floats
// CALLS-LABEL: func.func @floats
// CALLS: call @aten._scaled_mm(
// CHECK: %[[SUM:.*]] = "bascule.reduce"
// CHECK: arith.extf %{{.*}} : f8E4M3FN to f32
// CHECK: arith.extf %{{.*}} : f8E4M3FN to f32
// CHECK: {bascule.partial_sums = 128 : i64, kind = "sum"
// CHECK: arith.mulf %[[SUM]]
// CHECK: arith.mulf
// CHECK: arith.addf
// CHECK: arith.truncf %{{.*}} : f32 to bf16
func.func @floats(%x: tensor<256x256xf8E4M3FN>, %w: tensor<256x512xf8E4M3FN, #transposed>, %a: tensor<256x1xf32>, %b: tensor<1x512xf32>, %c: tensor<512xbf16>) -> tensor<256x512xbf16> attributes {bascule.graph} {
  %p = call @aten._scaled_mm(%x, %w, %a, %b, %c) : (tensor<256x256xf8E4M3FN>, tensor<256x512xf8E4M3FN, #transposed>, tensor<256x1xf32>, tensor<1x512xf32>, tensor<512xbf16>) -> tensor<256x512xbf16>
  %r = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %p[%i, %j] : tensor<256x512xbf16>
    %m = arith.negf %e : bf16
    "bascule.yield"(%m) : (bf16) -> ()
  }) {ranges = affine_map<() -> (256, 512)>} : () -> tensor<256x512xbf16>
  return %r : tensor<256x512xbf16>
}

// Scales of blocks are the library's.
// CHECK-LABEL: func.func @blocks
// CHECK: call @aten._scaled_mm_0
func.func @blocks(%x: tensor<256x256xf8E4M3FN>, %w: tensor<256x512xf8E4M3FN, #transposed>, %a: tensor<256x2xf32>, %b: tensor<2x512xf32>) -> tensor<256x512xbf16> attributes {bascule.graph} {
  %p = call @aten._scaled_mm_0(%x, %w, %a, %b) : (tensor<256x256xf8E4M3FN>, tensor<256x512xf8E4M3FN, #transposed>, tensor<256x2xf32>, tensor<2x512xf32>) -> tensor<256x512xbf16>
  return %p : tensor<256x512xbf16>
}

// CHECK-LABEL: func.func @integers
// CALLS-LABEL: func.func @integers
// CALLS: call @aten._int_mm(
// CHECK: arith.extsi %{{.*}} : i8 to i32
// CHECK: arith.extsi %{{.*}} : i8 to i32
// CHECK: arith.muli %{{.*}} : i32
// CHECK: {kind = "sum"
// CHECK: "bascule.yield"(%{{.*}}) : (i32)
func.func @integers(%x: tensor<256x256xi8>, %w: tensor<256x512xi8, #transposed>) -> tensor<256x512xf32> attributes {bascule.graph} {
  %p = call @aten._int_mm(%x, %w) : (tensor<256x256xi8>, tensor<256x512xi8, #transposed>) -> tensor<256x512xi32>
  %r = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %p[%i, %j] : tensor<256x512xi32>
    %m = arith.sitofp %e : i32 to f32
    "bascule.yield"(%m) : (f32) -> ()
  }) {ranges = affine_map<() -> (256, 512)>} : () -> tensor<256x512xf32>
  return %r : tensor<256x512xf32>
}

// Alone it is as fast in the library; and tensor cores take bytes along what is summed.
// CHECK-LABEL: func.func @alone
// CHECK: call @aten._int_mm(
// CHECK-SAME: decision = "of few bits stays a call"
// CHECK-SAME: reason = "it takes about {{.*}} us, in a kernel {{.*}} us"
// CHECK: call @aten._int_mm_0
// CHECK-SAME: reason = "memory does not run along what is summed in both operands"
func.func @alone(%x: tensor<256x256xi8>, %w: tensor<256x512xi8, #transposed>, %v: tensor<256x512xi8>) -> (tensor<256x512xi32>, tensor<256x512xi32>) attributes {bascule.graph} {
  %p = call @aten._int_mm(%x, %w) : (tensor<256x256xi8>, tensor<256x512xi8, #transposed>) -> tensor<256x512xi32>
  %q = call @aten._int_mm_0(%x, %v) : (tensor<256x256xi8>, tensor<256x512xi8>) -> tensor<256x512xi32>
  return %p, %q : tensor<256x512xi32>, tensor<256x512xi32>
}

// A weight of 8 bits is widened in the product of few rows, and rounded to its type there; or once before it.
// CHECK-LABEL: func.func @weight(
// CALLS-LABEL: func.func @weight(
// CALLS: call @aten.mm(
// ONCE-LABEL: func.func @weight(
// CHECK: arith.sitofp
// CHECK: {bascule.inlined, ranges
// CHECK: arith.extf %{{.*}} : bf16 to f32
// CHECK: arith.truncf %{{.*}} to_nearest_even : f32 to bf16
// CHECK: kind = "sum"
// CHECK: reason = "inside, of inside {{.*}} us, once {{.*}} us, a call {{.*}} us"
// ONCE: arith.sitofp
// ONCE: {bascule.stored, ranges
// ONCE-NOT: to_nearest_even
// ONCE: kind = "sum"
func.func @weight(%x: tensor<64x256xbf16>, %w: tensor<512x256xi8>) -> tensor<64x512xbf16> attributes {bascule.graph} {
  %wide = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %w[%i, %j] : tensor<512x256xi8>
    %f = arith.sitofp %e : i8 to f32
    %g = arith.truncf %f : f32 to bf16
    "bascule.yield"(%g) : (bf16) -> ()
  }) {ranges = affine_map<() -> (512, 256)>} : () -> tensor<512x256xbf16>
  %t = "bascule.view"(%wide) {map = affine_map<(d0, d1) -> (d1, d0)>, shape = affine_map<() -> (256, 512)>} : (tensor<512x256xbf16>) -> tensor<256x512xbf16, #transposed>
  %p = call @aten.mm(%x, %t) : (tensor<64x256xbf16>, tensor<256x512xbf16, #transposed>) -> tensor<64x512xbf16>
  return %p : tensor<64x512xbf16>
}

// It is in memory for another reader, and one that is only repeated has as many bits.
// CHECK-LABEL: func.func @read_elsewhere
// CHECK: call @aten.mm(
// CHECK-LABEL: func.func @repeated
// CHECK: call @aten.mm(
func.func @read_elsewhere(%x: tensor<64x256xbf16>, %w: tensor<512x256xi8>) -> (tensor<64x512xbf16>, tensor<512x256xbf16>) attributes {bascule.graph} {
  %wide = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %w[%i, %j] : tensor<512x256xi8>
    %f = arith.sitofp %e : i8 to f32
    %g = arith.truncf %f : f32 to bf16
    "bascule.yield"(%g) : (bf16) -> ()
  }) {ranges = affine_map<() -> (512, 256)>} : () -> tensor<512x256xbf16>
  %t = "bascule.view"(%wide) {map = affine_map<(d0, d1) -> (d1, d0)>, shape = affine_map<() -> (256, 512)>} : (tensor<512x256xbf16>) -> tensor<256x512xbf16, #transposed>
  %p = call @aten.mm(%x, %t) : (tensor<64x256xbf16>, tensor<256x512xbf16, #transposed>) -> tensor<64x512xbf16>
  return %p, %wide : tensor<64x512xbf16>, tensor<512x256xbf16>
}

func.func @repeated(%x: tensor<64x256xbf16>, %w: tensor<256xbf16>) -> tensor<64x512xbf16> attributes {bascule.graph} {
  %wide = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %w[%j] : tensor<256xbf16>
    "bascule.yield"(%e) : (bf16) -> ()
  }) {ranges = affine_map<() -> (512, 256)>} : () -> tensor<512x256xbf16>
  %t = "bascule.view"(%wide) {map = affine_map<(d0, d1) -> (d1, d0)>, shape = affine_map<() -> (256, 512)>} : (tensor<512x256xbf16>) -> tensor<256x512xbf16, #transposed>
  %p = call @aten.mm(%x, %t) : (tensor<64x256xbf16>, tensor<256x512xbf16, #transposed>) -> tensor<64x512xbf16>
  return %p : tensor<64x512xbf16>
}

// RUN: bascule-opt %s --expand-products='target=cuda' | filecheck %s
// RUN: bascule-opt %s --expand-products | filecheck %s --check-prefix=CPU
// RUN: bascule-opt %s --pass-pipeline='expand-products{target=cuda},fold-views,simplify-indexing,inline-producers{target=cuda},fuse-attention{target=cuda},fuse-products{target=cuda},split-reductions{target=cuda},widen-intermediates,form-kernels{target=cuda},isolate-kernels,flatten-kernels,group-launches{target=cuda},schedule-kernels{target=cuda}' | filecheck %s --check-prefix=KERNELS
// RUN: bascule-run %s --interpret-only --pipeline='expand-products{target=cuda},form-kernels{target=cuda}'

// A product that was measured as a kernel: a call with its schedule. Without the mark it is a call.

#tuned = {descriptors = array<i64: 0>, group = 16 : i64, stages = 2 : i64, step = 32 : i64, tile = array<i64: 32, 128>, warps = 8 : i64}

func.func private @aten.mm(tensor<64x48xbf16>, tensor<48x80xbf16>) -> tensor<64x80xbf16> attributes {bascule.extern = "aten.mm.default", bascule.arguments = [#bascule.operand<0>, #bascule.operand<1>], bascule.results = array<i64: 0>, bascule.out = "aten.mm.out"}
func.func private @aten.mm_1(tensor<64x80xbf16>, tensor<80x48xbf16>) -> tensor<64x48xbf16> attributes {bascule.extern = "aten.mm.default", bascule.arguments = [#bascule.operand<0>, #bascule.operand<1>], bascule.results = array<i64: 0>, bascule.out = "aten.mm.out"}

// CPU-COUNT-3: call @aten.mm

// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<64x48xbf16>, %w: tensor<48x80xbf16>, %v: tensor<48x80xbf16>, %u: tensor<80x48xbf16>) -> (tensor<64x48xbf16>, tensor<64x80xbf16>) attributes {bascule.graph} {
  // The mark, and the remarks, go to the sum, and to the compute.
  // CHECK: "bascule.reduce"
  // CHECK: {bascule.tuned_product = {descriptors = array<i64: 0>, group = 16 : i64, stages = 2 : i64, step = 32 : i64, tile = array<i64: 32, 128>, warps = 8 : i64}, kind = "sum"
  // CHECK: bascule.remarks = ["measured"]
  // CHECK-NOT: expanded
  %0 = call @aten.mm(%x, %w) {bascule.tuned_product = #tuned, bascule.remarks = ["measured"]} : (tensor<64x48xbf16>, tensor<48x80xbf16>) -> tensor<64x80xbf16>
  %1 = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %0[%i, %j] : tensor<64x80xbf16>
    %f = arith.extf %e : bf16 to f32
    %t = math.tanh %f : f32
    %r = arith.truncf %t : f32 to bf16
    "bascule.yield"(%r) : (bf16) -> ()
  // What a product reads stays in memory, as when it was measured.
  // CHECK: math.tanh
  // CHECK: bascule.stored
  }) {ranges = affine_map<() -> (64, 80)>} : () -> tensor<64x80xbf16>
  // A unit asks for the schedule's own plan.
  // CHECK: {bascule.tuned_product, kind = "sum"
  %2 = call @aten.mm_1(%1, %u) {bascule.tuned_product} : (tensor<64x80xbf16>, tensor<80x48xbf16>) -> tensor<64x48xbf16>
  // CHECK: call @aten.mm(
  %3 = call @aten.mm(%x, %v) : (tensor<64x48xbf16>, tensor<48x80xbf16>) -> tensor<64x80xbf16>
  return %2, %3 : tensor<64x48xbf16>, tensor<64x80xbf16>
}

// Neither fused with the other product, as an attention's would be, nor launched with it; what follows is in the kernel, with the schedule.
// KERNELS: "bascule.kernel"
// KERNELS: math.tanh
// KERNELS: schedule = #bascule.schedule<{axes = array<i64: 1, 1>, capability = 90 : i64, group = 16 : i64, index_bits = 32 : i64, kind = "contraction", loops = [{along = -1 : i64, descriptors = array<i64: 0>, dot = true, evict = "normal", fold = 0 : i64, loops = [], order = array<i64: 0>, step = 32 : i64, walk = 0 : i64}], order = array<i64: 0, 1>, stages = 2 : i64, target = "cuda", tile = array<i64: 32, 128>, warps = 8 : i64}>
// KERNELS: "bascule.kernel"
// KERNELS-NOT: math.tanh
// KERNELS: kind = "contraction"
// KERNELS: call @aten.mm(

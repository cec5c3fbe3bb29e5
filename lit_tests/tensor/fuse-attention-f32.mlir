// Attention by hand in f32, as a model's graph has it, with both products marked: one kernel without scores in memory, whose products are exact, or
// in TF32 where PyTorch allows it. Of large heads a step has half of the keys and twice the warps, exact products half of the rows; heads that
// shared memory has no room for are multiplied in pieces. Where there are no tensor cores its products stay calls.
// RUN: bascule-opt %s --pass-pipeline='expand-products{target=cuda},fold-views,simplify-indexing,inline-producers{target=cuda},fuse-attention{target=cuda},form-kernels{target=cuda},flatten-kernels{target=cuda},online-softmax{target=cuda},schedule-kernels{target=cuda}' | filecheck %s --check-prefixes=CHECK,EXACT
// RUN: bascule-opt %s --pass-pipeline='expand-products{target=cuda tf32=true},fold-views,simplify-indexing,inline-producers{target=cuda},fuse-attention{target=cuda},form-kernels{target=cuda},flatten-kernels{target=cuda},online-softmax{target=cuda},schedule-kernels{target=cuda}' | filecheck %s --check-prefixes=CHECK,TF32
// RUN: bascule-opt %s --expand-products='target=cuda capability=75' | filecheck %s --check-prefix=BEFORE
// RUN: bascule-run %s --function=of_16 --interpret-only --pipeline='expand-products{target=cuda},fold-views,simplify-indexing,inline-producers{target=cuda},fuse-attention{target=cuda}'

// BEFORE-COUNT-8: call @aten.bmm

func.func private @aten.bmm_scores_16(tensor<2x20x16xf32>, tensor<2x16x40xf32, #bascule.layout<affine_map<(d0, d1, d2) -> (d0 * 640 + d1 + d2 * 16)>>>) -> tensor<2x20x40xf32> attributes {bascule.arguments = [#bascule.operand<0 : i64>, #bascule.operand<1 : i64>], bascule.extern = "aten.bmm.default", bascule.out = "aten.bmm.out", bascule.results = array<i64: 0>}
func.func private @aten.bmm_values_16(tensor<2x20x40xf32>, tensor<2x40x16xf32>) -> tensor<2x20x16xf32> attributes {bascule.arguments = [#bascule.operand<0 : i64>, #bascule.operand<1 : i64>], bascule.extern = "aten.bmm.default", bascule.out = "aten.bmm.out", bascule.results = array<i64: 0>}
func.func private @aten.bmm_scores_64(tensor<64x400x64xf32>, tensor<64x64x700xf32, #bascule.layout<affine_map<(d0, d1, d2) -> (d0 * 44800 + d1 + d2 * 64)>>>) -> tensor<64x400x700xf32> attributes {bascule.arguments = [#bascule.operand<0 : i64>, #bascule.operand<1 : i64>], bascule.extern = "aten.bmm.default", bascule.out = "aten.bmm.out", bascule.results = array<i64: 0>}
func.func private @aten.bmm_values_64(tensor<64x400x700xf32>, tensor<64x700x64xf32>) -> tensor<64x400x64xf32> attributes {bascule.arguments = [#bascule.operand<0 : i64>, #bascule.operand<1 : i64>], bascule.extern = "aten.bmm.default", bascule.out = "aten.bmm.out", bascule.results = array<i64: 0>}
func.func private @aten.bmm_scores_256(tensor<64x400x256xf32>, tensor<64x256x700xf32, #bascule.layout<affine_map<(d0, d1, d2) -> (d0 * 179200 + d1 + d2 * 256)>>>) -> tensor<64x400x700xf32> attributes {bascule.arguments = [#bascule.operand<0 : i64>, #bascule.operand<1 : i64>], bascule.extern = "aten.bmm.default", bascule.out = "aten.bmm.out", bascule.results = array<i64: 0>}
func.func private @aten.bmm_values_256(tensor<64x400x700xf32>, tensor<64x700x256xf32>) -> tensor<64x400x256xf32> attributes {bascule.arguments = [#bascule.operand<0 : i64>, #bascule.operand<1 : i64>], bascule.extern = "aten.bmm.default", bascule.out = "aten.bmm.out", bascule.results = array<i64: 0>}
func.func private @aten.bmm_scores_512(tensor<64x400x512xf32>, tensor<64x512x700xf32, #bascule.layout<affine_map<(d0, d1, d2) -> (d0 * 358400 + d1 + d2 * 512)>>>) -> tensor<64x400x700xf32> attributes {bascule.arguments = [#bascule.operand<0 : i64>, #bascule.operand<1 : i64>], bascule.extern = "aten.bmm.default", bascule.out = "aten.bmm.out", bascule.results = array<i64: 0>}
func.func private @aten.bmm_values_512(tensor<64x400x700xf32>, tensor<64x700x512xf32>) -> tensor<64x400x512xf32> attributes {bascule.arguments = [#bascule.operand<0 : i64>, #bascule.operand<1 : i64>], bascule.extern = "aten.bmm.default", bascule.out = "aten.bmm.out", bascule.results = array<i64: 0>}

func.func @of_16(%q: tensor<2x20x16xf32>, %k: tensor<2x40x16xf32>, %v: tensor<2x40x16xf32>) -> tensor<2x20x16xf32> attributes {bascule.graph} {
  %zero = arith.constant 0 : index
  %turned = "bascule.view"(%k) {map = affine_map<(d0, d1, d2) -> (d0, d2, d1)>, shape = affine_map<() -> (2, 16, 40)>} : (tensor<2x40x16xf32>) -> tensor<2x16x40xf32, #bascule.layout<affine_map<(d0, d1, d2) -> (d0 * 640 + d1 + d2 * 16)>>>
  %scores = call @aten.bmm_scores_16(%q, %turned) {bascule.fused} : (tensor<2x20x16xf32>, tensor<2x16x40xf32, #bascule.layout<affine_map<(d0, d1, d2) -> (d0 * 640 + d1 + d2 * 16)>>>) -> tensor<2x20x40xf32>
  %most = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %0 = "bascule.reduce"() ({
    ^bb0(%j: index):
      %x = tensor.extract %scores[%b, %i, %j] : tensor<2x20x40xf32>
      "bascule.yield"(%x) : (f32) -> ()
    }) {kind = "max", ranges = affine_map<() -> (40)>} : () -> f32
    "bascule.yield"(%0) : (f32) -> ()
  }) {ranges = affine_map<() -> (2, 20, 1)>} : () -> tensor<2x20x1xf32>
  %powers = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %x = tensor.extract %scores[%b, %i, %n] : tensor<2x20x40xf32>
    %m = tensor.extract %most[%b, %i, %zero] : tensor<2x20x1xf32>
    %0 = arith.subf %x, %m : f32
    %1 = math.exp %0 : f32
    "bascule.yield"(%1) : (f32) -> ()
  }) {ranges = affine_map<() -> (2, 20, 40)>} : () -> tensor<2x20x40xf32>
  %total = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %0 = "bascule.reduce"() ({
    ^bb0(%j: index):
      %x = tensor.extract %powers[%b, %i, %j] : tensor<2x20x40xf32>
      "bascule.yield"(%x) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (40)>} : () -> f32
    "bascule.yield"(%0) : (f32) -> ()
  }) {ranges = affine_map<() -> (2, 20, 1)>} : () -> tensor<2x20x1xf32>
  %weights = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %x = tensor.extract %powers[%b, %i, %n] : tensor<2x20x40xf32>
    %t = tensor.extract %total[%b, %i, %zero] : tensor<2x20x1xf32>
    %0 = arith.divf %x, %t : f32
    "bascule.yield"(%0) : (f32) -> ()
  }) {ranges = affine_map<() -> (2, 20, 40)>} : () -> tensor<2x20x40xf32>
  %result = call @aten.bmm_values_16(%weights, %v) {bascule.fused} : (tensor<2x20x40xf32>, tensor<2x40x16xf32>) -> tensor<2x20x16xf32>
  return %result : tensor<2x20x16xf32>
}

// CHECK: "bascule.kernel"
// EXACT-NOT: input_precision
// TF32-COUNT-2: bascule.input_precision = "tf32"
// EXACT: kind = "attention", loops = [{{.*}}step = 64 : i64{{.*}}tile = array<i64: 1, 64, 64>, warps = 4 : i64
// TF32: kind = "attention", loops = [{{.*}}step = 64 : i64{{.*}}tile = array<i64: 1, 64, 64>, warps = 4 : i64
// CHECK-NOT: "bascule.kernel"
// CHECK-LABEL: func.func @of_64
// CHECK-NOT: aten.bmm
func.func @of_64(%q: tensor<64x400x64xf32>, %k: tensor<64x700x64xf32>, %v: tensor<64x700x64xf32>) -> tensor<64x400x64xf32> attributes {bascule.graph} {
  %zero = arith.constant 0 : index
  %turned = "bascule.view"(%k) {map = affine_map<(d0, d1, d2) -> (d0, d2, d1)>, shape = affine_map<() -> (64, 64, 700)>} : (tensor<64x700x64xf32>) -> tensor<64x64x700xf32, #bascule.layout<affine_map<(d0, d1, d2) -> (d0 * 44800 + d1 + d2 * 64)>>>
  %scores = call @aten.bmm_scores_64(%q, %turned) {bascule.fused} : (tensor<64x400x64xf32>, tensor<64x64x700xf32, #bascule.layout<affine_map<(d0, d1, d2) -> (d0 * 44800 + d1 + d2 * 64)>>>) -> tensor<64x400x700xf32>
  %most = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %0 = "bascule.reduce"() ({
    ^bb0(%j: index):
      %x = tensor.extract %scores[%b, %i, %j] : tensor<64x400x700xf32>
      "bascule.yield"(%x) : (f32) -> ()
    }) {kind = "max", ranges = affine_map<() -> (700)>} : () -> f32
    "bascule.yield"(%0) : (f32) -> ()
  }) {ranges = affine_map<() -> (64, 400, 1)>} : () -> tensor<64x400x1xf32>
  %powers = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %x = tensor.extract %scores[%b, %i, %n] : tensor<64x400x700xf32>
    %m = tensor.extract %most[%b, %i, %zero] : tensor<64x400x1xf32>
    %0 = arith.subf %x, %m : f32
    %1 = math.exp %0 : f32
    "bascule.yield"(%1) : (f32) -> ()
  }) {ranges = affine_map<() -> (64, 400, 700)>} : () -> tensor<64x400x700xf32>
  %total = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %0 = "bascule.reduce"() ({
    ^bb0(%j: index):
      %x = tensor.extract %powers[%b, %i, %j] : tensor<64x400x700xf32>
      "bascule.yield"(%x) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (700)>} : () -> f32
    "bascule.yield"(%0) : (f32) -> ()
  }) {ranges = affine_map<() -> (64, 400, 1)>} : () -> tensor<64x400x1xf32>
  %weights = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %x = tensor.extract %powers[%b, %i, %n] : tensor<64x400x700xf32>
    %t = tensor.extract %total[%b, %i, %zero] : tensor<64x400x1xf32>
    %0 = arith.divf %x, %t : f32
    "bascule.yield"(%0) : (f32) -> ()
  }) {ranges = affine_map<() -> (64, 400, 700)>} : () -> tensor<64x400x700xf32>
  %result = call @aten.bmm_values_64(%weights, %v) {bascule.fused} : (tensor<64x400x700xf32>, tensor<64x700x64xf32>) -> tensor<64x400x64xf32>
  return %result : tensor<64x400x64xf32>
}

// CHECK: "bascule.kernel"
// EXACT-NOT: input_precision
// TF32-COUNT-2: bascule.input_precision = "tf32"
// EXACT: kind = "attention", loops = [{{.*}}step = 256 : i64{{.*}}tile = array<i64: 1, 32, 256>, warps = 8 : i64
// TF32: kind = "attention", loops = [{{.*}}step = 256 : i64{{.*}}tile = array<i64: 1, 64, 256>, warps = 8 : i64
// CHECK-NOT: "bascule.kernel"
// CHECK-LABEL: func.func @of_256
// CHECK-NOT: aten.bmm
func.func @of_256(%q: tensor<64x400x256xf32>, %k: tensor<64x700x256xf32>, %v: tensor<64x700x256xf32>) -> tensor<64x400x256xf32> attributes {bascule.graph} {
  %zero = arith.constant 0 : index
  %turned = "bascule.view"(%k) {map = affine_map<(d0, d1, d2) -> (d0, d2, d1)>, shape = affine_map<() -> (64, 256, 700)>} : (tensor<64x700x256xf32>) -> tensor<64x256x700xf32, #bascule.layout<affine_map<(d0, d1, d2) -> (d0 * 179200 + d1 + d2 * 256)>>>
  %scores = call @aten.bmm_scores_256(%q, %turned) {bascule.fused} : (tensor<64x400x256xf32>, tensor<64x256x700xf32, #bascule.layout<affine_map<(d0, d1, d2) -> (d0 * 179200 + d1 + d2 * 256)>>>) -> tensor<64x400x700xf32>
  %most = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %0 = "bascule.reduce"() ({
    ^bb0(%j: index):
      %x = tensor.extract %scores[%b, %i, %j] : tensor<64x400x700xf32>
      "bascule.yield"(%x) : (f32) -> ()
    }) {kind = "max", ranges = affine_map<() -> (700)>} : () -> f32
    "bascule.yield"(%0) : (f32) -> ()
  }) {ranges = affine_map<() -> (64, 400, 1)>} : () -> tensor<64x400x1xf32>
  %powers = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %x = tensor.extract %scores[%b, %i, %n] : tensor<64x400x700xf32>
    %m = tensor.extract %most[%b, %i, %zero] : tensor<64x400x1xf32>
    %0 = arith.subf %x, %m : f32
    %1 = math.exp %0 : f32
    "bascule.yield"(%1) : (f32) -> ()
  }) {ranges = affine_map<() -> (64, 400, 700)>} : () -> tensor<64x400x700xf32>
  %total = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %0 = "bascule.reduce"() ({
    ^bb0(%j: index):
      %x = tensor.extract %powers[%b, %i, %j] : tensor<64x400x700xf32>
      "bascule.yield"(%x) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (700)>} : () -> f32
    "bascule.yield"(%0) : (f32) -> ()
  }) {ranges = affine_map<() -> (64, 400, 1)>} : () -> tensor<64x400x1xf32>
  %weights = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %x = tensor.extract %powers[%b, %i, %n] : tensor<64x400x700xf32>
    %t = tensor.extract %total[%b, %i, %zero] : tensor<64x400x1xf32>
    %0 = arith.divf %x, %t : f32
    "bascule.yield"(%0) : (f32) -> ()
  }) {ranges = affine_map<() -> (64, 400, 700)>} : () -> tensor<64x400x700xf32>
  %result = call @aten.bmm_values_256(%weights, %v) {bascule.fused} : (tensor<64x400x700xf32>, tensor<64x700x256xf32>) -> tensor<64x400x256xf32>
  return %result : tensor<64x400x256xf32>
}

// CHECK: "bascule.kernel"
// EXACT-NOT: input_precision
// TF32-COUNT-2: bascule.input_precision = "tf32"
// EXACT: kind = "attention", loops = [{{.*}}step = 64 : i64{{.*}}tile = array<i64: 1, 32, 512>, warps = 8 : i64
// TF32: kind = "attention", loops = [{{.*}}step = 64 : i64{{.*}}tile = array<i64: 1, 64, 512>, warps = 8 : i64
// CHECK-NOT: "bascule.kernel"
// CHECK-LABEL: func.func @of_512
// CHECK-NOT: aten.bmm
func.func @of_512(%q: tensor<64x400x512xf32>, %k: tensor<64x700x512xf32>, %v: tensor<64x700x512xf32>) -> tensor<64x400x512xf32> attributes {bascule.graph} {
  %zero = arith.constant 0 : index
  %turned = "bascule.view"(%k) {map = affine_map<(d0, d1, d2) -> (d0, d2, d1)>, shape = affine_map<() -> (64, 512, 700)>} : (tensor<64x700x512xf32>) -> tensor<64x512x700xf32, #bascule.layout<affine_map<(d0, d1, d2) -> (d0 * 358400 + d1 + d2 * 512)>>>
  %scores = call @aten.bmm_scores_512(%q, %turned) {bascule.fused} : (tensor<64x400x512xf32>, tensor<64x512x700xf32, #bascule.layout<affine_map<(d0, d1, d2) -> (d0 * 358400 + d1 + d2 * 512)>>>) -> tensor<64x400x700xf32>
  %most = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %0 = "bascule.reduce"() ({
    ^bb0(%j: index):
      %x = tensor.extract %scores[%b, %i, %j] : tensor<64x400x700xf32>
      "bascule.yield"(%x) : (f32) -> ()
    }) {kind = "max", ranges = affine_map<() -> (700)>} : () -> f32
    "bascule.yield"(%0) : (f32) -> ()
  }) {ranges = affine_map<() -> (64, 400, 1)>} : () -> tensor<64x400x1xf32>
  %powers = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %x = tensor.extract %scores[%b, %i, %n] : tensor<64x400x700xf32>
    %m = tensor.extract %most[%b, %i, %zero] : tensor<64x400x1xf32>
    %0 = arith.subf %x, %m : f32
    %1 = math.exp %0 : f32
    "bascule.yield"(%1) : (f32) -> ()
  }) {ranges = affine_map<() -> (64, 400, 700)>} : () -> tensor<64x400x700xf32>
  %total = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %0 = "bascule.reduce"() ({
    ^bb0(%j: index):
      %x = tensor.extract %powers[%b, %i, %j] : tensor<64x400x700xf32>
      "bascule.yield"(%x) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (700)>} : () -> f32
    "bascule.yield"(%0) : (f32) -> ()
  }) {ranges = affine_map<() -> (64, 400, 1)>} : () -> tensor<64x400x1xf32>
  %weights = "bascule.compute"() ({
  ^bb0(%b: index, %i: index, %n: index):
    %x = tensor.extract %powers[%b, %i, %n] : tensor<64x400x700xf32>
    %t = tensor.extract %total[%b, %i, %zero] : tensor<64x400x1xf32>
    %0 = arith.divf %x, %t : f32
    "bascule.yield"(%0) : (f32) -> ()
  }) {ranges = affine_map<() -> (64, 400, 700)>} : () -> tensor<64x400x700xf32>
  %result = call @aten.bmm_values_512(%weights, %v) {bascule.fused} : (tensor<64x400x700xf32>, tensor<64x700x512xf32>) -> tensor<64x400x512xf32>
  return %result : tensor<64x400x512xf32>
}

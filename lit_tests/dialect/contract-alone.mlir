// What breaks the contract is refused without a pass too, in MLIR's own operations as in ours.
// RUN: bascule-opt %s --split-input-file --verify-diagnostics
// RUN: bascule-opt %s --split-input-file --verify-diagnostics --verify-each=false --canonicalize
func.func @load(%x: memref<4x8xf32>) {
  %c8 = arith.constant 8 : index
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{'memref.load' has the index 8 in dimension 1 of memref<4x8xf32>, which has 8 elements there}}
  %0 = memref.load %x[%c0, %c8] : memref<4x8xf32>
  return
}

// -----

func.func @store(%x: memref<4xf32>, %e: f32) {
  %c = arith.constant -1 : index
  // expected-error @+1 {{'memref.store' has the index -1 in dimension 0 of memref<4xf32>, which has 4 elements there}}
  memref.store %e, %x[%c] : memref<4xf32>
  return
}

// -----

func.func @insert(%x: tensor<4xf32>, %e: f32) -> tensor<4xf32> {
  %c = arith.constant 4 : index
  // expected-error @+1 {{'tensor.insert' has the index 4 in dimension 0 of tensor<4xf32>, which has 4 elements there}}
  %0 = tensor.insert %e into %x[%c] : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @affine_load(%x: memref<4xf32>) {
  // expected-error @+1 {{'affine.load' has the index 4 in dimension 0 of memref<4xf32>, which has 4 elements there}}
  %0 = affine.load %x[4] : memref<4xf32>
  return
}

// -----

func.func @affine_store(%x: memref<4x4xf32>, %e: f32) {
  %c = arith.constant 2 : index
  // expected-error @+1 {{'affine.store' has the index 6 in dimension 1 of memref<4x4xf32>, which has 4 elements there}}
  affine.store %e, %x[%c, %c * 3] : memref<4x4xf32>
  return
}

// -----

func.func @applied(%x: tensor<4xf32>) -> f32 {
  %c = arith.constant 3 : index
  %i = affine.apply affine_map<(d0) -> (d0 + 1)>(%c)
  // expected-error @+1 {{'tensor.extract' has the index 4 in dimension 0 of tensor<4xf32>, which has 4 elements there}}
  %e = tensor.extract %x[%i] : tensor<4xf32>
  return %e : f32
}

// -----

func.func @slice(%x: tensor<8x4xf32>) -> tensor<2x3xf32> {
  %c = arith.constant 2 : index
  // expected-error @+1 {{'tensor.extract_slice' takes 2 to 4 of dimension 1 of tensor<8x4xf32>, which has 4 elements there}}
  %0 = tensor.extract_slice %x[0, %c] [2, 3] [1, 1] : tensor<8x4xf32> to tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// -----

func.func @slice_of_attributes(%x: tensor<4xf32>) -> tensor<3xf32> {
  // expected-error @+1 {{slice along dimension 0 runs out-of-bounds: 4 >= 4}}
  %0 = tensor.extract_slice %x[2] [3] [1] : tensor<4xf32> to tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

func.func @into_slice(%x: tensor<4xf32>, %y: tensor<?xf32>) -> tensor<4xf32> {
  %c3 = arith.constant 3 : index
  %c2 = arith.constant 2 : index
  // expected-error @+1 {{'tensor.insert_slice' takes 1 to 5 of dimension 0 of tensor<4xf32>, which has 4 elements there}}
  %0 = tensor.insert_slice %y into %x[1] [%c3] [%c2] : tensor<?xf32> into tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// An empty slice, one of sizes that nobody knows, and the last elements.
func.func @slices(%x: tensor<4xf32>, %n: index) -> (tensor<?xf32>, tensor<?xf32>, tensor<2xf32>) {
  %c4 = arith.constant 4 : index
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %0 = tensor.extract_slice %x[%c4] [%c0] [1] : tensor<4xf32> to tensor<?xf32>
  %1 = tensor.extract_slice %x[%c4] [%n] [1] : tensor<4xf32> to tensor<?xf32>
  %2 = tensor.extract_slice %x[%c2] [2] [1] : tensor<4xf32> to tensor<2xf32>
  return %0, %1, %2 : tensor<?xf32>, tensor<?xf32>, tensor<2xf32>
}

// -----

func.func @divisor(%n: index) -> index {
  // expected-error @+1 {{'affine.apply' has 'map' = affine_map<(d0) -> (d0 floordiv 0)>: 'floordiv' by zero}}
  %0 = affine.apply affine_map<(d0) -> (d0 floordiv 0)>(%n)
  return %0 : index
}

// -----

func.func @folded_divisor(%n: index) -> index {
  // expected-error @+1 {{'affine.min' has 'map' = affine_map<(d0) -> (4, d0 ceildiv 0)>: 'ceildiv' by zero}}
  %0 = affine.min affine_map<(d0) -> (4, d0 ceildiv (2 - 2))>(%n)
  return %0 : index
}

// -----

func.func @bound(%n: index) {
  // expected-error @+1 {{'affine.for' has 'upperBoundMap' = affine_map<(d0) -> (d0 floordiv 0)>: 'floordiv' by zero}}
  affine.for %i = 0 to affine_map<(d0) -> (d0 floordiv 0)>(%n) {
  }
  return
}

// -----

func.func @condition(%n: index) {
  // expected-error @+1 {{'affine.if' has 'condition' = affine_set<(d0) : (d0 mod 0 == 0)>: 'mod' by zero}}
  affine.if affine_set<(d0) : (d0 mod 0 == 0)>(%n) {
  }
  return
}

// -----

func.func @ranges(%x: tensor<4xf32>) -> tensor<4xf32> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index):
    // expected-error @+1 {{'bascule.reduce' has 'ranges' = affine_map<() -> (4 floordiv 0)>: 'floordiv' by zero}}
    %r = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %x[%i] : tensor<4xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (4 floordiv 0)>} : () -> f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (4)>} : () -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @view(%x: tensor<4xf32>) -> tensor<4xf32> attributes {bascule.graph} {
  // expected-error @+1 {{'bascule.view' has 'map' = affine_map<(d0) -> (d0 mod 0)>: 'mod' by zero}}
  %0 = "bascule.view"(%x) {map = affine_map<(d0) -> (d0 mod 0)>, shape = affine_map<() -> (4)>} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// A view of no elements divides by what it has none of; what stands in a condition may never run.
func.func @nothing(%n: index, %x: tensor<0xf32>) -> tensor<0xf32> attributes {bascule.graph} {
  %0 = "bascule.view"(%x) {map = affine_map<(d0) -> (d0 mod 0)>, shape = affine_map<() -> (0)>} : (tensor<0xf32>) -> tensor<0xf32>
  %c = arith.cmpi sgt, %n, %n : index
  scf.if %c {
    %1 = affine.apply affine_map<(d0) -> (d0 floordiv 0)>(%n)
  }
  return %0 : tensor<0xf32>
}

// -----

// expected-error @+1 {{'bascule.shape' of @sizes is affine_map<()[s0] -> (s0 floordiv 0)>: 'floordiv' by zero}}
func.func @sizes(%s: index, %x: tensor<?xf32, #bascule.layout<affine_map<(d0) -> (d0)>>> {bascule.shape = affine_map<()[s0] -> (s0 floordiv 0)>}) attributes {bascule.graph} {
  return
}

// -----

func.func @called(%x: !torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32> attributes {bascule.graph} {
  // expected-error @+1 {{PyTorch has no operator 'aten.nothing.default', which 'torch.operator' calls}}
  %0 = torch.operator "torch.aten.nothing"(%x) : (!torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32>
  return %0 : !torch.vtensor<[4],f32>
}

// -----

func.func @again(%x: tensor<4xf32>) -> tensor<4xf32> attributes {bascule.graph} {
  // expected-error @+1 {{a function calls itself: @again -> @again}}
  %0 = call @again(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// expected-error @+1 {{PyTorch has no operator 'aten.no_such.default', which the ATen function @no_such stands for}}
func.func private @no_such(tensor<4xf32>) -> tensor<4xf32> attributes {bascule.extern = "aten.no_such.default", bascule.arguments = [#bascule.operand<0>], bascule.results = array<i64: 0>}

// -----

// expected-error @+1 {{'bascule.storages' of @storages has 3 numbers: 2 are needed}}
func.func @storages(%x: tensor<4xf32>) -> tensor<4xf32> attributes {bascule.graph, bascule.storages = array<i64: 0, 1, 2>} {
  return %x : tensor<4xf32>
}

// -----

// All faults of a module are told, as mlir-opt tells them.
func.func @several(%x: tensor<8x4xf32>) -> tensor<8xf32> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index):
    %c4 = arith.constant 4 : index
    // expected-error @+1 {{'tensor.extract' has the index 4 in dimension 1}}
    %e = tensor.extract %x[%i, %c4] : tensor<8x4xf32>
    %c9 = arith.constant 9 : index
    // expected-error @+1 {{'tensor.extract' has the index 9 in dimension 0}}
    %f = tensor.extract %x[%c9, %i] : tensor<8x4xf32>
    %g = arith.addf %e, %f : f32
    "bascule.yield"(%g) : (f32) -> ()
  }) {ranges = affine_map<() -> (8)>} : () -> tensor<8xf32>
  // expected-error @+1 {{a function calls itself: @several -> @several}}
  %1 = call @several(%x) : (tensor<8x4xf32>) -> tensor<8xf32>
  %2 = call @other(%x) : (tensor<8x4xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

func.func @other(%x: tensor<8x4xf32>) -> tensor<8xf32> attributes {bascule.graph} {
  // expected-error @+1 {{a function calls itself: @several -> @other -> @several}}
  %0 = call @several(%x) : (tensor<8x4xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// What stands below a division by zero may compute with it, and is not looked at.
func.func @below(%x: tensor<8xf32>, %i: index) -> f32 {
  // expected-error @+1 {{'mod' by zero}}
  %j = affine.apply affine_map<(d0) -> (d0 mod 0)>(%i)
  %c9 = arith.constant 9 : index
  %e = tensor.extract %x[%c9] : tensor<8xf32>
  %f = tensor.extract %x[%j] : tensor<8xf32>
  %g = arith.addf %e, %f : f32
  return %g : f32
}

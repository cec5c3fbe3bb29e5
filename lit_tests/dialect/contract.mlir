// What would compute something else than it says, or nothing at all, is refused, before a pass and after.
// RUN: bascule-opt %s --split-input-file --verify-diagnostics --fold-views
// A read of a destination after a store: cse would take it for the read before.
func.func private @reads_back(%x: tensor<4xf32>) -> tensor<4xf32> {
  %out = bufferization.alloc_tensor() : tensor<4xf32>
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %e = tensor.extract %x[%i] : tensor<4xf32>
    // expected-error @+1 {{writes what 'tensor.extract' below reads}}
    "bascule.store"(%e, %out, %i) : (f32, tensor<4xf32>, index) -> ()
    %again = tensor.extract %out[%i] : tensor<4xf32>
    %sum = arith.addf %again, %e : f32
    "bascule.store"(%sum, %out, %i) : (f32, tensor<4xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (4)>} : () -> ()
  return %out : tensor<4xf32>
}

// -----

func.func private @reads_back_in_a_loop(%x: tensor<4x8xf32>) -> tensor<4xf32> {
  %out = bufferization.alloc_tensor() : tensor<4xf32>
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %c0 = arith.constant 0 : index
    %e = tensor.extract %x[%i, %c0] : tensor<4x8xf32>
    // expected-error @+1 {{writes what 'tensor.extract' below reads}}
    "bascule.store"(%e, %out, %i) : (f32, tensor<4xf32>, index) -> ()
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %again = tensor.extract %out[%i] : tensor<4xf32>
      "bascule.yield"(%again) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (8)>} : () -> f32
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (4)>} : () -> ()
  return %out : tensor<4xf32>
}

// -----

// Before the store it is what was there.
func.func private @reads_first(%x: tensor<4xf32>) -> tensor<4xf32> {
  %out = bufferization.alloc_tensor() copy(%x) : tensor<4xf32>
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %e = tensor.extract %out[%i] : tensor<4xf32>
    %sum = arith.addf %e, %e : f32
    "bascule.store"(%sum, %out, %i) : (f32, tensor<4xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (4)>} : () -> ()
  return %out : tensor<4xf32>
}

// -----

func.func @beyond(%x: tensor<4x8xf32>) -> tensor<4xf32, #bascule.layout<affine_map<(d0) -> (d0 * 8)>>> attributes {bascule.graph} {
  // expected-error @+1 {{has index 8 of dimension 1, of 8 elements, at [0]}}
  %0 = "bascule.view"(%x) {map = affine_map<(d0) -> (d0, 8)>, shape = affine_map<() -> (4)>} : (tensor<4x8xf32>) -> tensor<4xf32, #bascule.layout<affine_map<(d0) -> (d0 * 8)>>>
  return %0 : tensor<4xf32, #bascule.layout<affine_map<(d0) -> (d0 * 8)>>>
}

// -----

func.func @before(%x: tensor<4xf32>) attributes {bascule.graph} {
  // expected-error @+1 {{has index -1 of dimension 0, of 4 elements, at [0]}}
  %0 = "bascule.view"(%x) {map = affine_map<(d0) -> (d0 - 1)>, shape = affine_map<() -> (4)>} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// What an estimate cannot tell is looked at point by point.
func.func @rearranged(%x: tensor<16xf32>) attributes {bascule.graph} {
  %0 = "bascule.view"(%x) {map = affine_map<(d0) -> (d0 - (d0 floordiv 4) * 4 + (d0 floordiv 4) * 4)>, shape = affine_map<() -> (16)>} : (tensor<16xf32>) -> tensor<16xf32>
  %1 = "bascule.view"(%x) {map = affine_map<(d0) -> ((d0 - (d0 floordiv 4) * 4) * 5)>, shape = affine_map<() -> (16)>} : (tensor<16xf32>) -> tensor<16xf32>
  return
}

// -----

func.func @constant_index(%x: tensor<4x8xf32>) -> tensor<4xf32> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index):
    %c8 = arith.constant 8 : index
    // expected-error @+1 {{'tensor.extract' has the index 8 in dimension 1 of tensor<4x8xf32>, which has 8 elements there}}
    %e = tensor.extract %x[%i, %c8] : tensor<4x8xf32>
    "bascule.yield"(%e) : (f32) -> ()
  }) {ranges = affine_map<() -> (4)>} : () -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Where nothing runs, and where a condition guards it, an index may be anything.
func.func @guarded(%x: tensor<4xf32>, %e: tensor<0xf32>) -> (tensor<4xf32>, tensor<0xf32>) attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index):
    %c8 = arith.constant 8 : index
    %zero = arith.constant 0.0 : f32
    %inside = arith.cmpi ult, %c8, %i : index
    %v = scf.if %inside -> f32 {
      %e8 = tensor.extract %x[%c8] : tensor<4xf32>
      scf.yield %e8 : f32
    } else {
      scf.yield %zero : f32
    }
    "bascule.yield"(%v) : (f32) -> ()
  }) {ranges = affine_map<() -> (4)>} : () -> tensor<4xf32>
  %1 = "bascule.compute"() ({
  ^bb0(%i: index):
    %c0 = arith.constant 0 : index
    %e0 = tensor.extract %e[%c0] : tensor<0xf32>
    "bascule.yield"(%e0) : (f32) -> ()
  }) {ranges = affine_map<() -> (0)>} : () -> tensor<0xf32>
  return %0, %1 : tensor<4xf32>, tensor<0xf32>
}

// -----

// expected-error @+1 {{PyTorch has no operator 'aten.no_such.default', which the ATen function @no_such stands for}}
func.func private @no_such(tensor<4xf32>) -> tensor<4xf32> attributes {bascule.extern = "aten.no_such.default", bascule.arguments = [#bascule.operand<0>], bascule.results = array<i64: 0>}
func.func @calls(%x: tensor<4xf32>) -> tensor<4xf32> attributes {bascule.graph} {
  %0 = call @no_such(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @even(%x: tensor<4xf32>) -> tensor<4xf32> attributes {bascule.graph} {
  %0 = call @odd(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @odd(%x: tensor<4xf32>) -> tensor<4xf32> attributes {bascule.graph} {
  // expected-error @+1 {{a function calls itself: @even -> @odd -> @even}}
  %0 = call @even(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// expected-error @+1 {{'bascule.storages' of @storages has 3 numbers: 2 are needed}}
func.func @storages(%x: tensor<4xf32>) -> tensor<4xf32> attributes {bascule.graph, bascule.storages = array<i64: 0, 1, 2>} {
  return %x : tensor<4xf32>
}

// -----

// What an operation makes has a layout that is known, in which each element has an address of its own.
func.func @encoded(%x: tensor<4xf32>) attributes {bascule.graph} {
  // expected-error @+1 {{the result of 'bascule.compute', tensor<4xf32, "own">, has an encoding that is no #bascule.layout}}
  %0 = "bascule.compute"() ({
  ^bb0(%i: index):
    %e = tensor.extract %x[%i] : tensor<4xf32>
    "bascule.yield"(%e) : (f32) -> ()
  }) {ranges = affine_map<() -> (4)>} : () -> tensor<4xf32, "own">
  return
}

// -----

#wrapped = #bascule.layout<affine_map<(d0) -> (d0 mod 2)>>
func.func @wrapped(%x: tensor<4xf32, #wrapped>, %init: tensor<4xf32>) attributes {bascule.graph} {
  // expected-error @+1 {{the result of 'bascule.scan'}}
  %0 = "bascule.scan"() ({
  ^bb0(%i: index):
    %e = tensor.extract %init[%i] : tensor<4xf32>
    "bascule.yield"(%e) : (f32) -> ()
  }) {dim = 0 : i64, kind = "sum", ranges = affine_map<() -> (4)>} : () -> tensor<4xf32, #wrapped>
  return
}

// -----

#row = #bascule.layout<affine_map<(d0, d1) -> (d1)>>
func.func @expanded(%x: tensor<8xf32>, %same: tensor<4xf32, #bascule.layout<affine_map<(d0) -> (0)>>>) -> tensor<4x8xf32, #row> attributes {bascule.graph} {
  // Of a view both may be one element, or at one address before.
  %again = "bascule.view"(%same) {map = affine_map<(d0, d1) -> (d0)>, shape = affine_map<() -> (4, 1)>}
      : (tensor<4xf32, #bascule.layout<affine_map<(d0) -> (0)>>>) -> tensor<4x1xf32, #bascule.layout<affine_map<(d0, d1) -> (d1)>>>
  %0 = "bascule.view"(%x) {map = affine_map<(d0, d1) -> (d1)>, shape = affine_map<() -> (4, 8)>} : (tensor<8xf32>) -> tensor<4x8xf32, #row>
  // expected-error @+1 {{has the elements [0, 0] and [1, 0] at one address}}
  %1 = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %x[%j] : tensor<8xf32>
    "bascule.yield"(%e) : (f32) -> ()
  }) {ranges = affine_map<() -> (4, 8)>} : () -> tensor<4x8xf32, #row>
  return %0 : tensor<4x8xf32, #row>
}

// -----

#met = #bascule.layout<affine_map<(d0, d1) -> (d0 * 4 + d1 * 2)>>
#apart = #bascule.layout<affine_map<(d0, d1) -> (d0 * 2 + d1 * 3)>>
func.func @met(%x: tensor<4x8xf32>, %y: tensor<3x2xf32>) attributes {bascule.graph} {
  // expected-error @+1 {{has the elements [1, 0] and [0, 2] at one address}}
  %0 = "bascule.view"(%x) {map = affine_map<(d0, d1) -> (d0, d1)>, shape = affine_map<() -> (4, 8)>} : (tensor<4x8xf32>) -> tensor<4x8xf32, #met>
  %1 = "bascule.view"(%y) {map = affine_map<(d0, d1) -> (d0, d1)>, shape = affine_map<() -> (3, 2)>} : (tensor<3x2xf32>) -> tensor<3x2xf32, #apart>
  return
}

// -----

// expected-error @+1 {{argument 0 of @far, tensor<4294967296x4294967296xf32>, has addresses of more than 60 bits}}
func.func @far(%x: tensor<4294967296x4294967296xf32>) attributes {bascule.graph} {
  return
}

// -----

func.func @symbols_of_a_map(%x: tensor<4xf32>) attributes {bascule.graph} {
  // expected-error @+1 {{has a 'map' of 1 symbols in a function of 0}}
  %0 = "bascule.view"(%x) {map = affine_map<(d0)[s0] -> (d0 + s0)>, shape = affine_map<() -> (4)>} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @more_bits(%x: tensor<4xui8>) attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index):
    %e = tensor.extract %x[%i] : tensor<4xui8>
    // expected-error @+1 {{'builtin.unrealized_conversion_cast' makes i32 of ui8, which is no change of sign}}
    %s = builtin.unrealized_conversion_cast %e : ui8 to i32
    "bascule.yield"(%s) : (i32) -> ()
  }) {ranges = affine_map<() -> (4)>} : () -> tensor<4xi32>
  return
}

// -----

func.func @arena(%x: memref<4xf32>) attributes {bascule.graph} {
  // expected-error @+1 {{'bascule.arena' of 'memref.alloc' is on memref<4xf32>: an arena is bytes}}
  %0 = memref.alloc() {bascule.arena} : memref<4xf32>
  return
}

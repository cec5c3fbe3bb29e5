// Passes take functions that say what the strides and sizes of their tensors are.
// RUN: bascule-opt %s --split-input-file --verify-diagnostics --fold-views
// RUN: not bascule-opt %s --split-input-file --fold-views 2>&1 | filecheck %s
// A place is one in the file, whatever part it is in.
// CHECK: signatures.mlir:9:1: error: argument 0 of @layout
// CHECK: signatures.mlir:16:1: error: argument 1 of @no_layout

// expected-error @+1 {{argument 0 of @layout, tensor<4x4xf32, #bascule.layout<affine_map<(d0) -> (d0)>>>, has a layout of 1 dims and 1 results: 2 and 1 are needed}}
func.func @layout(%x: tensor<4x4xf32, #bascule.layout<affine_map<(d0) -> (d0)>>>) attributes {bascule.graph} {
  return
}

// -----

// expected-error @+1 {{argument 1 of @no_layout, tensor<?x4xf32>, is dynamic and has no #bascule.layout: its strides are not known}}
func.func @no_layout(%n: index, %x: tensor<?x4xf32>) attributes {bascule.graph} {
  return
}

// -----

// expected-error @+1 {{is dynamic and has no 'bascule.shape'}}
func.func @no_shape(%n: index, %x: tensor<?xf32, #bascule.layout<affine_map<(d0) -> (d0)>>>) attributes {bascule.graph} {
  return
}

// -----

// expected-error @+1 {{has a 'bascule.shape' of 2 symbols in a function of 1}}
func.func @symbols(%n: index, %x: tensor<?xf32, #bascule.layout<affine_map<(d0) -> (d0)>>> {bascule.shape = affine_map<()[s0, s1] -> (s1)>})
    attributes {bascule.graph} {
  return
}

// -----

// expected-error @+1 {{result 0 of @results, tensor<?xf32, #bascule.layout<affine_map<(d0) -> (d0)>>>, is dynamic and has no 'bascule.shapes'}}
func.func @results(%n: index, %x: tensor<?xf32, #bascule.layout<affine_map<(d0) -> (d0)>>> {bascule.shape = affine_map<()[s0] -> (s0)>})
    -> tensor<?xf32, #bascule.layout<affine_map<(d0) -> (d0)>>> attributes {bascule.graph} {
  return %x : tensor<?xf32, #bascule.layout<affine_map<(d0) -> (d0)>>>
}

// -----

// expected-error @+1 {{argument 0 of @number, f32, is no tensor of known rank: a function takes its symbols first, of type index, then tensors}}
func.func @number(%a: f32) attributes {bascule.graph} {
  return
}

// -----

// expected-error @+1 {{argument 1 of @late_symbol, index, is no tensor}}
func.func @late_symbol(%x: tensor<4xf32>, %n: index) attributes {bascule.graph} {
  return
}

// -----

// expected-error @+1 {{result 0 of @symbol_result, index, is no tensor}}
func.func @symbol_result(%n: index) -> index attributes {bascule.graph} {
  return %n : index
}

// -----

// expected-error @+1 {{argument 0 of @elements, tensor<4xi7>, has elements of a type that no dtype of PyTorch is}}
func.func @elements(%x: tensor<4xi7>) attributes {bascule.graph} {
  return
}

// -----

// expected-error @+1 {{has an encoding that is no #bascule.layout}}
func.func @encoding(%x: tensor<4xf32, "rows">) attributes {bascule.graph} {
  return
}

// -----

// expected-error @+1 {{has a layout that is not strided: a sum of dims, each times its stride, which is not negative}}
func.func @backwards(%x: tensor<4xf32, #bascule.layout<affine_map<(d0) -> (3 - d0)>>>) attributes {bascule.graph} {
  return
}

// -----

// expected-error @+1 {{has a layout that is not strided}}
func.func @wrapped(%x: tensor<4x4xf32, #bascule.layout<affine_map<(d0, d1) -> (d0 * 2 + d1 mod 2)>>>) attributes {bascule.graph} {
  return
}

// -----

func.func @caller(%x: tensor<4xf32>) -> tensor<4xf32> attributes {bascule.graph} {
  %0 = call @unknown(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
// expected-error @+1 {{@unknown is declared and not defined}}
func.func private @unknown(tensor<4xf32>) -> tensor<4xf32>

// -----

// expected-error @+1 {{the ATen function @aten.relu has no 'bascule.arguments' of type ArrayAttr}}
func.func private @aten.relu(tensor<4xf32>) -> tensor<4xf32> attributes {bascule.extern = "aten.relu.default"}

// -----

// expected-error @+1 {{'bascule.arguments' of @aten.relu has operand 1 of 1}}
func.func private @aten.relu(tensor<4xf32>) -> tensor<4xf32>
    attributes {bascule.extern = "aten.relu.default", bascule.arguments = [#bascule.operand<1 : i64>], bascule.results = array<i64: 0>}

// -----

// expected-error @+1 {{'bascule.symbols' of @attributes is of another type than ArrayAttr}}
func.func @attributes(%n: index) attributes {bascule.graph, bascule.symbols} {
  return
}

// -----

// expected-error @+1 {{'bascule.shape' of argument 0 of @sizes is of another type than AffineMapAttr}}
func.func @sizes(%x: tensor<4xf32> {bascule.shape = 3}) attributes {bascule.graph} {
  return
}

// -----

// expected-error @+1 {{'bascule.dies' of argument 1 of @dying is of another type than UnitAttr}}
func.func @dying(%x: tensor<4xf32>, %y: tensor<4xf32> {bascule.dies = 3}) attributes {bascule.graph} {
  return
}

// -----

// expected-error @+1 {{'bascule.range' of argument 0 of @bounds is [5, 0]: the least and the greatest element are needed, as numbers, like [0, 5]}}
func.func @bounds(%x: tensor<4xi64> {bascule.range = [5, 0]}) attributes {bascule.graph} {
  return
}

// -----

// A copy into an argument is its final value: what the tensor stage reads is above it.
func.func @read_after(%x: tensor<4xf32>) -> tensor<4xf32> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index):
    %e = tensor.extract %x[%i] : tensor<4xf32>
    %f = math.sin %e : f32
    "bascule.yield"(%f) : (f32) -> ()
  }) {ranges = affine_map<() -> (4)>} : () -> tensor<4xf32>
  "bascule.copy_into"(%0, %x) : (tensor<4xf32>, tensor<4xf32>) -> ()
  // expected-error @+1 {{'bascule.compute' reads an argument below the copy into it}}
  %1 = "bascule.compute"() ({
  ^bb0(%i: index):
    %e = tensor.extract %x[%i] : tensor<4xf32>
    "bascule.yield"(%e) : (f32) -> ()
  }) {ranges = affine_map<() -> (4)>} : () -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// Of a copy below, what it writes counts, not what it replaces.
func.func @copied_twice(%x: tensor<4xf32>, %y: tensor<4xf32>) attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index):
    %e = tensor.extract %x[%i] : tensor<4xf32>
    "bascule.yield"(%e) : (f32) -> ()
  }) {ranges = affine_map<() -> (4)>} : () -> tensor<4xf32>
  "bascule.copy_into"(%0, %x) : (tensor<4xf32>, tensor<4xf32>) -> ()
  "bascule.copy_into"(%0, %x) : (tensor<4xf32>, tensor<4xf32>) -> ()
  // expected-error @+1 {{'bascule.copy_into' reads an argument below the copy into it}}
  "bascule.copy_into"(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> ()
  return
}

// -----

// expected-error @+1 {{result 0 of @aten.relu, tensor<?xf32, #bascule.layout<affine_map<(d0) -> (d0)>>>, is dynamic and has no 'bascule.shapes'}}
func.func private @aten.relu(tensor<?xf32, #bascule.layout<affine_map<(d0) -> (d0)>>>) -> tensor<?xf32, #bascule.layout<affine_map<(d0) -> (d0)>>>
    attributes {bascule.extern = "aten.relu.default", bascule.arguments = [#bascule.operand<0 : i64>], bascule.results = array<i64: 0>}

// -----

// expected-error @+1 {{'bascule.results' of @aten.relu has 2 numbers for 1 results}}
func.func private @aten.relu(tensor<4xf32>) -> tensor<4xf32>
    attributes {bascule.extern = "aten.relu.default", bascule.arguments = [#bascule.operand<0 : i64>], bascule.results = array<i64: 0, 1>}

// -----

// expected-error @+1 {{'bascule.arguments' of @aten.mm has 1 entries: 'aten.mm.default' takes 2 to 2}}
func.func private @aten.mm(tensor<4x4xf32>) -> tensor<4x4xf32>
    attributes {bascule.extern = "aten.mm.default", bascule.arguments = [#bascule.operand<0 : i64>], bascule.results = array<i64: 0>}

// -----

// expected-error @+1 {{'bascule.reason' of @aten.relu is of another type than StringAttr}}
func.func private @aten.relu(tensor<4xf32>) -> tensor<4xf32>
    attributes {bascule.extern = "aten.relu.default", bascule.arguments = [#bascule.operand<0 : i64>], bascule.results = array<i64: 0>, bascule.reason}

// -----

// expected-error @+1 {{'test.mine' of argument 0 of @foreign is of a type that MLIR's Python bindings have no class for}}
func.func @foreign(%x: tensor<4xf32> {test.mine = array<ui8: 1>}) attributes {bascule.graph} {
  return
}

// -----

// expected-error @+1 {{argument 0 of @strides, memref<4x4xf32, strided<[?, 1]>>, has strides that are not known}}
func.func @strides(%x: memref<4x4xf32, strided<[?, 1]>>) attributes {bascule.graph} {
  return
}

// -----

// expected-error @+1 {{argument 1 of @buffer, memref<?xf32>, is dynamic and has no 'bascule.shape'}}
func.func @buffer(%n: index, %x: memref<?xf32>) attributes {bascule.graph} {
  return
}

// -----

// A function without a part in our stages is no graph of ours to a pass of MLIR's; one of ours takes it for one.
func.func @plain(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @declared(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
// expected-error @+1 {{@declared is declared and not defined}}
func.func private @declared(tensor<4xf32>) -> tensor<4xf32>

// -----

#layout = #bascule.layout<affine_map<(d0) -> (d0)>>
#two = affine_map<()[s0, s1] -> (s1)>
func.func private @kernel(%n: index, %m: index, %x: tensor<?xf32, #layout> {bascule.shape = #two}) -> tensor<?xf32, #layout> attributes {bascule.shapes = [#two]} {
  %0 = bufferization.alloc_tensor(%m) : tensor<?xf32, #layout>
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %e = tensor.extract %x[%i] : tensor<?xf32, #layout>
    "bascule.store"(%e, %0, %i) : (f32, tensor<?xf32, #layout>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = #two} : () -> ()
  return %0 : tensor<?xf32, #layout>
}
func.func @symbols_swapped(%n: index, %m: index, %x: tensor<?xf32, #layout> {bascule.shape = #two}) -> tensor<?xf32, #layout> attributes {bascule.graph, bascule.shapes = [#two]} {
  // expected-error @+1 {{symbol 0 of the kernel @kernel is not symbol 0 of its caller}}
  %0 = call @kernel(%m, %n, %x) {bascule.shapes = [#two]} : (index, index, tensor<?xf32, #layout>) -> tensor<?xf32, #layout>
  // expected-error @+1 {{those of @kernel are}}
  %1 = call @kernel(%n, %m, %x) {bascule.shapes = [affine_map<()[s0, s1] -> (s0)>]} : (index, index, tensor<?xf32, #layout>) -> tensor<?xf32, #layout>
  return %0 : tensor<?xf32, #layout>
}

// -----

// expected-error @+1 {{has a layout that is not strided}}
func.func @backwards(%x: memref<4x8xf32, strided<[-8, 1], offset: 24>>) attributes {bascule.graph} {
  return
}

// -----

// expected-error @+1 {{has a layout that is not strided}}
func.func @turned(%x: memref<4x8xf32, affine_map<(d0, d1) -> (d1, d0)>>) attributes {bascule.graph} {
  return
}

// -----

// expected-error @+1 {{has a layout that is not strided}}
func.func @halved(%x: memref<4x8xf32, affine_map<(d0, d1) -> (d0 floordiv 2 + d1)>>) attributes {bascule.graph} {
  return
}

// -----

// expected-error @+1 {{argument 1 of @other_size, tensor<4xf32>, has a 'bascule.shape' whose size 0 is s0}}
func.func @other_size(%n: index, %x: tensor<4xf32> {bascule.shape = affine_map<()[s0] -> (s0)>}) attributes {bascule.graph} {
  return
}

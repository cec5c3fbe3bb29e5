// What says how a graph is called names what there is: placeholders, symbols, results, arguments, dims.
// RUN: bascule-opt %s --split-input-file --verify-diagnostics

// All that may be said, as it is to be.
func.func @right(%s: index, %t: index, %u: index, %x: tensor<?xf32, #bascule.layout<affine_map<(d0) -> (d0)>>> {bascule.shape = affine_map<()[s0] -> (s0)>}, %f: tensor<f64>, %c: tensor<4xf32> {bascule.constant = "c"})
    -> tensor<f64> attributes {bascule.graph, bascule.symbols = ["s0", "s1", "s2"], bascule.inputs = ["int", "tensor 0", "symbol 1", "float 0"],
    bascule.symbol_sources = [{input = 1, kind = "size", dim = 0, scale = 2, offset = 0}, {input = 2, kind = "value", dim = 0, scale = 1, offset = 0},
      {kind = "computed", value = ["max", affine_map<()[s0, s1] -> (s1)>, 2.0]}],
    bascule.outputs = [#bascule.operand<0>, affine_map<()[s0] -> (s0 * 2)>, "input 0", unit, 3, 2.5, true], bascule.host_inputs = array<i64: 0>, bascule.host_outputs = array<i64: 6, 0>} {
  return %f : tensor<f64>
}

// -----

// expected-error @+1 {{'bascule.symbols' of @names has 0 names for 1 symbols}}
func.func @names(%s: index) attributes {bascule.graph, bascule.symbols = []} { return }

// -----

// expected-error @+1 {{a name each is needed, which Python takes}}
func.func @named(%s: index, %t: index) attributes {bascule.graph, bascule.symbols = ["s0", "s 1"]} { return }

// -----

// expected-error @+1 {{has "tensor" in it: an input is "tensor K", "float K", "symbol K" or "int"}}
func.func @kind(%x: tensor<4xf32>) attributes {bascule.graph, bascule.inputs = ["tensor"]} { return }

// -----

// expected-error @+1 {{has tensors [0, 0]: they are numbered in order, from 0}}
func.func @twice(%x: tensor<4xf32>, %y: tensor<4xf32>) attributes {bascule.graph, bascule.inputs = ["tensor 0", "tensor 0"]} { return }

// -----

// expected-error @+1 {{has 1 tensors and floats for 2 arguments}}
func.func @few(%x: tensor<4xf32>, %y: tensor<4xf32>) attributes {bascule.graph, bascule.inputs = ["tensor 0"]} { return }

// -----

// expected-error @+1 {{has symbols [0] for 2 and there is no 'bascule.symbol_sources'}}
func.func @unfound(%s: index, %t: index) attributes {bascule.graph, bascule.inputs = ["symbol 0"]} { return }

// -----

// expected-error @+1 {{has 0 entries for 1 symbols}}
func.func @sources(%s: index) attributes {bascule.graph, bascule.symbol_sources = []} { return }

// -----

// expected-error @+1 {{which is to be divided by 0}}
func.func @scale(%s: index) attributes {bascule.graph, bascule.symbol_sources = [{input = 0, kind = "value", dim = 0, scale = 0, offset = 0}]} { return }

// -----

// expected-error @+1 {{whose tensor has 1 dims}}
func.func @dim(%s: index, %x: tensor<4xf32>) attributes {bascule.graph, bascule.inputs = ["tensor 0"], bascule.symbol_sources = [{input = 0, kind = "stride", dim = 1, scale = 1, offset = 0}]} { return }

// -----

// expected-error @+1 {{whose input is tensor}}
func.func @value(%s: index, %x: tensor<4xf32>) attributes {bascule.graph, bascule.inputs = ["tensor 0"], bascule.symbol_sources = [{input = 0, kind = "value", dim = 0, scale = 1, offset = 0}]} { return }

// -----

// expected-error @+1 {{which has no kind of value, size, stride or lacks a number}}
func.func @kinds(%s: index) attributes {bascule.graph, bascule.symbol_sources = [{input = 0, kind = "rank", dim = 0, scale = 1, offset = 0}]} { return }

// -----

// A symbol is computed of those before it.
// expected-error @+1 {{is no expression of the 0 symbols before it}}
func.func @later(%s: index) attributes {bascule.graph, bascule.symbol_sources = [{kind = "computed", value = affine_map<()[s0] -> (s0)>}]} { return }

// -----

// expected-error @+1 {{is no operator with its operands}}
func.func @operands(%s: index) attributes {bascule.graph, bascule.symbol_sources = [{kind = "computed", value = ["max", 1.0]}]} { return }

// -----

// expected-error @+1 {{has #bascule.operand<1 : i64> in it, which is no output of a function of 1 results, 0 symbols and 1 inputs}}
func.func @result(%x: tensor<4xf32>) -> tensor<4xf32> attributes {bascule.graph, bascule.outputs = [#bascule.operand<1>]} { return %x : tensor<4xf32> }

// -----

// expected-error @+1 {{has "input 1" in it, which is no output}}
func.func @input(%x: tensor<4xf32>) attributes {bascule.graph, bascule.outputs = ["input 1"]} { return }

// -----

// expected-error @+1 {{'bascule.host_inputs' of @host is [1]: different numbers below 1 are needed}}
func.func @host(%x: tensor<4xf32>) attributes {bascule.graph, bascule.host_inputs = array<i64: 1>} { return }

// -----

// expected-error @+1 {{'bascule.host_outputs' of @outputs is [0, 0]: different numbers below 1 are needed}}
func.func @outputs(%x: tensor<4xf32>) -> tensor<4xf32> attributes {bascule.graph, bascule.host_outputs = array<i64: 0, 0>} { return %x : tensor<4xf32> }

// -----

func.func @over(%x: memref<4xf32>) -> memref<4xf32> attributes {bascule.graph} {
  // expected-error @+1 {{is 1, which is no buffer among the function's 1 arguments}}
  %0 = memref.alloc() {bascule.over = 1 : i64} : memref<4xf32>
  return %0 : memref<4xf32>
}

// -----

func.func @small(%x: memref<4xf32>) -> memref<4xf64> attributes {bascule.graph} {
  // expected-error @+1 {{is 0, an argument of 16 bytes: 32 are needed}}
  %0 = memref.alloc() {bascule.over = 0 : i64} : memref<4xf64>
  return %0 : memref<4xf64>
}

// -----

func.func @dims(%x: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {bascule.graph} {
  // expected-error @+1 {{'bascule.together_dims' of 'bascule.compute' is [1, 1]: its 2 dims are needed, each once}}
  %0 = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %e = tensor.extract %x[%i, %j] : tensor<4x8xf32>
    "bascule.yield"(%e) : (f32) -> ()
  }) {ranges = affine_map<() -> (4, 8)>, bascule.together = 0 : i64, bascule.together_dims = array<i64: 1, 1>} : () -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

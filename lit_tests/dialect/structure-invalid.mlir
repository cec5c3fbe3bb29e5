// What passes and lowerings would not look at is refused: a second block, what stands beside a kernel, results that no kernel makes.
// RUN: bascule-opt %s --split-input-file --verify-diagnostics --allow-unregistered-dialect

func.func @blocks(%x: tensor<4xf32>) -> tensor<4xf32> attributes {bascule.graph} {
  // expected-error @+1 {{@blocks has 2 blocks: a graph or a kernel function has one}}
  cf.br ^after
^after:
  return %x : tensor<4xf32>
}

// -----

// What is none of ours may be as it likes.
func.func @foreign(%x: tensor<4xf32>) -> tensor<4xf32> {
  cf.br ^after
^after:
  return %x : tensor<4xf32>
}

// -----

func.func private @copied(%x: memref<4xf32>, %out: memref<4xf32>) {
  // expected-error @+1 {{'memref.copy' stands beside the kernel of @copied, where no launch runs it}}
  memref.copy %x, %out : memref<4xf32> to memref<4xf32>
  "bascule.kernel"() ({
  ^bb0(%i: index):
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (4)>} : () -> ()
  return
}

// -----

func.func private @cast(%x: memref<4xf32>, %out: memref<4xf32>) {
  // expected-error @+1 {{'foreign.cast' stands beside the kernel of @cast}}
  %y = "foreign.cast"(%x) : (memref<4xf32>) -> memref<4xf32>
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %e = memref.load %y[%i] : memref<4xf32>
    "bascule.store"(%e, %out, %i) : (f32, memref<4xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (4)>} : () -> ()
  return
}

// -----

func.func private @two(%x: memref<4xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (4)>} : () -> ()
  // expected-error @+1 {{'bascule.kernel' stands beside the kernel of @two}}
  "bascule.kernel"() ({
  ^bb0(%i: index):
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (4)>} : () -> ()
  return
}

// -----

func.func private @twice(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %out = bufferization.alloc_tensor() : tensor<4xf32>
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %e = tensor.extract %x[%i] : tensor<4xf32>
    "bascule.store"(%e, %out, %i) : (f32, tensor<4xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (4)>} : () -> ()
  // expected-error @+1 {{result 1 of the kernel function @twice is no destination of its own}}
  return %out, %out : tensor<4xf32>, tensor<4xf32>
}

// -----

func.func private @given(%x: tensor<4xf32>) -> tensor<4xf32> {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (4)>} : () -> ()
  // expected-error @+1 {{result 0 of the kernel function @given is no destination of its own}}
  return %x : tensor<4xf32>
}

// -----

func.func private @made(%x: tensor<4xf32>) -> tensor<4xf32> {
  %first = bufferization.alloc_tensor() : tensor<4xf32>
  // expected-error @+1 {{starts from what is no argument of the kernel function @made}}
  %out = bufferization.alloc_tensor() copy(%first) : tensor<4xf32>
  "bascule.kernel"() ({
  ^bb0(%i: index):
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (4)>} : () -> ()
  return %out : tensor<4xf32>
}

// -----

// expected-error @+1 {{PyTorch has no operator 'x', which the ATen function @out stands for}}
func.func private @out(tensor<4xf32>) -> tensor<4xf32> attributes {bascule.extern = "aten.sin.default", bascule.out = "x", bascule.arguments = [#bascule.operand<0>], bascule.results = array<i64: 0>}

// -----

func.func private @second(%x: memref<4xf32>) {
  // expected-error @+1 {{@second has 2 blocks}}
  cf.br ^after
^after:
  "bascule.kernel"() ({
  ^bb0(%i: index):
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (4)>} : () -> ()
  return
}

// -----

// expected-error @+1 {{@aten.neg is a declaration with 'bascule.graph'}}
func.func private @aten.neg(tensor<4xf32>) -> tensor<4xf32> attributes {bascule.graph, bascule.extern = "aten.neg.default", bascule.arguments = [#bascule.operand<0>], bascule.results = array<i64: 0>}

// -----

// expected-error @+1 {{@none is a declaration with 'bascule.graph'}}
func.func private @none(tensor<4xf32>) -> tensor<4xf32> attributes {bascule.graph}

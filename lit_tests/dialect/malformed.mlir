// What an operation lacks is told before its own verifier looks at it.
// RUN: bascule-opt %s --split-input-file --verify-diagnostics

func.func @no_attribute(%x: tensor<4xf32>) {
  // expected-error @+1 {{attribute "ranges" is expected but not provided}}
  %r = "bascule.compute"() ({
  ^bb0(%i: index):
    %e = tensor.extract %x[%i] : tensor<4xf32>
    "bascule.yield"(%e) : (f32) -> ()
  }) {range = affine_map<() -> (4)>} : () -> tensor<4xf32>
  return
}

// -----

func.func @other_attribute(%x: tensor<4xf32>) {
  // expected-error @+1 {{expected base attribute 'builtin.affine_map' but got 'builtin.integer'}}
  %r = "bascule.compute"() ({
  ^bb0(%i: index):
    %e = tensor.extract %x[%i] : tensor<4xf32>
    "bascule.yield"(%e) : (f32) -> ()
  }) {ranges = 4 : i64} : () -> tensor<4xf32>
  return
}

// -----

func.func @no_operand(%seed: i64) {
  // expected-error @+1 {{expects exactly 2 operands, but got 1}}
  %r = "bascule.random"(%seed) {distribution = "uniform"} : (i64) -> f32
  return
}

// -----

func.func @no_result(%x: tensor<4xf32>) {
  // expected-error @+1 {{expects exactly 1 results, but got 0}}
  "bascule.view"(%x) {map = affine_map<(d0) -> (d0)>, shape = affine_map<() -> (4)>} : (tensor<4xf32>) -> ()
  return
}

// -----

func.func @no_region() {
  // expected-error @+1 {{unexpected number of regions: expected 1 but got 0}}
  "bascule.foreach"() {ranges = affine_map<() -> (4)>} : () -> ()
  return
}

// -----

func.func @symbols(%n: index, %x: tensor<4xf32>) {
  // expected-error @+1 {{has a 'ranges' of 2 symbols in a function of 1}}
  "bascule.foreach"() ({
  ^bb0(%i: index):
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<()[s0, s1] -> (s1)>} : () -> ()
  return
}

// -----

func.func @yield(%v: f32) {
  // expected-error @+1 {{ends a region of an operation of this dialect, not of 'func.func'}}
  "bascule.yield"(%v) : (f32) -> ()
}

// -----

func.func @custom(%x: tensor<4xf32>) {
  // expected-error @+1 {{'bascule.compute' has no custom form}}
  %r = bascule.compute ranges(4) {} : tensor<4xf32>
  return
}

// -----

// An operation stands where it has a meaning.
func.func @reduction_of_a_graph(%x: tensor<4xf32>) {
  // expected-error @+1 {{'bascule.reduce' op stands in 'bascule.compute', 'bascule.reduce', 'bascule.scan', 'bascule.scatter', 'bascule.kernel' or 'bascule.foreach', not in 'func.func'}}
  %0 = "bascule.reduce"() ({
  ^bb0(%i: index):
    %e = tensor.extract %x[%i] : tensor<4xf32>
    "bascule.yield"(%e) : (f32) -> ()
  }) {kind = "sum", ranges = affine_map<() -> (4)>} : () -> f32
  return
}

// -----

func.func @store_of_a_graph(%x: tensor<4xf32>, %v: f32, %i: index) {
  // expected-error @+1 {{'bascule.store' op stands in 'bascule.kernel', 'bascule.foreach' or 'bascule.scatter', not in 'func.func'}}
  "bascule.store"(%v, %x, %i) : (f32, tensor<4xf32>, index) -> ()
  return
}

// -----

func.func @store_of_a_compute(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index):
    %e = tensor.extract %x[%i] : tensor<4xf32>
    %positive = arith.cmpf ogt, %e, %e : f32
    scf.if %positive {
      // expected-error @+1 {{not in 'bascule.compute'}}
      "bascule.store"(%e, %x, %i) : (f32, tensor<4xf32>, index) -> ()
    }
    "bascule.yield"(%e) : (f32) -> ()
  }) {ranges = affine_map<() -> (4)>} : () -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @loop_of_a_compute(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index):
    // expected-error @+1 {{'bascule.foreach' op stands in 'bascule.kernel' or 'bascule.foreach', not in 'bascule.compute'}}
    "bascule.foreach"() ({
    ^bb0(%j: index):
      "bascule.yield"() : () -> ()
    }) {ranges = affine_map<() -> (4)>} : () -> ()
    %e = tensor.extract %x[%i] : tensor<4xf32>
    "bascule.yield"(%e) : (f32) -> ()
  }) {ranges = affine_map<() -> (4)>} : () -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @view_of_a_compute(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index):
    // expected-error @+1 {{'bascule.view' op stands in 'func.func', not in 'bascule.compute'}}
    %v = "bascule.view"(%x) {map = affine_map<(d0) -> (d0)>, shape = affine_map<() -> (4)>} : (tensor<4xf32>) -> tensor<4xf32>
    %e = tensor.extract %v[%i] : tensor<4xf32>
    "bascule.yield"(%e) : (f32) -> ()
  }) {ranges = affine_map<() -> (4)>} : () -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @kernel_of_a_graph(%x: tensor<4xf32>) attributes {bascule.graph} {
  // expected-error @+1 {{is the body of a kernel function, which a graph function calls, and not in one itself}}
  "bascule.kernel"() ({
  ^bb0(%i: index):
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (4)>} : () -> ()
  return
}

// -----

// Scalars are signless.
func.func @signs(%x: tensor<4xui8>) -> tensor<4xui8> {
  // expected-error @+1 {{yields ui8 for elements of type i8: 'builtin.unrealized_conversion_cast' makes it signless, ui8 to i8}}
  %0 = "bascule.compute"() ({
  ^bb0(%i: index):
    %e = tensor.extract %x[%i] : tensor<4xui8>
    "bascule.yield"(%e) : (ui8) -> ()
  }) {ranges = affine_map<() -> (4)>} : () -> tensor<4xui8>
  return %0 : tensor<4xui8>
}

// -----

func.func @points(%x: tensor<4xf32>) {
  // expected-error @+1 {{has 9223372041149743104 points: an address has fewer bits}}
  "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %z = arith.constant 0.0 : f32
    "bascule.yield"(%z) : (f32) -> ()
  }) {ranges = affine_map<() -> (4294967298, 2147483648)>} : () -> tensor<4294967298x2147483648xf32>
  return
}

// -----

func.func @layout(%x: tensor<4xf32>) {
  // expected-error @+1 {{has a result of rank 1 with a layout of 2 dims}}
  "bascule.compute"() ({
  ^bb0(%i: index):
    %e = tensor.extract %x[%i] : tensor<4xf32>
    "bascule.yield"(%e) : (f32) -> ()
  }) {ranges = affine_map<() -> (4)>} : () -> tensor<4xf32, #bascule.layout<affine_map<(d0, d1) -> (d0 + d1)>>>
  return
}

// RUN: bascule-opt %s --split-input-file --verify-diagnostics

func.func @yields(%x: f32) {
  // expected-error @+1 {{expects its region to yield 0 value(s), got 1}}
  "bascule.kernel"() ({
  ^bb0(%i: index):
    "bascule.yield"(%x) : (f32) -> ()
  }) {ranges = affine_map<() -> (4)>} : () -> ()
  return
}

// -----

func.func @foreach(%x: f32) {
  // expected-error @+1 {{expects a block of 1 arguments, one for each range, got 0}}
  "bascule.foreach"() ({
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (4)>} : () -> ()
  return
}

// -----

func.func @store_rank(%v: f32, %x: tensor<4x4xf32>, %i: index) {
  // expected-error @+1 {{has 1 indices for a destination of rank 2}}
  "bascule.store"(%v, %x, %i) : (f32, tensor<4x4xf32>, index) -> ()
  return
}

// -----

func.func @store_type(%v: f32, %x: tensor<4xbf16>, %i: index) {
  // expected-error @+1 {{stores f32 into elements of type bf16}}
  "bascule.store"(%v, %x, %i) : (f32, tensor<4xbf16>, index) -> ()
  return
}

// -----

func.func @store_mode(%v: f32, %x: tensor<4xf32>, %i: index) {
  // expected-error @+1 {{has the unknown mode 'sub'; known: set, add}}
  "bascule.store"(%v, %x, %i) {mode = "sub"} : (f32, tensor<4xf32>, index) -> ()
  return
}

// -----

func.func @store_where(%v: f32, %i: index) {
  // expected-error @+1 {{stores into a ranked tensor or memref, got f32}}
  "bascule.store"(%v, %v, %i) : (f32, f32, index) -> ()
  return
}

// -----

// Of a schedule: keys that nobody reads, values of other classes, and what is not there.
func.func private @unknown_key(%x: tensor<4xf32>) {
  // expected-error @+1 {{has a schedule that has the unknown key 'domain.speed'; known: vector, lanes}}
  "bascule.kernel"() ({
  ^bb0(%i: index):
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (4)>, schedule = #bascule.schedule<{target = "cpu", loops = [], domain = {speed = 1 : i64}}>} : () -> ()
  return
}

// -----

func.func private @other_class(%x: tensor<4xf32>) {
  // expected-error @+1 {{has a schedule that has "wide" at 'domain.lanes', which is no IntegerAttr}}
  "bascule.kernel"() ({
  ^bb0(%i: index):
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (4)>, schedule = #bascule.schedule<{target = "cpu", loops = [], domain = {lanes = "wide"}}>} : () -> ()
  return
}

// -----

func.func private @missing_key(%x: tensor<4xf32>) {
  // expected-error @+1 {{has a schedule that lacks the key 'loops[0].step'}}
  "bascule.kernel"() ({
  ^bb0(%i: index):
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (4)>, schedule = #bascule.schedule<{target = "cuda", warps = 1 : i64, stages = 1 : i64, index_bits = 32 : i64,
      capability = 90 : i64, order = array<i64: 0>, axes = array<i64: 1>, tile = array<i64: 4>,
      loops = [{order = array<i64: 0>, walk = 0 : i64, evict = "normal"}]}>} : () -> ()
  return
}

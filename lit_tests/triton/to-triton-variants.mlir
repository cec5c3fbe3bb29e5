// RUN: bascule-opt %s --to-triton | filecheck %s --check-prefix=ANY
// RUN: bascule-opt %s --to-triton="sizes=narrow" | filecheck %s --check-prefix=NARROW
// RUN: bascule-opt %s --to-triton="sizes=aligned" | filecheck %s --check-prefix=ALIGNED
// RUN: not bascule-opt %s --to-triton="sizes=odd" 2>&1 | filecheck %s --check-prefix=WRONG

// A kernel of dynamic sizes: indices of 64 bits, of 32, and of 32 with symbols that are multiples of 16.
// ANY: ^bb0(%{{.*}}: i64, %{{.*}}: !tt.ptr<f32>, %{{.*}}: !tt.ptr<f32>):
// ANY: arg_attrs = [{}, {tt.divisibility = 16 : i32}, {tt.divisibility = 16 : i32}]
// ANY-SAME: sym_name = "twice"
// NARROW: ^bb0(%{{.*}}: i32, %{{.*}}: !tt.ptr<f32>, %{{.*}}: !tt.ptr<f32>):
// NARROW: arg_attrs = [{}, {tt.divisibility = 16 : i32}, {tt.divisibility = 16 : i32}]
// NARROW-SAME: sym_name = "twice_narrow"
// ALIGNED: ^bb0(%{{.*}}: i32, %{{.*}}: !tt.ptr<f32>, %{{.*}}: !tt.ptr<f32>):
// ALIGNED: arg_attrs = [{tt.divisibility = 16 : i32}, {tt.divisibility = 16 : i32}, {tt.divisibility = 16 : i32}]
// ALIGNED-SAME: sym_name = "twice_aligned"
// WRONG: option 'sizes' cannot be 'odd'
func.func private @twice(%n: index, %x: memref<?xf32>, %out: memref<?xf32>)
    attributes {arg_attrs = [{}, {bascule.shape = affine_map<()[s0] -> (s0)>}, {bascule.shape = affine_map<()[s0] -> (s0)>}]} {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %e = memref.load %x[%i] : memref<?xf32>
    %f = arith.addf %e, %e : f32
    "bascule.store"(%f, %out, %i) : (f32, memref<?xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<()[s0] -> (s0)>, schedule = #bascule.schedule<{target = "cuda", order = array<i64: 0>, axes = array<i64: 1>, tile = array<i64: 128>,
      loops = [], warps = 1 : i64, stages = 1 : i64, index_bits = 64 : i64, narrow = affine_map<()[s0] -> (s0)>, capability = 90 : i64}>} : () -> ()
  return
}

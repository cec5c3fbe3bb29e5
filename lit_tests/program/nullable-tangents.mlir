// RUN: bascule-opt %s '--nullable-tangents=target=cuda' | filecheck %s
// RUN: bascule-opt %s --nullable-tangents | filecheck %s --check-prefix=CPU
// RUN: bascule-opt %s '--nullable-tangents=target=cuda' --to-triton | filecheck %s --check-prefix=TTIR
// RUN: bascule-run %s --interpret-only --pipeline='nullable-tangents{target=cuda},plan-memory{target=cuda}'

// Gradients that autograd mostly does not have need no memory where kernels alone read them, point by point. One that an operator reads does.

func.func private @add(%g: memref<64xf32>, %x: memref<64xf32>, %out: memref<64xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %a = memref.load %g[%i] : memref<64xf32>
    %b = memref.load %x[%i] : memref<64xf32>
    %c = arith.addf %a, %b : f32
    "bascule.store"(%c, %out, %i) : (f32, memref<64xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (64)>, schedule = #bascule.schedule<{target = "cuda", kind = "pointwise", order = array<i64: 0>, axes = array<i64: 1>, tile = array<i64: 64>, loops = [], warps = 2, stages = 1, index_bits = 32, capability = 90}>} : () -> ()
  return
}

func.func private @aten.neg(memref<64xf32>, memref<64xf32>) attributes {bascule.extern = "aten.neg.default", bascule.arguments = [#bascule.operand<0>], bascule.out = "aten.neg.out", bascule.results = array<i64: 0>}

// CHECK: func.func private @add(%{{.*}}: memref<64xf32> {bascule.nullable}, %{{.*}}: memref<64xf32>, %{{.*}}: memref<64xf32>)
// CHECK: func.func @main(%{{.*}}: memref<64xf32> {bascule.nullable, bascule.tangent}, %{{.*}}: memref<64xf32> {bascule.dies, bascule.tangent}, %{{.*}}: memref<64xf32> {bascule.dies})
// CPU-NOT: bascule.nullable
// CPU: func.func @main(%{{.*}}: memref<64xf32> {bascule.dies, bascule.tangent}, %{{.*}}: memref<64xf32> {bascule.dies, bascule.tangent}, %{{.*}}: memref<64xf32> {bascule.dies})

// TTIR: %[[ADDRESS:.*]] = "tt.ptr_to_int"(%arg0)
// TTIR: %[[GIVEN:.*]] = arith.cmpi ne, %[[ADDRESS]]
// TTIR: %[[MASK:.*]] = "tt.splat"(%[[GIVEN]])
// TTIR: "tt.load"(%{{.*}}, %[[MASK]], %{{.*}})
// TTIR-NOT: tt.ptr_to_int
func.func @main(%g: memref<64xf32> {bascule.tangent}, %h: memref<64xf32> {bascule.tangent}, %x: memref<64xf32> {bascule.dies}) -> (memref<64xf32>, memref<64xf32>) attributes {bascule.graph} {
  %sum = memref.alloc() : memref<64xf32>
  func.call @add(%g, %x, %sum) : (memref<64xf32>, memref<64xf32>, memref<64xf32>) -> ()
  %twice = memref.alloc() : memref<64xf32>
  func.call @add(%x, %x, %twice) : (memref<64xf32>, memref<64xf32>, memref<64xf32>) -> ()
  %minus = memref.alloc() : memref<64xf32>
  func.call @aten.neg(%h, %minus) : (memref<64xf32>, memref<64xf32>) -> ()
  memref.dealloc %twice : memref<64xf32>
  return %sum, %minus : memref<64xf32>, memref<64xf32>
}

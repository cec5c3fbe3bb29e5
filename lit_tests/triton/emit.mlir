// What Triton makes of the kernels that to-triton leaves, for a GPU that need not be there.
// RUN: bascule-opt %s --to-triton --emit=ttgir | filecheck %s --check-prefix=TTGIR
// RUN: bascule-opt %s --to-triton --emit=ptx --target=sm_80 | filecheck %s --check-prefix=PTX
// RUN: bascule-opt %s --to-triton --emit=ptx --target=sm_100 -o %t.ptx && filecheck %s --check-prefix=BLACKWELL < %t.ptx
// RUN: bascule-opt %s --to-triton --emit=sass-report --target=sm_90a | filecheck %s --check-prefix=REPORT

// TTGIR: // kernel 'scale' ({{.*}}emit.mlir:[[LINE:[0-9]+]]:3), sm_90
// TTGIR: ttg.target = "cuda:90"
// TTGIR: tt.func public @scale
// TTGIR: tensor<256xf32, #blocked>
// TTGIR: // kernel 'row'
// TTGIR: tt.func public @row

// PTX: // kernel 'scale'
// PTX: .target sm_80
// PTX: .visible .entry scale(
// PTX-NOT: griddepcontrol
// PTX: // kernel 'row'
// PTX: .visible .entry row(
// BLACKWELL: .target sm_100a
// BLACKWELL: .visible .entry scale(
// BLACKWELL: griddepcontrol.wait
// BLACKWELL: ld.global

// The row's 512 numbers a thread do not fit into its registers.
// REPORT: // kernel 'scale' ({{.*}}emit.mlir:{{[0-9]+}}:3), sm_90
// REPORT-NEXT: warps 1, registers {{[1-9][0-9]*}} a thread, shared memory 0 bytes
// REPORT-NEXT: stack 0 bytes, spilled: stores 0 bytes, loads 0 bytes
// REPORT-NEXT: instructions {{[1-9][0-9]*}}
// REPORT-NEXT: 4 LDG.E.128
// REPORT-NEXT: 1 STG.E.128
// REPORT: // kernel 'row'
// REPORT-NEXT: warps 1
// REPORT-NEXT: stack {{[1-9][0-9]*}} bytes, spilled: stores {{[1-9][0-9]*}} bytes, loads {{[1-9][0-9]*}} bytes
// REPORT: LDL

// RUN: not bascule-opt %s --to-triton --emit=cubin 2>&1 | filecheck %s --check-prefix=EMITTER
// EMITTER: --emit: nothing emits 'cubin'
// EMITTER-NEXT: hint: known: ptx, sass-report, ttgir
// RUN: not bascule-opt %s --to-triton --emit=ptx --target=h100 2>&1 | filecheck %s --check-prefix=TARGET
// TARGET: 'h100' is no GPU architecture
// RUN: not bascule-opt %s --to-triton --emit=sass-report --target=sm_30 2>&1 | filecheck %s --check-prefix=OLD
// OLD: does not compile for sm_30
// LLVM would end the process here.
// RUN: not bascule-opt %s --to-triton --emit=ptx --target=sm_200 2>&1 | filecheck %s --check-prefix=FUTURE
// FUTURE: does not compile for sm_200
// RUN: not bascule-opt %s --emit=ptx 2>&1 | filecheck %s --check-prefix=NONE
// NONE: there is no Triton kernel in the module
// NONE-NEXT: hint: run --to-triton before it
// RUN: not bascule-opt %s --to-triton --target=sm_90 2>&1 | filecheck %s --check-prefix=NOTHING
// NOTHING: --target: there is nothing to emit for a target

func.func private @scale(%x: memref<6x40xf32>, %w: memref<40xf32>, %out: memref<6x40xbf16>) {
  "bascule.kernel"() ({
  ^bb0(%i: index, %j: index):
    %e = memref.load %x[%i, %j] : memref<6x40xf32>
    %s = memref.load %w[%j] : memref<40xf32>
    %f = arith.mulf %e, %s : f32
    %r = arith.truncf %f to_nearest_even : f32 to bf16
    "bascule.store"(%r, %out, %i, %j) : (bf16, memref<6x40xbf16>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (6, 40)>, schedule = #bascule.schedule<{target = "cuda", order = array<i64: 0, 1>, axes = array<i64: 2>, tile = array<i64: 256>,
      loops = [], warps = 1 : i64, stages = 1 : i64, index_bits = 32 : i64, capability = 90 : i64}>} : () -> ()
  return
}

func.func private @row(%x: memref<100x16384xf32>, %out: memref<100x16384xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %max = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = memref.load %x[%i, %k] : memref<100x16384xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "max", ranges = affine_map<() -> (16384)>} : () -> f32
    "bascule.foreach"() ({
    ^bb0(%k: index):
      %e = memref.load %x[%i, %k] : memref<100x16384xf32>
      %d = arith.subf %e, %max : f32
      "bascule.store"(%d, %out, %i, %k) : (f32, memref<100x16384xf32>, index, index) -> ()
      "bascule.yield"() : () -> ()
    }) {ranges = affine_map<() -> (16384)>} : () -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (100)>, schedule = #bascule.schedule<{target = "cuda", order = array<i64: 0>, axes = array<i64: 1>, tile = array<i64: 1>,
      loops = [{along = -1 : i64, evict = "normal", fold = 0 : i64, loops = [], order = array<i64: 0>, step = 16384 : i64, walk = 0 : i64}, {along = -1 : i64, evict = "normal", fold = 0 : i64, loops = [], order = array<i64: 0>, step = 16384 : i64, walk = 1 : i64}], warps = 1 : i64, stages = 1 : i64, index_bits = 32 : i64, capability = 90 : i64}>} : () -> ()
  return
}

// Products of bytes: sums of integers have 32 bits; of floats the instruction is told how many elements it may sum in fewer bits than f32.
// RUN: bascule-opt %s --schedule-kernels=target=cuda --to-triton | filecheck %s
// RUN: bascule-opt %s --schedule-kernels=target=cuda --to-triton --emit=sass-report --target=sm_90 | filecheck %s --check-prefix=SASS
// RUN: bascule-run %s --function=integers --interpret-only --pipeline='builtin.module(schedule-kernels{target=cuda})'
// RUN: bascule-run %s --function=floats --interpret-only --pipeline='builtin.module(schedule-kernels{target=cuda})'

// CHECK: "tt.descriptor_load"
// CHECK-SAME: tensor<64x64xi8>
// CHECK: "tt.dot"
// CHECK-SAME: maxNumImpreciseAcc = 0 : i32
// CHECK-SAME: -> tensor<64x64xi32>
// SASS: kernel 'integers'
// SASS: spilled: stores 0 bytes, loads 0 bytes
// SASS: IGMMA
func.func private @integers(%x: memref<64x64xi8>, %w: memref<64x64xi8>, %out: memref<64x64xi32>) {
  "bascule.kernel"() ({
  ^bb0(%m: index, %n: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %a = memref.load %x[%m, %k] : memref<64x64xi8>
      %c = arith.extsi %a : i8 to i32
      %d = memref.load %w[%n, %k] : memref<64x64xi8>
      %e = arith.extsi %d : i8 to i32
      %f = arith.muli %c, %e : i32
      "bascule.yield"(%f) : (i32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (64)>} : () -> i32
    "bascule.store"(%sum, %out, %m, %n) : (i32, memref<64x64xi32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (64, 64)>} : () -> ()
  return
}

// CHECK: "tt.descriptor_load"
// CHECK-SAME: tensor<64x128xf8E4M3FN>
// CHECK: "tt.dot"
// CHECK-SAME: maxNumImpreciseAcc = 128 : i32
// CHECK-SAME: (tensor<64x128xf8E4M3FN>, tensor<128x64xf8E5M2>, tensor<64x64xf32>)
// SASS: kernel 'floats'
// SASS: spilled: stores 0 bytes, loads 0 bytes
// SASS: QGMMA
func.func private @floats(%x: memref<64x128xf8E4M3FN>, %w: memref<64x128xf8E5M2>, %out: memref<64x64xf32>) {
  "bascule.kernel"() ({
  ^bb0(%m: index, %n: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %a = memref.load %x[%m, %k] : memref<64x128xf8E4M3FN>
      %c = arith.extf %a : f8E4M3FN to f32
      %d = memref.load %w[%n, %k] : memref<64x128xf8E5M2>
      %e = arith.extf %d : f8E5M2 to f32
      %f = arith.mulf %c, %e : f32
      "bascule.yield"(%f) : (f32) -> ()
    }) {bascule.partial_sums = 128 : i64, kind = "sum", ranges = affine_map<() -> (128)>} : () -> f32
    "bascule.store"(%sum, %out, %m, %n) : (f32, memref<64x64xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (64, 64)>} : () -> ()
  return
}

// A computed factor of columns is the first of the instruction, which registers hold; the sums are turned round last.
// CHECK: %[[W:.*]] = arith.truncf %{{.*}} : tensor<64x64xf32> to tensor<64x64xbf16>
// CHECK: %[[X:.*]] = "tt.descriptor_load"
// CHECK-SAME: -> tensor<64x64xbf16>
// CHECK: %[[T:.*]] = "tt.trans"(%[[X]])
// CHECK: %[[SUM:.*]] = "tt.dot"(%[[W]], %[[T]]
// CHECK: "tt.trans"(%[[SUM]])
// SASS: kernel 'weight'
// SASS: spilled: stores 0 bytes, loads 0 bytes
// SASS: HGMMA
func.func private @weight(%x: memref<64x64xbf16>, %w: memref<64x64xi8>, %out: memref<64x64xf32>) {
  "bascule.kernel"() ({
  ^bb0(%m: index, %n: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %a = memref.load %x[%m, %k] : memref<64x64xbf16>
      %c = arith.extf %a : bf16 to f32
      %d = memref.load %w[%n, %k] : memref<64x64xi8>
      %e = arith.sitofp %d : i8 to f32
      %h = arith.truncf %e to_nearest_even : f32 to bf16
      %i = arith.extf %h : bf16 to f32
      %f = arith.mulf %c, %i : f32
      "bascule.yield"(%f) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (64)>} : () -> f32
    "bascule.store"(%sum, %out, %m, %n) : (f32, memref<64x64xf32>, index, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (64, 64)>} : () -> ()
  return
}

// RUN: bascule-opt %s --split-input-file --verify-diagnostics --schedule-kernels=target=cuda --to-triton

func.func private @by_twos(%x: memref<100xf32>, %out: memref<100xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %zero = arith.constant 0.0 : f32
    %first = arith.constant 0 : i32
    %last = arith.constant 9 : i32
    %step = arith.constant 2 : i32
    // expected-error @+1 {{a loop by other steps than ones: no Triton lowering yet}}
    %sum = scf.for %k = %first to %last step %step iter_args(%s = %zero) -> (f32) : i32 {
      %e = memref.load %x[%i] : memref<100xf32>
      %t = arith.addf %s, %e : f32
      scf.yield %t : f32
    }
    "bascule.store"(%sum, %out, %i) : (f32, memref<100xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (100)>} : () -> ()
  return
}

// -----

func.func private @of_an_index(%x: memref<100xf32>, %out: memref<100xf32>) {
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %zero = arith.constant 0.0 : f32
    %first = arith.constant 0 : index
    %last = arith.constant 9 : index
    %step = arith.constant 1 : index
    // expected-error @+1 {{a loop of an index: no Triton lowering yet}}
    %sum = scf.for %k = %first to %last step %step iter_args(%s = %zero) -> (f32) {
      %e = memref.load %x[%k] : memref<100xf32>
      %t = arith.addf %s, %e : f32
      scf.yield %t : f32
    }
    "bascule.store"(%sum, %out, %i) : (f32, memref<100xf32>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<() -> (100)>} : () -> ()
  return
}

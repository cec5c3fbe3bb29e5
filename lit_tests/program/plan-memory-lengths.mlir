// RUN: bascule-opt %s --bufferize-kernels --plan-memory | filecheck %s
// RUN: bascule-run %s --interpret-only --pipeline=bufferize-kernels,plan-memory --shapes s0=7

#layout = #bascule.layout<affine_map<(d0) -> (d0)>>

func.func private @negate(%n: index, %x: tensor<?xf32, #layout> {bascule.shape = affine_map<()[s0] -> (s0)>}) -> tensor<?xf32, #layout> attributes {bascule.shapes = [affine_map<()[s0] -> (s0)>]} {
  %out = bufferization.alloc_tensor(%n) : tensor<?xf32, #layout>
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %e = tensor.extract %x[%i] : tensor<?xf32, #layout>
    %f = arith.negf %e : f32
    "bascule.store"(%f, %out, %i) : (f32, tensor<?xf32, #layout>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<()[s0] -> (s0)>} : () -> ()
  return %out : tensor<?xf32, #layout>
}

func.func private @pad(%n: index, %x: tensor<?xf32, #layout> {bascule.shape = affine_map<()[s0] -> (s0)>}) -> tensor<?xf32, #layout> attributes {bascule.shapes = [affine_map<()[s0] -> (s0 * 2)>]} {
  %length = affine.apply affine_map<()[s0] -> (s0 * 2)>()[%n]
  %zero = arith.constant 0.0 : f32
  %out = bufferization.alloc_tensor(%length) : tensor<?xf32, #layout>
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %inside = arith.cmpi slt, %i, %n : index
    %e = scf.if %inside -> (f32) {
      %f = tensor.extract %x[%i] : tensor<?xf32, #layout>
      scf.yield %f : f32
    } else {
      scf.yield %zero : f32
    }
    "bascule.store"(%e, %out, %i) : (f32, tensor<?xf32, #layout>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<()[s0] -> (s0 * 2)>} : () -> ()
  return %out : tensor<?xf32, #layout>
}

func.func private @reverse(%n: index, %x: tensor<?xf32, #layout> {bascule.shape = affine_map<()[s0] -> (s0 * 2)>}) -> tensor<?xf32, #layout> attributes {bascule.shapes = [affine_map<()[s0] -> (s0)>]} {
  %out = bufferization.alloc_tensor(%n) : tensor<?xf32, #layout>
  "bascule.kernel"() ({
  ^bb0(%i: index):
    %k = affine.apply affine_map<(d0)[s0] -> (s0 * 2 - d0 - 1)>(%i)[%n]
    %e = tensor.extract %x[%k] : tensor<?xf32, #layout>
    "bascule.store"(%e, %out, %i) : (f32, tensor<?xf32, #layout>, index) -> ()
    "bascule.yield"() : () -> ()
  }) {ranges = affine_map<()[s0] -> (s0)>} : () -> ()
  return %out : tensor<?xf32, #layout>
}

// One type stands for all unknown lengths: what is padded is read at the index that is written, but too short to be written over.
// CHECK-LABEL: func.func @main
// CHECK: call @negate(%{{.*}}, %{{.*}}, %[[SHORT:.*]]) :
// CHECK: call @pad(%{{.*}}, %[[SHORT]], %[[LONG:[^ ,)]*]]) :
// CHECK-NOT: call @reverse(%{{.*}}, %[[SHORT]],
// CHECK: call @reverse(%{{.*}}, %[[LONG]], %{{.*}}) :
func.func @main(%n: index, %x: tensor<?xf32, #layout> {bascule.shape = affine_map<()[s0] -> (s0)>}) -> tensor<?xf32, #layout> attributes {bascule.graph, bascule.shapes = [affine_map<()[s0] -> (s0)>]} {
  %0 = call @negate(%n, %x) : (index, tensor<?xf32, #layout>) -> tensor<?xf32, #layout>
  %1 = call @pad(%n, %0) : (index, tensor<?xf32, #layout>) -> tensor<?xf32, #layout>
  %2 = call @reverse(%n, %1) : (index, tensor<?xf32, #layout>) -> tensor<?xf32, #layout>
  return %2 : tensor<?xf32, #layout>
}

// RUN: bascule-opt %s --simplify-indexing | filecheck %s
// RUN: bascule-run %s --interpret-only --pipeline=simplify-indexing --shapes=s0=5

// CHECK-DAG: #[[DIV:map[0-9]*]] = affine_map<(d0) -> (d0 floordiv 32)>
// CHECK-DAG: #[[MOD:map[0-9]*]] = affine_map<(d0) -> (d0 mod 32)>
#vector = #bascule.layout<affine_map<(d0) -> (d0)>>
#rows = #bascule.layout<affine_map<(d0, d1) -> (d0 * 32 + d1)>>
#columns = #bascule.layout<affine_map<(d0, d1)[s0] -> (d0 * s0 + d1)>>

// CHECK-LABEL: func.func @main
func.func @main(%n: index, %x: tensor<?x32xf32, #rows> {bascule.shape = affine_map<()[s0] -> (s0, 32)>},
                %y: tensor<?x?xf32, #columns> {bascule.shape = affine_map<()[s0] -> (s0, s0)>})
    -> (tensor<?x32xf32, #rows>, tensor<?xf32, #vector>, tensor<?x?xf32, #columns>, tensor<?xf32, #vector>)
    attributes {bascule.graph, bascule.symbols = ["s0"], bascule.shapes = [affine_map<()[s0] -> (s0, 32)>, affine_map<()[s0] -> (s0 * 32)>, affine_map<()[s0] -> (s0, s0)>, affine_map<()[s0] -> (s0)>]} {
  // A reshape to one dim and back: nothing is left of it.
  // CHECK: ^bb0([[I:%[0-9a-z_]+]]: index, [[J:%[0-9a-z_]+]]: index):
  // CHECK-NEXT: tensor.extract %{{[0-9a-z_]+\[}}[[I]], [[J]]]
  %0 = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %flat = affine.apply affine_map<(d0, d1) -> (d0 * 32 + d1)>(%i, %j)
    %a = affine.apply affine_map<(d0) -> (d0 floordiv 32)>(%flat)
    %b = affine.apply affine_map<(d0) -> (d0 mod 32)>(%flat)
    %e = tensor.extract %x[%a, %b] : tensor<?x32xf32, #rows>
    "bascule.yield"(%e) : (f32) -> ()
  }) {ranges = affine_map<()[s0] -> (s0, 32)>} : () -> tensor<?x32xf32, #rows>

  // What stays is one map of the block's index.
  // CHECK: ^bb0([[K:%[0-9a-z_]+]]: index):
  // CHECK-NEXT: [[Q:%[0-9a-z_]+]] = affine.apply #[[DIV]]([[K]])
  // CHECK-NEXT: [[R:%[0-9a-z_]+]] = affine.apply #[[MOD]]([[K]])
  // CHECK-NEXT: tensor.extract %{{[0-9a-z_]+\[}}[[Q]], [[R]]]
  %1 = "bascule.compute"() ({
  ^bb0(%k: index):
    %a = affine.apply affine_map<(d0) -> (d0 floordiv 8)>(%k)
    %b = affine.apply affine_map<(d0) -> (d0 floordiv 4)>(%a)
    %c = affine.apply affine_map<(d0, d1) -> ((d0 mod 4) * 8 + d1 mod 8)>(%a, %k)
    %e = tensor.extract %x[%b, %c] : tensor<?x32xf32, #rows>
    "bascule.yield"(%e) : (f32) -> ()
  }) {ranges = affine_map<()[s0] -> (s0 * 32)>} : () -> tensor<?xf32, #vector>

  // Division by a symbol, where the range says that the remainder is smaller.
  // CHECK: ^bb0([[I:%[0-9a-z_]+]]: index, [[J:%[0-9a-z_]+]]: index):
  // CHECK-NEXT: tensor.extract %{{[0-9a-z_]+\[}}[[J]], [[I]]]
  %2 = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %flat = affine.apply affine_map<(d0, d1)[s0] -> (d0 * s0 + d1)>(%j, %i)[%n]
    %a = affine.apply affine_map<(d0)[s0] -> (d0 floordiv s0)>(%flat)[%n]
    %b = affine.apply affine_map<(d0)[s0] -> (d0 mod s0)>(%flat)[%n]
    %e = tensor.extract %y[%a, %b] : tensor<?x?xf32, #columns>
    "bascule.yield"(%e) : (f32) -> ()
  }) {ranges = affine_map<()[s0] -> (s0, s0)>} : () -> tensor<?x?xf32, #columns>

  // An index from data has no known range: it is left alone.
  // CHECK: [[D:%[0-9a-z_]+]] = arith.index_cast
  // CHECK-NEXT: affine.apply #[[MOD]]([[D]])
  %3 = "bascule.compute"() ({
  ^bb0(%i: index):
    %zero = arith.constant 0 : index
    %e = tensor.extract %x[%i, %zero] : tensor<?x32xf32, #rows>
    %l = arith.fptosi %e : f32 to i64
    %d = arith.index_cast %l : i64 to index
    %m = affine.apply affine_map<(d0) -> (d0 mod 32)>(%d)
    %r = tensor.extract %x[%i, %m] : tensor<?x32xf32, #rows>
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<()[s0] -> (s0)>} : () -> tensor<?xf32, #vector>
  return %0, %1, %2, %3 : tensor<?x32xf32, #rows>, tensor<?xf32, #vector>, tensor<?x?xf32, #columns>, tensor<?xf32, #vector>
}

// RUN: bascule-opt %s '--pass-pipeline=builtin.module(form-kernels,unroll-windows{target=cuda})' | filecheck %s
// RUN: bascule-opt %s '--pass-pipeline=builtin.module(form-kernels,unroll-windows)' | filecheck %s --check-prefix=CPU
// RUN: bascule-opt %s '--pass-pipeline=builtin.module(form-kernels,unroll-windows{target=cuda},schedule-kernels{target=cuda})' | filecheck %s --check-prefix=SCHEDULE
// RUN: bascule-run %s --function=even --pipeline='builtin.module(form-kernels,unroll-windows{target=cuda})'
// RUN: bascule-run %s --function=odd --pipeline='builtin.module(form-kernels,unroll-windows{target=cuda})'
// RUN: bascule-run %s --function=padded --pipeline='builtin.module(form-kernels,unroll-windows{target=cuda})'
// RUN: bascule-run %s --function=apart --pipeline='builtin.module(form-kernels,unroll-windows{target=cuda})'

#window = affine_map<(d0, d1) -> (d0 + d1)>
#apart = affine_map<(d0, d1) -> (d0 * 5 + d1)>

// Sums of 5 rows at each of 12 places: 6 places of a point read 10 rows. Lanes run along the columns.
// CHECK-LABEL: func.func private @kernel_0(
// CHECK-NOT: "bascule.foreach"
// CHECK-COUNT-6: "bascule.reduce"
// CHECK-NOT: "bascule.reduce"
// // CPU-LABEL: func.func private @kernel_0(
// CPU: "bascule.reduce"
// CPU-NOT: "bascule.reduce"
// CPU: func.func @even
// SCHEDULE-LABEL: func.func private @kernel_0(
// SCHEDULE: kind = "window"
func.func @even(%x: tensor<16x64xf32>) -> tensor<12x64xf32> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %place = affine.apply #window(%i, %k)
      %e = tensor.extract %x[%place, %j] : tensor<16x64xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (5)>} : () -> f32
    "bascule.yield"(%sum) : (f32) -> ()
  }) {ranges = affine_map<() -> (12, 64)>} : () -> tensor<12x64xf32>
  return %0 : tensor<12x64xf32>
}

// 13 places: a loop has those that go together, another the rest.
// CHECK-LABEL: func.func private @kernel_0_0(
// CHECK-COUNT-2: "bascule.foreach"
// SCHEDULE-LABEL: func.func private @kernel_0_0(
// SCHEDULE: kind = "group"
func.func @odd(%x: tensor<17x64xf32>) -> tensor<13x64xf32> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %place = affine.apply #window(%i, %k)
      %e = tensor.extract %x[%place, %j] : tensor<17x64xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (5)>} : () -> f32
    "bascule.yield"(%sum) : (f32) -> ()
  }) {ranges = affine_map<() -> (13, 64)>} : () -> tensor<13x64xf32>
  return %0 : tensor<13x64xf32>
}

// Windows that share nothing.
// CHECK-LABEL: func.func private @kernel_0_1(
// CHECK: "bascule.reduce"
// CHECK-NOT: "bascule.reduce"
func.func @apart(%x: tensor<60x64xf32>) -> tensor<12x64xf32> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index, %j: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index):
      %place = affine.apply #apart(%i, %k)
      %e = tensor.extract %x[%place, %j] : tensor<60x64xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (5)>} : () -> f32
    "bascule.yield"(%sum) : (f32) -> ()
  }) {ranges = affine_map<() -> (12, 64)>} : () -> tensor<12x64xf32>
  return %0 : tensor<12x64xf32>
}

// A border of one row above and below: of the 9 rows that 7 places of a point read, two may be in it. Windows of 3 x 3 are sums without a loop,
// and along the first index, whose neighbours are further apart in memory.
// CHECK-LABEL: func.func private @kernel_0_2(
// CHECK: affine.apply #{{.*}}(%[[I:.*]])
// CHECK-COUNT-3: scf.if
// CHECK: {kind = "sum", ranges = #[[ONE:.*]]}
// CHECK-NOT: scf.if
// CHECK: {kind = "sum", ranges = #[[ONE]]}
// CHECK-COUNT-4: {kind = "sum", ranges = #[[ONE]]}
// CHECK-COUNT-3: scf.if
// CHECK-NOT: scf.if
func.func @padded(%x: tensor<14x16x64xf32> {bascule.range = [0.0, 1.0]}) -> tensor<14x14x64xf32> attributes {bascule.graph} {
  %zero = arith.constant 0 : index
  %end = arith.constant 14 : index
  %nothing = arith.constant 0.0 : f32
  %0 = "bascule.compute"() ({
  ^bb0(%i: index, %j: index, %c: index):
    %sum = "bascule.reduce"() ({
    ^bb0(%k: index, %l: index):
      %row = affine.apply affine_map<(d0, d1) -> (d0 + d1 - 1)>(%i, %k)
      %column = affine.apply #window(%j, %l)
      %above = arith.cmpi sge, %row, %zero : index
      %below = arith.cmpi slt, %row, %end : index
      %inside = arith.andi %above, %below : i1
      %e = scf.if %inside -> (f32) {
        %read = tensor.extract %x[%row, %column, %c] : tensor<14x16x64xf32>
        scf.yield %read : f32
      } else {
        scf.yield %nothing : f32
      }
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (3, 3)>} : () -> f32
    "bascule.yield"(%sum) : (f32) -> ()
  }) {ranges = affine_map<() -> (14, 14, 64)>} : () -> tensor<14x14x64xf32>
  return %0 : tensor<14x14x64xf32>
}

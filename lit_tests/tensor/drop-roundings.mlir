// RUN: bascule-opt %s --drop-roundings | filecheck %s

// CHECK-LABEL: func.func @ours
// CHECK: [[SUM:%[0-9a-z_]+]] = arith.addf
// CHECK-NEXT: [[EXP:%[0-9a-z_]+]] = math.exp [[SUM]]
// CHECK-NEXT: [[OUT:%[0-9a-z_]+]] = arith.truncf [[EXP]]
// CHECK-NEXT: return [[OUT]]
func.func @ours(%a: f32, %b: f32) -> bf16 {
  %0 = arith.addf %a, %b : f32
  %1 = arith.truncf %0 : f32 to bf16
  %2 = arith.extf %1 : bf16 to f32
  %3 = math.exp %2 : f32
  %4 = arith.truncf %3 : f32 to bf16
  return %4 : bf16
}

// A number that is rounded wherever it is read is marked, one that another op has as it is not.
// CHECK-LABEL: func.func @marked
// CHECK: [[EXP:%[0-9a-z_]+]] = math.exp %{{.*}} {bascule.rounded} : f32
// CHECK: [[TANH:%[0-9a-z_]+]] = math.tanh %{{[0-9a-z_]+}} : f32
// CHECK: arith.addf [[EXP]], [[TANH]]
func.func @marked(%a: f32) -> (bf16, bf16, f32, f32) {
  %0 = math.exp %a : f32
  %1 = arith.truncf %0 : f32 to bf16
  %2 = arith.extf %1 : bf16 to f32
  %3 = math.tanh %a : f32
  %4 = arith.truncf %3 : f32 to bf16
  %5 = arith.extf %4 : bf16 to f32
  %6 = arith.addf %2, %5 : f32
  return %1, %4, %3, %6 : bf16, bf16, f32, f32
}

// A rounding mode stays.
// CHECK-LABEL: func.func @mode
// CHECK: arith.truncf %{{.*}} to_nearest_even : f32 to bf16
// CHECK-NEXT: arith.extf
func.func @mode(%a: f32) -> f32 {
  %0 = arith.truncf %a to_nearest_even : f32 to bf16
  %1 = arith.extf %0 : bf16 to f32
  return %1 : f32
}

// A value that is also stored keeps its rounding there; what is computed from it need not have it.
// CHECK-LABEL: func.func @stored
// CHECK-SAME: ([[A:%[0-9a-z_]+]]: f32)
// CHECK-NEXT: [[ROUNDED:%[0-9a-z_]+]] = arith.truncf [[A]]
// CHECK-NEXT: return [[ROUNDED]], [[A]]
func.func @stored(%a: f32) -> (f16, f32) {
  %0 = arith.truncf %a : f32 to f16
  %1 = arith.extf %0 : f16 to f32
  return %0, %1 : f16, f32
}

// CHECK-LABEL: func.func @select
// CHECK-SAME: ([[P:%[0-9a-z_]+]]: i1, [[A:%[0-9a-z_]+]]: f32, [[B:%[0-9a-z_]+]]: bf16)
// CHECK-NEXT: [[WIDE:%[0-9a-z_]+]] = arith.extf [[B]]
// CHECK-NEXT: [[OUT:%[0-9a-z_]+]] = arith.select [[P]], [[A]], [[WIDE]] : f32
// CHECK-NEXT: return [[OUT]]
func.func @select(%p: i1, %a: f32, %b: bf16) -> f32 {
  %0 = arith.truncf %a : f32 to bf16
  %1 = arith.select %p, %0, %b : bf16
  %2 = arith.extf %1 : bf16 to f32
  return %2 : f32
}

// The branches of a guarded read, with two users.
// CHECK-LABEL: func.func @branches
// CHECK-SAME: ([[P:%[0-9a-z_]+]]: i1, [[A:%[0-9a-z_]+]]: f32, [[B:%[0-9a-z_]+]]: bf16)
// CHECK: [[R:%[0-9a-z_]+]] = scf.if [[P]] -> (f32)
// CHECK-NEXT: scf.yield [[A]] : f32
// CHECK: [[WIDE:%[0-9a-z_]+]] = arith.extf [[B]]
// CHECK-NEXT: scf.yield [[WIDE]] : f32
// CHECK: return [[R]], [[R]]
func.func @branches(%p: i1, %a: f32, %b: bf16) -> (f32, f32) {
  %0 = scf.if %p -> (bf16) {
    %3 = arith.truncf %a : f32 to bf16
    scf.yield %3 : bf16
  } else {
    scf.yield %b : bf16
  }
  %1 = arith.extf %0 : bf16 to f32
  %2 = arith.extf %0 : bf16 to f32
  return %1, %2 : f32, f32
}

// The branches are stored as well: they stay narrow.
// CHECK-LABEL: func.func @branches_stored
// CHECK: scf.if %{{.*}} -> (bf16)
// CHECK: arith.truncf
// CHECK: arith.extf
func.func @branches_stored(%p: i1, %a: f32, %b: bf16) -> (bf16, f32) {
  %0 = scf.if %p -> (bf16) {
    %2 = arith.truncf %a : f32 to bf16
    scf.yield %2 : bf16
  } else {
    scf.yield %b : bf16
  }
  %1 = arith.extf %0 : bf16 to f32
  return %0, %1 : bf16, f32
}

// Nothing was computed here in more than was stored.
// CHECK-LABEL: func.func @through_f64
// CHECK: arith.truncf %{{.*}} : f64 to bf16
// CHECK: arith.extf
func.func @through_f64(%a: f64) -> f32 {
  %0 = arith.truncf %a : f64 to bf16
  %1 = arith.extf %0 : bf16 to f32
  return %1 : f32
}

// Two conversions of the user's own that meet: the number is rounded. Arithmetic on 16 bits takes what is not.
// CHECK-LABEL: func.func @casts
// CHECK-SAME: ([[A:%[0-9a-z_]+]]: f32)
// CHECK-NEXT: [[ROUNDED:%[0-9a-z_]+]] = arith.truncf [[A]] {bascule.cast} : f32 to bf16
// CHECK-NEXT: [[WIDE:%[0-9a-z_]+]] = arith.extf [[ROUNDED]] {bascule.cast} : bf16 to f32
// CHECK-NEXT: return [[WIDE]], [[A]]
func.func @casts(%a: f32) -> (f32, f32) {
  %0 = arith.truncf %a {bascule.cast} : f32 to bf16
  %1 = arith.extf %0 {bascule.cast} : bf16 to f32
  %2 = arith.extf %0 : bf16 to f32
  return %1, %2 : f32, f32
}

// What an operator gave, converted by the user.
// CHECK-LABEL: func.func @converted
// CHECK-SAME: ([[A:%[0-9a-z_]+]]: f32)
// CHECK-NEXT: return [[A]]
func.func @converted(%a: f32) -> f32 {
  %0 = arith.truncf %a : f32 to bf16
  %1 = arith.extf %0 {bascule.cast} : bf16 to f32
  return %1 : f32
}

// Asked for as it is in memory.
// CHECK-LABEL: func.func @stored_values
// CHECK-COUNT-2: arith.extf %{{.*}} {bascule.stored} : bf16 to f32
func.func @stored_values(%a: f32) -> (f32, f32) {
  %0 = arith.truncf %a : f32 to bf16
  %1 = arith.extf %0 {bascule.stored} : bf16 to f32
  %2 = arith.truncf %a {bascule.cast} : f32 to bf16
  %3 = arith.extf %2 {bascule.stored} : bf16 to f32
  return %1, %3 : f32, f32
}

// Branches of which users ask for different things stay narrow; a branch that was not rounded keeps the mark.
// CHECK-LABEL: func.func @marked_branches
// CHECK: scf.if %{{.*}} -> (bf16)
// CHECK: scf.if %{{.*}} -> (f32)
// CHECK: arith.extf %{{.*}} {bascule.cast} : bf16 to f32
func.func @marked_branches(%p: i1, %a: f32, %b: bf16) -> (f32, f32, f32) {
  %0 = scf.if %p -> (bf16) {
    %4 = arith.truncf %a : f32 to bf16
    scf.yield %4 : bf16
  } else {
    scf.yield %b : bf16
  }
  %1 = arith.extf %0 : bf16 to f32
  %2 = arith.extf %0 {bascule.cast} : bf16 to f32
  %3 = scf.if %p -> (bf16) {
    %5 = arith.truncf %a : f32 to bf16
    scf.yield %5 : bf16
  } else {
    scf.yield %b : bf16
  }
  %6 = arith.extf %3 {bascule.cast} : bf16 to f32
  return %1, %2, %6 : f32, f32, f32
}

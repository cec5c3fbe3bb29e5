// Passes run in the order given; the pipeline's text, a flag a pass and standard input give the same.
// RUN: bascule-opt %s --canonicalize --cse > %t.flags
// RUN: bascule-opt --pass-pipeline='builtin.module(canonicalize,cse)' < %s > %t.pipeline
// RUN: diff %t.flags %t.pipeline
// RUN: bascule-opt %s --canonicalize -o %t.out && filecheck %s < %t.out
// RUN: bascule-opt %s --canonicalize=max-iterations=2,top-down=true | filecheck %s

// CHECK-LABEL: func.func @fold
// CHECK-NEXT: arith.constant 3
// CHECK-NEXT: return
func.func @fold() -> i32 {
  %a = arith.constant 1 : i32
  %b = arith.constant 2 : i32
  %c = arith.addi %a, %b : i32
  return %c : i32
}

// RUN: bascule-opt %s --canonicalize --cse --mlir-print-ir-after=cse -o %t.out 2>&1 | filecheck %s --check-prefix=AFTER
// AFTER-NOT: IR Dump After canonicalize
// AFTER: IR Dump After cse
// RUN: bascule-opt %s --canonicalize --cse --mlir-print-ir-before-all -o %t.out 2>&1 | filecheck %s --check-prefix=BEFORE
// BEFORE: IR Dump Before canonicalize
// BEFORE: IR Dump Before cse
// RUN: bascule-opt %s --canonicalize --cse --mlir-timing -o %t.out 2>&1 | filecheck %s --check-prefix=TIMING
// TIMING: Execution time report
// TIMING: canonicalize
// TIMING: cse
// TIMING: Total

// RUN: bascule-opt --list-passes | filecheck %s --check-prefix=LIST
// LIST: --form-kernels
// LIST: --torch-to-bascule
// RUN: bascule-opt --show-dialects | filecheck %s --check-prefix=DIALECTS
// DIALECTS: arith, bascule,

// RUN: not bascule-opt %s --no-such-pass 2>&1 | filecheck %s --check-prefix=UNKNOWN
// UNKNOWN: 'no-such-pass' is not a pass of Bascule or of MLIR
// RUN: not bascule-opt %s --pass-pipeline='builtin.module(cse,(' 2>&1 | filecheck %s --check-prefix=BRACKET
// BRACKET: pipeline:21: the pipeline ends inside a bracket
// RUN: not bascule-opt %s.missing 2>&1 | filecheck %s --check-prefix=MISSING
// MISSING: No such file
// RUN: not bascule-opt %s --canonicalize=no-such-option=1 2>&1 | filecheck %s --check-prefix=TAKES
// TAKES: pipeline:1: the pass 'canonicalize' of MLIR does not take 'no-such-option=1'
// RUN: not bascule-opt %s --cse --mlir-print-ir-after=no-such-pass 2>&1 | filecheck %s --check-prefix=PRINT
// PRINT: --mlir-print-ir-after: 'no-such-pass' is not a pass
// RUN: not bascule-opt %s --cse --verify-each=perhaps 2>&1 | filecheck %s --check-prefix=SWITCH
// SWITCH: --verify-each: 'perhaps' is neither true nor false

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
// LIST: passes over FX graphs
// LIST: drop-copies (joint)
// LIST: pad-products (joint, inference, final)
// LIST: with: tensors on cuda
// LIST: save-extremes (joint)
// LIST: required: a gradient may find no element
// RUN: bascule-opt --show-dialects | filecheck %s --check-prefix=DIALECTS
// DIALECTS: arith, arm_neon, {{.*}}bascule,

// RUN: not bascule-opt %s --no-such-pass 2>&1 | filecheck %s --check-prefix=UNKNOWN
// UNKNOWN: '--no-such-pass' is neither an option nor a pass of Bascule or of MLIR
// RUN: not bascule-opt %s --pass-pipeline='builtin.module(cse,(' 2>&1 | filecheck %s --check-prefix=BRACKET
// BRACKET: pipeline:21: the pipeline ends inside a bracket
// RUN: not bascule-opt %s.missing 2>&1 | filecheck %s --check-prefix=MISSING
// MISSING: No such file
// RUN: not bascule-opt %s --canonicalize=no-such-option=1 2>&1 | filecheck %s --check-prefix=TAKES
// TAKES: --canonicalize: the pass 'canonicalize' of MLIR does not take 'no-such-option=1'
// RUN: not bascule-opt %s --cse --mlir-print-ir-after=no-such-pass 2>&1 | filecheck %s --check-prefix=PRINT
// PRINT: --mlir-print-ir-after: 'no-such-pass' is not a pass
// RUN: not bascule-opt %s --cse --verify-each=perhaps 2>&1 | filecheck %s --check-prefix=SWITCH
// SWITCH: --verify-each: 'perhaps' is neither true nor false
// RUN: not bascule-opt %s --canonicalise 2>&1 | filecheck %s --check-prefix=CLOSE
// CLOSE: '--canonicalise' is neither an option nor a pass
// CLOSE-NEXT: hint: did you mean --canonicalize?
// RUN: not bascule-opt %s -o /no/such/folder/out.mlir 2>&1 | filecheck %s --check-prefix=WRITE
// WRITE: bascule-opt: -o: cannot write '/no/such/folder/out.mlir'
// RUN: not bascule-opt %s --pass-pipeline 2>&1 | filecheck %s --check-prefix=VALUE
// VALUE: --pass-pipeline: a value is missing
// RUN: not bascule-opt %s --pass-pipeline='builtin.module(cse,func.func(fold-views))' 2>&1 | filecheck %s --check-prefix=NESTED
// NESTED: pipeline:30: the pass 'fold-views' takes a whole module
// RUN: not bascule-opt %s --pass-pipeline='func.func(cse,no-such-pass)' 2>&1 | filecheck %s --check-prefix=INSIDE
// INSIDE: pipeline:1: 'func.func(cse,no-such-pass)' does not parse: 'no-such-pass' does not refer to a registered pass

// The words of mlir-opt: two pipelines, values apart, how IR is printed, what changed it, what a pass left of it.
// RUN: bascule-opt %s --pass-pipeline 'builtin.module(cse),any(canonicalize)' --dump-pass-pipeline -o %t.out 2>&1 | filecheck %s --check-prefix=DUMP
// DUMP: builtin.module(cse,canonicalize)
// RUN: bascule-opt %s --canonicalize --mlir-print-op-generic --mlir-print-local-scope --mlir-print-debuginfo | filecheck %s --check-prefix=GENERIC
// GENERIC: "func.func"()
// GENERIC: "arith.constant"() {{.*}} loc("{{.*}}bascule-opt.mlir":{{[0-9]+}}:{{[0-9]+}})
// RUN: bascule-opt %s --mlir-print-skip-regions | filecheck %s --check-prefix=SKIP
// SKIP: module {...}
// RUN: bascule-opt %s --canonicalize --cse --mlir-print-ir-after-change -o %t.out 2>&1 | filecheck %s --check-prefix=CHANGE
// CHANGE: IR Dump After canonicalize
// CHANGE-NOT: IR Dump After cse
// RUN: cd %S && not bascule-opt %s --load-pass=pass_that_raises:Raises --raises --mlir-print-ir-after-failure 2>&1 | filecheck %s --check-prefix=FAILURE
// FAILURE: IR Dump After raises Failed
// RUN: bascule-opt %s --canonicalize --mlir-pass-statistics --mlir-disable-threading -o %t.out 2>&1 | filecheck %s --check-prefix=STATISTICS
// STATISTICS: 6  (input)
// STATISTICS-NEXT: 4  canonicalize
// STATISTICS: arith.constant: 2 -> 1
// RUN: bascule-opt %s --verify-roundtrip | filecheck %s --check-prefix=SAME
// SAME: arith.addi
// RUN: bascule-opt --version | filecheck %s --check-prefix=VERSION
// VERSION: bascule-opt {{.*}} torch-mlir

// RUN: not bascule-opt %s --split-reductions=target=abacus 2>&1 | filecheck %s --check-prefix=TARGET
// RUN: not bascule-opt %s --split-reductions=parallel=-1 2>&1 | filecheck %s --check-prefix=NEGATIVE
// TARGET: split-reductions: error: no measures for target 'abacus'
// TARGET: known: cpu, cuda
// NEGATIVE: split-reductions: error: 'parallel', 'min-size' and 'cache' are not negative
func.func @main() attributes {bascule.graph} {
  return
}

// The other tools take what is of no dialect where that is asked for; what a pass of MLIR would die of is refused.
// RUN: not bascule-run %s --function=one --inputs=%t 2>&1 | filecheck %s --check-prefix=ASKED
// RUN: bascule-run %s --allow-unregistered-dialect --function=one | filecheck %s --check-prefix=RAN
// RUN: bascule-reduce %s --allow-unregistered-dialect --test='grep -q mine.op {}' | filecheck %s --check-prefix=REDUCED
// RUN: not bascule-opt %s --allow-unregistered-dialect --inline 2>&1 | filecheck %s --check-prefix=REFUSED
// ASKED: unregistered dialect
// RAN: result 0
// REDUCED: mine.op
// REDUCED-NOT: @one
// REFUSED: unregistered-tools.mlir:[[# @LINE + 5]]:3: error: 'inline' does not take 'mine.op', whose dialect is not loaded
func.func @one(%x: tensor<4xf32>) -> tensor<4xf32> attributes {bascule.graph} {
  return %x : tensor<4xf32>
}
func.func @other() {
  "mine.op"() ({
    "mine.end"() : () -> ()
  }) : () -> ()
  return
}

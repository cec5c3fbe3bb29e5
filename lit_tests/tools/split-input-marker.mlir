// The parts of a file are between lines that begin with the marker that is given.
// RUN: bascule-opt %s --split-input-file='//####' --verify-diagnostics
// RUN: not bascule-opt %s --split-input-file='//####' 2>&1 | filecheck %s
// CHECK: split-input-marker.mlir:10:{{.*}}: error: 'arith.constant' op
// CHECK: func.func @first
// CHECK-NOT: @second
func.func @first() { return }
//#### what follows is of a file by itself
// expected-error @+1 {{requires attribute}}
"arith.constant"() : () -> i32

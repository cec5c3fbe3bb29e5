// Bytecode is written, and read by all tools, with the locations of what it was made of.
// RUN: bascule-opt %s --emit-bytecode -o %t.mlirbc
// RUN: bascule-opt %t.mlirbc --mlir-print-debuginfo | filecheck %s
// RUN: bascule-opt - --mlir-print-debuginfo < %t.mlirbc | filecheck %s
// RUN: bascule-opt %s --emit-bytecode | bascule-opt --form-kernels | filecheck %s --check-prefix=FORMED
// RUN: bascule-run %t.mlirbc --pipeline=default | filecheck %s --check-prefix=MATCH
// CHECK: "bascule.compute"() ({
// CHECK: math.exp {{.*}} loc([[PLACE:#.*]])
// CHECK: [[PLACE]] = loc("{{.*}}bytecode.mlir":{{[0-9]+}}:10)
// FORMED: "bascule.kernel"
// MATCH: match (interpreted)

// RUN: not bascule-opt %s --emit-bytecode --split-input-file 2>&1 | filecheck %s --check-prefix=ONE
// ONE: --emit-bytecode: bytecode is of one module
// RUN: head -c 60 %t.mlirbc > %t.cut && not bascule-opt %t.cut 2>&1 | filecheck %s --check-prefix=CUT
// RUN: not bascule-run %t.cut 2>&1 | filecheck %s --check-prefix=CUT
// CUT: .cut: is no bytecode that can be read: {{.+}}
// CUT-NOT: Traceback
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> attributes {bascule.graph} {
  %0 = "bascule.compute"() ({
  ^bb0(%i: index):
    %e = tensor.extract %x[%i] : tensor<8xf32>
    %v = math.exp %e : f32
    "bascule.yield"(%v) : (f32) -> ()
  }) {ranges = affine_map<() -> (8)>} : () -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

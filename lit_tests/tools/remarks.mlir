// Remarks are diagnostics at the op that they are about, and records, a JSON object a line.
// RUN: bascule-opt %s --split-reductions=parallel=8,min-size=64 --form-kernels --remarks --verify-diagnostics
// RUN: not bascule-opt %s --split-reductions=parallel=8,min-size=64 --form-kernels --remarks-filter=form-kernels --verify-diagnostics 2>&1 | filecheck %s --check-prefix=OTHER
// RUN: bascule-opt %s --split-reductions=parallel=8,min-size=64 --form-kernels --remarks-filter=form-kernels -o %t.mlir 2>&1 | filecheck %s
// RUN: bascule-opt %s --split-reductions=parallel=8,min-size=64 --form-kernels --remarks-functions=elsewhere -o %t.mlir 2>&1 | filecheck %s --check-prefix=NONE --allow-empty
// RUN: bascule-opt %s --split-reductions=parallel=8,min-size=64 --form-kernels --remarks-output-file=%t.jsonl -o %t.mlir
// RUN: filecheck %s --check-prefix=RECORD --input-file=%t.jsonl

// OTHER: expected remark "bascule.compute split into 8 chunks of 64: 1 results of 512 elements each [split-reductions]" was not produced
// CHECK-NOT: split-reductions
// CHECK: remarks.mlir:{{[0-9]+}}:8: remark: bascule.compute not fused with bascule.compute ({{.*}}): {{.*}}; 32 bytes more memory traffic [form-kernels]
// CHECK-NOT: remark:
// NONE-NOT: remark
// RECORD: {"pass": "form-kernels", "kind": "missed", "decision": "not fused", "reason": "{{.*}}", "op": {"operator": "bascule.compute", "source": "{{.*}}"}, "partner": {"operator": "bascule.compute", "source": "{{.*}}"}, "cost": 32, "function": "graph", "kernel": "{{.+}}"}
// RECORD: {"pass": "split-reductions", "kind": "passed", "decision": "split into 8 chunks of 64", {{.*}}"partner": null, "cost": null, "function": "graph", {{.*}}}
func.func @graph(%x: tensor<512xf32>, %y: tensor<512xf32>) -> (tensor<1xf32>, tensor<512xf32>) attributes {bascule.graph} {
  // expected-remark-re @+2 {{bascule.compute not fused with bascule.compute ({{.*}}): {{.*}}; 32 bytes more memory traffic [form-kernels]}}
  // expected-remark @+1 {{bascule.compute split into 8 chunks of 64: 1 results of 512 elements each [split-reductions]}}
  %0 = "bascule.compute"() ({
  ^bb0(%i: index):
    %r = "bascule.reduce"() ({
    ^bb0(%k: index):
      %e = tensor.extract %x[%k] : tensor<512xf32>
      "bascule.yield"(%e) : (f32) -> ()
    }) {kind = "sum", ranges = affine_map<() -> (512)>} : () -> f32
    "bascule.yield"(%r) : (f32) -> ()
  }) {ranges = affine_map<() -> (1)>} : () -> tensor<1xf32>
  %1 = "bascule.compute"() ({
  ^bb0(%i: index):
    %zero = arith.constant 0 : index
    %e = tensor.extract %y[%i] : tensor<512xf32>
    %s = tensor.extract %0[%zero] : tensor<1xf32>
    %d = arith.divf %e, %s : f32
    "bascule.yield"(%d) : (f32) -> ()
  }) {ranges = affine_map<() -> (512)>} : () -> tensor<512xf32>
  return %0, %1 : tensor<1xf32>, tensor<512xf32>
}

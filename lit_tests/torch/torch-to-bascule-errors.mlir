// RUN: bascule-opt %s --torch-to-bascule='fallback=error' --split-input-file --verify-diagnostics

// What goes to ATen on purpose is no error.
func.func @product(%x: !torch.vtensor<[2,2],f32>) -> !torch.vtensor<[2,2],f32> {
  %0 = torch.aten.mm %x, %x : !torch.vtensor<[2,2],f32>, !torch.vtensor<[2,2],f32> -> !torch.vtensor<[2,2],f32>
  return %0 : !torch.vtensor<[2,2],f32>
}

// -----

func.func @no_rule(%x: !torch.vtensor<[2],f32>) -> !torch.vtensor<[2],f32> {
  // expected-error @+1 {{mylib.op.default: no rule}}
  %0 = torch.operator "torch.mylib.op"(%x) : (!torch.vtensor<[2],f32>) -> !torch.vtensor<[2],f32>
  return %0 : !torch.vtensor<[2],f32>
}

// -----

// expected-error @+1 {{an argument: of type !torch.int is not taken}}
func.func @argument(%x: !torch.int, %y: !torch.vtensor<[2],f32>) -> !torch.vtensor<[2],f32> {
  return %y : !torch.vtensor<[2],f32>
}

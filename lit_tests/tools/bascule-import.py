# RUN: bascule-import %s:scaled --inputs 'f32[4,8]' | filecheck %s --check-prefix=TORCH
# RUN: bascule-import %s:scaled --inputs 'f32[4,8]' --print-debuginfo | filecheck %s --check-prefix=LOC
# RUN: bascule-import %s:scaled --stage=tensor --inputs 'bf16[4,8]' | bascule-opt | filecheck %s --check-prefix=TENSOR
# RUN: bascule-import %s:with_inputs --dynamic | filecheck %s --check-prefix=DYNAMIC
# RUN: bascule-import %s:module --grad | filecheck %s --check-prefix=GRAD
# RUN: bascule-import %s:scaled --stage=tensor --inputs 'f32[4,8]' --pretty | filecheck %s --check-prefix=PRETTY
# RUN: not bascule-import %s:scaled --inputs 'f32[4,8]' --pretty --print-debuginfo 2>&1 | filecheck %s --check-prefix=FORMS

import torch

# TORCH-LABEL: func.func @main(
# TORCH-SAME: !torch.vtensor<[4,8],f32>
# TORCH: torch.aten.tanh
# TORCH: return

# TENSOR: func.func @main(%[[X:.*]]: tensor<4x8xbf16>) -> tensor<4x8xbf16>
# TENSOR: "bascule.compute"
# TENSOR: math.tanh


# PRETTY-NOT: // This form
# PRETTY: %tanh = "bascule.compute"() ({
# PRETTY-NEXT: ^bb0(%i: index, %j: index):  // %i < 4, %j < 8
# FORMS: there are no locations in the form of --pretty
def scaled(x):
    # LOC: #[[LINE:loc[0-9]+]] = loc("{{.*}}bascule-import.py":{{[0-9]+}}:0)
    # LOC: "aten.tanh.default"(#[[LINE]])
    return torch.tanh(x) * 2


# DYNAMIC: func.func @main(%{{.*}}: index
# DYNAMIC-SAME: bascule.symbols = ["s
def with_inputs(x, y):
    return x @ y


with_inputs.example_inputs = lambda: [torch.ones(4, 3), torch.ones(3, 5)]


# The forward, then the backward.
# GRAD: func.func @main(
# GRAD: torch.aten.relu
# GRAD: // -----
# GRAD: func.func @main(
# GRAD: torch.aten.mm
module = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))


def example_inputs():
    return [torch.randn(4, 8)]

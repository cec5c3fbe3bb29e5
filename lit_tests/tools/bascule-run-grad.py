# RUN: bascule-import %s:f --grad --inputs 'f32[4,6],f32[6]' | bascule-run - --pipeline=default | filecheck %s
# CHECK: module 0: f (forward, compile 0/0)
# CHECK-NEXT: match (interpreted)
# CHECK-NEXT: match (compiled)
# CHECK: module 1: f (backward, compile 0/0)
# CHECK-NEXT: match (interpreted)
# CHECK-NEXT: match (compiled)

# What a module is the IR of stays through the passes.
# RUN: bascule-import %s:f --grad --inputs 'f32[4,6],f32[6]' --stage=kernel | bascule-opt --split-input-file --choose-products --order-program --bufferize-kernels --plan-memory | filecheck %s --check-prefix=STAYS
# STAYS: module attributes {bascule.compile = {direction = "forward", id = "0/0", name = "f"}}
# STAYS: module attributes {bascule.compile = {direction = "backward", id = "0/0", name = "f"}}

# RUN: bascule-import %s:f --grad --inputs 'f32[4,6],f32[6]' -o %t.mlir
# RUN: echo '{}' > %t.json
# RUN: not bascule-run %t.mlir --inputs %t.json 2>&1 | filecheck %s --check-prefix=ONE
# ONE: --inputs: is for one module, and there are 2

import torch


def f(x, w):
    return torch.softmax(x * w, -1).square().sum()

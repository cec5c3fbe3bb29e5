# RUN: bascule-import %s:f --inputs 'f32[4,6],f32[6]' --dynamic | bascule-run - --pipeline=default | filecheck %s
# RUN: bascule-import %s:f --inputs 'f32[4,6],f32[6]' --dynamic | bascule-run - --shapes s0=1,s1=2 --pipeline=default | filecheck %s --check-prefix=ONE

# A graph of the torch dialect, with symbols and a mutated argument.
# CHECK: match (interpreted): 4 tensors
# CHECK-NEXT: match (compiled): 4 tensors
# ONE: match (compiled)

import torch


def f(x, w):
    w.mul_(2)
    return torch.softmax(x * w, -1), x @ w, x.shape[0]

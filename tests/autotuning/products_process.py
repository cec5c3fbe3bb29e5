"""Compiles a layer with made-up times of programs, over the disk cache in the folder that is given; prints what was measured, and chosen."""

import os
import sys
from types import SimpleNamespace

os.environ["BASCULE_CACHE_DIR"] = sys.argv[1]

import torch
from torch.nn import functional as F

import bascule
from bascule.autotuning import session
from bascule.autotuning.products import product_tuner
from bascule.compiler import compile_graph

session.device_name = lambda device: "a device"
asked = []


def begin(programs, device, cached):
    asked.append(programs)
    return lambda: {name: 1.0 if name == "kernel 1" else 2.0 for name in programs}


target = SimpleNamespace(name="cuda", index=0, machine={"target": "cuda"})
compile_graph._tuners = lambda _, record: product_tuner(target, record, begin)
torch.manual_seed(0)
inputs = [torch.randn(*sizes).bfloat16() for sizes in ((64, 48), (80, 48), (80,))]
told = bascule.explain(
    lambda x, w, b: F.gelu(F.linear(x, w, b)), *inputs, options={"target": "interpret", "max_autotune": True}
)
print("measured", len(asked))
print(*(remark for remark in told.graphs[0].remarks), sep="\n")

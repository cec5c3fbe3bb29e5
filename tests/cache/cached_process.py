"""A process of its own that trains one small model with the disk cache; prints its results and the cache's counters as JSON."""

import json
import sys

import torch

import bascule

torch.manual_seed(0)
w, x = torch.randn(8, 8, requires_grad=True), torch.randn(5, 8)
compiled = torch.compile(
    lambda x, w: torch.softmax(torch.tanh(x @ w), -1).cumsum(0), backend="bascule", options={"on_error": "raise"}
)
out = compiled(x, w)
out.square().sum().backward()
compiler = [
    name for name in ("torch_mlir", "bascule.dialect.mlir", "bascule.compiler.compile_graph") if name in sys.modules
]
json.dump(
    {
        "out": out.tolist(),
        "grad": w.grad.tolist(),
        **{n: bascule.counters()[n] for n in ("cache", "traces")},
        "compiler": compiler,
    },
    sys.stdout,
)

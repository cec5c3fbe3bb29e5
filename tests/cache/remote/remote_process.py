"""A process of its own that trains one small model with a remote cache; prints its results, counters and warnings as JSON."""

import json
import sys
import warnings

import torch

import bascule

torch.manual_seed(0)
w, x = torch.randn(8, 8, requires_grad=True), torch.randn(5, 8)
with warnings.catch_warnings(record=True) as given:
    warnings.simplefilter("always")
    compiled = torch.compile(
        lambda x, w: torch.softmax(torch.tanh(x @ w), -1).cumsum(0), backend="bascule", options={"on_error": "raise"}
    )
    out = compiled(x, w)
    out.square().sum().backward()
told = [str(one.message) for one in given if one.category.__name__ == "CacheWarning"]
counted = {name: bascule.counters()[name] for name in ("cache", "traces")}
json.dump(
    {
        "out": out.tolist(),
        "grad": w.grad.tolist(),
        "compiler": "torch_mlir" in sys.modules,
        "warnings": told,
        **counted,
    },
    sys.stdout,
)

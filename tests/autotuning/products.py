"""Products that are tuned on a GPU that is made up: programs take what a test says, and what is chosen runs in the interpreter."""

from types import SimpleNamespace

import pytest
import torch

import bascule
from bascule.autotuning import session
from bascule.autotuning.products import product_tuner
from bascule.compiler import compile_graph

GPU = SimpleNamespace(name="cuda", index=0, machine={"target": "cuda"})


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    """`gpu(times)`: from now on a program takes `times(name)` milliseconds, or has a text as its failure; gives the programs asked for."""
    monkeypatch.setenv("BASCULE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(session, "device_name", lambda device: "a device")
    monkeypatch.setattr(session, "versions", lambda: {"all": "1"})
    asked = []

    def measured(times):
        def begin(programs, device, cached):
            asked.append(dict(programs))
            return lambda: {name: told for name in programs if (told := times(name)) is not None}

        monkeypatch.setattr(compile_graph, "_tuners", lambda target, record: tuners(record, begin))
        return asked

    return measured


def tuners(record, begin):
    return product_tuner(GPU, record, begin) if record.options.max_autotune else []


def explained(function, *inputs, **options):
    """Explanation of the only graph, whose results are compared with those in f64."""
    torch._dynamo.reset()
    given = {"target": "interpret", "on_error": "raise", "max_autotune": True, **options}
    found = torch.compile(function, backend="bascule", options=given)(*inputs)
    wanted = function(*(x.double() for x in inputs))
    for one, other in zip(*(x if isinstance(x, tuple) else (x,) for x in (found, wanted)), strict=True):
        torch.testing.assert_close(one.double(), other.double(), rtol=2e-2, atol=2e-2)
    torch._dynamo.reset()
    (graph,) = bascule.explain(function, *inputs, options=given).graphs
    return graph


def remarks_of(graph):
    return [str(remark) for remark in graph.remarks if remark.pass_name == "expand-products"]


def matrices(*sizes, dtype=torch.bfloat16):
    generator = torch.Generator().manual_seed(0)
    return [(torch.randn(*size, generator=generator) / 8).to(dtype) for size in sizes]

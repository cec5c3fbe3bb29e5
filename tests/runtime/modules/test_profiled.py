"""Graphs, and kernels of a CPU, show in the profiler by their names, and results stay."""

import torch
from bascule.runtime.modules.profiled import RANGE
from torch.profiler import ProfilerActivity, profile

from bascule.reporting.graph_summary import calls_named


def function(x: torch.Tensor) -> torch.Tensor:
    return (x.softmax(-1) @ x.T).tanh()


def test_the_profiler_shows_kernels_by_their_names():
    x = torch.randn(32, 48)
    compiled = torch.compile(function, backend="bascule", options={"cache": False})
    wanted = compiled(x)
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        got = compiled(x)
    assert torch.equal(got, wanted)
    seen = {event.key: event.count for event in profiler.key_averages()}
    kernels = {name for name in seen if name.endswith("_0") and not name.startswith("aten::")}
    assert len(kernels) == 2 and all(seen[name] == 1 for name in kernels)
    assert any("exp" in name for name in kernels) and any("tanh" in name for name in kernels)
    (graph,) = (name for name in seen if name.startswith(RANGE))
    assert seen[graph] == 1
    calls = calls_named(graph)
    assert calls is not None and len(calls) == 3  # two kernels and the product
    assert torch.equal(compiled(x), wanted)  # and again without one

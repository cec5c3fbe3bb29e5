"""`bascule.explain`: what it tells, and that it leaves the model alone."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import bascule


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.linear = torch.nn.LayerNorm(16), torch.nn.Linear(16, 16)

    def forward(self, x):
        return x + torch.tanh(self.linear(self.norm(x)))


def test_a_training_step_is_explained_forward_and_backward():
    model = Block()
    explanation = bascule.explain(model, torch.randn(4, 16), options={"on_error": "raise"})
    forward, backward = explanation.graphs
    assert forward.name.endswith("forward") and backward.name.endswith("backward")
    assert all(parameter.grad is None for parameter in model.parameters())
    (norm,) = [k for k in forward.kernels if "aten.var_mean.correction" in k.operators]
    assert norm.domain == "4" and norm.calls == 1
    assert [(call.operator, call.calls) for call in forward.aten] == [("aten.addmm.default", 1)]
    assert "matrix product" in forward.aten[0].reason
    assert forward.memory is not None
    stages = list(forward.seconds)
    assert stages[0] == "import" and stages[-3:] == ["jit", "wrapper", "load"]
    text = str(explanation)
    for part in (
        "aten.var_mean.correction",
        "aten.addmm.default: a matrix product",
        "arena of",
        "form-kernels",
        norm.name,
    ):
        assert part in text


def test_a_fallback_is_told(monkeypatch):
    monkeypatch.setattr("bascule.targets.placement.KINDS", ("cuda",))
    with pytest.warns(bascule.errors.FallbackWarning):
        explanation = bascule.explain(lambda x: x + 1, torch.ones(3))
    (graph,) = explanation.graphs
    assert "on device 'cpu'" in graph.fallback
    assert "NOT COMPILED: import: the tensor" in str(explanation)


def test_dynamic_sizes_are_told_in_symbols():
    explanation = bascule.explain(lambda x: torch.softmax(x, -1), torch.randn(5, 7), dynamic=True)
    (graph,) = explanation.graphs
    (kernel,) = graph.kernels
    assert kernel.domain == "s0"


def test_graph_breaks_are_told_with_the_users_line():
    def function(x):
        y = torch.sin(x)
        if y.sum() > 0:
            y = y + 1
        return torch.cos(y)

    explanation = bascule.explain(function, torch.ones(5))
    assert len(explanation.graphs) == 2
    (told,) = explanation.breaks
    line = function.__code__.co_firstlineno + 2
    assert told.startswith(f"{__file__}:{line}: ")
    assert "1 graph break of Dynamo's" in str(explanation)
    assert f"test_explain.py:{line}: " in str(explanation)


def test_a_second_time_it_comes_from_the_disk(folder):
    first, second = (bascule.explain(lambda x: torch.sin(x) * 3, torch.ones(5)) for _ in range(2))
    assert not first.graphs[0].loaded and ": 4 nodes, compiled in " in str(first)
    assert bascule.counters()["cache"] == {"miss": 1, "stored": 1, "hit": 1}
    assert second.graphs[0].loaded and ": 4 nodes, loaded from the disk cache in " in str(second)
    assert first.breaks == second.breaks == ()


def test_reports_of_several_threads_take_turns(tmp_path):
    """Each calls `torch.compiler.reset`: beside another's compile, or its call of what was compiled, the process would die."""

    def function(x):
        return (x.sin() + 1).sum()

    def reports(number):
        x = torch.ones(4 + number, requires_grad=True)
        for _ in range(2):
            assert len(bascule.explain(function, x).graphs) == 2
            assert "a peak of" in str(bascule.memory(function, x))
            assert "match: graph0_forward" in str(bascule.bisect(function, [x]))
            assert bascule.report(function, x, path=tmp_path / f"{number}.html").exists()

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(reports, range(3)))

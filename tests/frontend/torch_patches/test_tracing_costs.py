"""Work of AOTAutograd that nobody reads is skipped at each compile."""

import logging

import pytest
import torch
from bascule.frontend.torch_patches import skip_graph_text
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import PythonKeyTracer

OPTIONS = {"on_error": "raise", "cache": False}


def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return (x * 2 + y).flatten().sin(), torch.ones(x.numel() + x.shape[0] * y.shape[1])


def inputs() -> list[torch.Tensor]:
    return [torch.randn(n, 6, requires_grad=True) for n in (4, 4)]


def checked(function, given: list[torch.Tensor]) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="bascule", dynamic=True, options=OPTIONS)
    for got, want in zip(compiled(*given), function(*given)):
        torch.testing.assert_close(got, want)


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[GraphModule]:
    """The graphs that AOTAutograd writes as text. pytest reads PyTorch's traces, and so ours: not those of AOTAutograd here."""
    found, write = [], GraphModule.print_readable

    def print_readable(gm, *args, **kwargs):
        if "expanded_def" in kwargs:  # as AOTAutograd asks
            found.append(gm)
        return write(gm, *args, **kwargs)

    monkeypatch.setattr(GraphModule, "print_readable", print_readable)
    monkeypatch.setattr(skip_graph_text, "trace_log", logging.Logger("a trace that nobody reads"))
    return found


def test_graphs_that_nobody_reads_are_not_written(written):
    checked(function, inputs())
    assert not written


def test_graphs_that_a_log_shows_are_written(written, capfd):
    torch._logging.set_logs(aot_graphs=True)
    try:
        checked(function, inputs())
    finally:
        torch._logging.set_logs()
    assert written
    assert "Forward graph" in capfd.readouterr().err


def test_sizes_that_nothing_uses_are_not_in_the_graph(monkeypatch):
    """Only what `torch.ones` is given and what PyTorch's own functions in Python ask for, whatever the number of operators."""
    nodes, create = [], PythonKeyTracer.create_node

    def create_node(tracer, kind, target, *args, **kwargs):
        nodes.append(target)
        return create(tracer, kind, target, *args, **kwargs)

    monkeypatch.setattr(PythonKeyTracer, "create_node", create_node)

    def arithmetic(length: int) -> int:
        def chain(x, y):
            for _ in range(length):
                x = x * 2 + y
            return x, torch.ones(x.numel())

        nodes.clear()
        checked(chain, inputs())
        return sum(getattr(target, "__module__", "") == "_operator" for target in nodes)

    assert arithmetic(2) == arithmetic(8)

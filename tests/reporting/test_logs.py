"""`TORCH_LOGS`: what PyTorch's own artifacts say with this backend."""

import logging
from contextlib import contextmanager

import pytest
import torch

import bascule


@contextmanager
def heard(logger, **artifacts):
    """The messages of a logger of PyTorch's while `artifacts` are on: a list that fills."""
    said = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())
    torch._logging.set_logs(**artifacts)
    logging.getLogger(logger).addHandler(handler)
    try:
        yield said
    finally:
        logging.getLogger(logger).removeHandler(handler)
        torch._logging.set_logs()


@pytest.mark.parametrize("how", ["option", "Inductor's"])
def test_the_profiler_marks_each_graph(how):
    options = {"on_error": "raise"} | ({"profiler_mark_wrapper_call": True} if how == "option" else {})
    with torch._inductor.config.patch(profiler_mark_wrapper_call=how != "option"):
        f = torch.compile(lambda x: torch.tanh(x).sum(), backend="bascule", options=options)
        f(torch.randn(4, requires_grad=True)).backward()
    with torch.profiler.profile() as profile:
        f(torch.randn(4, requires_grad=True)).backward()
    marks = sorted(event.key for event in profile.key_averages() if event.key.startswith("bascule_graph"))
    assert [mark.rpartition("_")[2] for mark in marks] == ["backward", "forward"]


def test_graph_breaks_name_the_users_line():
    def broken(x):
        y = torch.sin(x)
        torch._dynamo.graph_break()  # the line
        return torch.cos(y)

    x = torch.randn(5)
    with heard("torch._dynamo.symbolic_convert.__graph_breaks", graph_breaks=True) as said:
        found = torch.compile(broken, backend="bascule", options={"on_error": "raise"})(x)
    torch.testing.assert_close(found, broken(x))
    line = broken.__code__.co_firstlineno + 2
    assert any(f"{__file__}:{line}" in text or f'"{__file__}", line {line}' in text for text in said)
    assert bascule.counters()["graphs"] == {"compiled": 2}


def test_why_nothing_is_replayed_on_a_cpu():
    with heard("torch._dynamo.backends.bascule.__cudagraphs", cudagraphs=True) as said:
        torch.compile(torch.sin, backend="bascule", mode="reduce-overhead")(torch.randn(5))
    assert any("_inference: not replayed: nothing of it runs on a GPU" in text for text in said)


def test_inductors_log_names_ours():
    from bascule.reporting import logs

    logs._tell_of_log.cache_clear()
    with heard("torch._inductor", inductor=logging.INFO) as said:
        for size in (5, 6):
            torch.compile(torch.cos, backend="bascule", dynamic=False)(torch.randn(size))
    assert sum("TORCH_LOGS=bascule" in text for text in said) == 1

"""`TORCH_LOGS`: what PyTorch's own artifacts say with this backend."""

import logging

import pytest
import torch

import bascule


@pytest.fixture
def logged(caplog):
    caplog.handler.setLevel(logging.DEBUG)
    yield caplog
    torch._logging.set_logs()


@pytest.mark.parametrize("how", ["option", "Inductor's"])
def test_the_profiler_marks_each_graph(how):
    torch._dynamo.reset()
    options = {"on_error": "raise"} | ({"profiler_mark_wrapper_call": True} if how == "option" else {})
    with torch._inductor.config.patch(profiler_mark_wrapper_call=how != "option"):
        f = torch.compile(lambda x: torch.tanh(x).sum(), backend="bascule", options=options)
        f(torch.randn(4, requires_grad=True)).backward()
    with torch.profiler.profile() as profile:
        f(torch.randn(4, requires_grad=True)).backward()
    marks = sorted(event.key for event in profile.key_averages() if event.key.startswith("bascule_graph"))
    assert [mark.rpartition("_")[2] for mark in marks] == ["backward", "forward"]


def test_graph_breaks_name_the_users_line(logged):
    torch._dynamo.reset()

    def broken(x):
        y = torch.sin(x)
        torch._dynamo.graph_break()  # the line
        return torch.cos(y)

    torch._logging.set_logs(graph_breaks=True)
    logger = logging.getLogger("torch._dynamo.symbolic_convert.__graph_breaks")
    logger.propagate = True
    logger.addHandler(logged.handler)
    x = torch.randn(5)
    try:
        found = torch.compile(broken, backend="bascule", options={"on_error": "raise"})(x)
    finally:
        logger.removeHandler(logged.handler)
    torch.testing.assert_close(found, broken(x))
    line = broken.__code__.co_firstlineno + 2
    assert f"{__file__}:{line}" in logged.text or f'"{__file__}", line {line}' in logged.text
    assert bascule.counters()["graphs"] == {"compiled": 2}


def test_why_nothing_is_replayed_on_a_cpu(logged):
    torch._dynamo.reset()
    torch._logging.set_logs(cudagraphs=True)
    logger = logging.getLogger("torch._dynamo.backends.bascule.__cudagraphs")
    logger.addHandler(logged.handler)
    try:
        torch.compile(torch.sin, backend="bascule", mode="reduce-overhead")(torch.randn(5))
    finally:
        logger.removeHandler(logged.handler)
    assert "_inference: not replayed: nothing of it runs on a GPU" in logged.text


def test_inductors_log_names_ours(logged):
    from bascule.reporting import logs

    torch._dynamo.reset()
    logs._tell_of_log.cache_clear()
    torch._logging.set_logs(inductor=logging.INFO)
    logger = logging.getLogger("torch._inductor")
    logger.addHandler(logged.handler)
    try:
        for size in (5, 6):
            torch.compile(torch.cos, backend="bascule", dynamic=False)(torch.randn(size))
    finally:
        logger.removeHandler(logged.handler)
    assert logged.text.count("TORCH_LOGS=bascule") == 1

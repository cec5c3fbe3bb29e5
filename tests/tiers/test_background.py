"""Failures, caches, split graphs, forks: what is compiled beside the program comes to the same as before it."""

import os
import subprocess
import sys
import textwrap
import time
import warnings
from threading import Event

import pytest
import torch
from bascule.frontend.conversion.registry import RULES, NoRule, load_rules

import bascule
from bascule.errors import CompilerError, FallbackWarning, UnsupportedError, UserError
from bascule.tiers import background

TIERS = {"tiers": True, "on_error": "raise"}


def told(name):
    return bascule.counters()["tiers"].get(name, 0)


@pytest.fixture
def broken(monkeypatch):
    """The compiler fails at its last stage."""

    def fail(*_, **__):
        raise RuntimeError("a bug")

    monkeypatch.setattr("bascule.compiler.compile_graph.to_python", fail)


def test_a_failure_is_told_of_at_the_next_call(broken, beside, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    compiled = torch.compile(lambda x: x.sin() + torch.rand_like(x), backend="bascule", mode="tiered")
    x, results = torch.randn(4), []
    for call in range(4):
        torch.manual_seed(0)
        if call == 1:
            beside.compile()
            with pytest.warns(FallbackWarning, match="a bug") as caught:
                results.append(compiled(x))
            assert len(caught) == 1
            assert "bascule-run" in str(caught[0].message)  # the command that replays it
        else:
            results.append(compiled(x))
    assert all(torch.equal(result, results[0]) for result in results)
    assert told("graphs that stay with operators") == 1 and told("calls by operators: inference") == 4
    assert bascule.counters()["graphs"]["fallback"] == 1


def test_a_failure_is_raised_at_the_next_call_if_it_is_to_be(broken, beside, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    w = torch.randn(4, requires_grad=True)
    compiled = torch.compile(torch.sin, backend="bascule", options=TIERS)
    compiled(w).sum().backward()
    beside.compile()
    for _ in range(2):
        with pytest.raises(CompilerError, match="a bug"):
            compiled(w)


def test_a_pair_of_which_one_fails_stays_with_operators(beside, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    w = torch.randn(4, 4, requires_grad=True)
    compiled = torch.compile(lambda w: torch.nn.functional.dropout(w @ w).exp(), backend="bascule", mode="tiered")
    grads = []
    for step in range(3):
        torch.manual_seed(0)
        grads.append(torch.autograd.grad(compiled(w).sum(), w)[0])
        if step == 0:
            beside.works.pop(0)()
            monkeypatch.setattr("bascule.compiler.compile_graph.to_python", None)
            beside.compile()
            warnings.simplefilter("ignore", FallbackWarning)
    assert torch.equal(grads[0], grads[1]) and torch.equal(grads[0], grads[2])
    assert told("calls by operators: forward") == told("calls by operators: backward") == 3


def test_what_passes_refuse_is_split_off_in_the_thread_too(beside, monkeypatch):
    def refuse(c, x):
        raise UnsupportedError(f"{c.operator}: is refused", operator=c.operator)

    load_rules()
    monkeypatch.setitem(RULES, "aten.sin.default", refuse)
    w = torch.randn(4, 4, requires_grad=True)
    compiled = torch.compile(lambda w: (w.exp().sin() @ w).tanh(), backend="bascule", options=TIERS)
    grads = []
    for _ in range(3):
        grads.append(torch.autograd.grad(compiled(w).sum(), w)[0])
        beside.compile()
    torch.testing.assert_close(grads[0], grads[2])
    assert told("graphs changed over") == 2 and told("graphs that stay with operators") == 0
    assert any("is refused" in cut for cut in bascule.counters()["cuts"])


@pytest.mark.parametrize("on_error", ("aten", "raise"))
def test_what_passes_refuse_is_an_error_where_it_is_to_be(beside, monkeypatch, on_error):
    def refuse(c, x):
        raise NoRule("is refused")

    load_rules()
    monkeypatch.setitem(RULES, "aten.sin.default", refuse)
    w = torch.randn(4, 4)
    options = {"tiers": True, "on_error": on_error, "fallback": "error"}
    compiled = torch.compile(lambda w: w.exp().sin(), backend="bascule", options=options)
    compiled(w)
    beside.compile()
    with pytest.raises(UnsupportedError, match="is refused"):
        compiled(w)


def test_inputs_are_written_at_the_first_call_of_the_kernels(beside, tmp_path):
    options = {**TIERS, "dump": str(tmp_path), "dump_inputs": "values"}
    compiled = torch.compile(torch.sin, backend="bascule", options=options)
    for number in range(2):
        compiled(torch.ones(3))
        assert len([*tmp_path.rglob("inputs.*")]) == number
        beside.compile()


def test_a_hit_needs_no_tier(folder, beside):
    w = torch.randn(4, 4, requires_grad=True)

    def function(w):
        return (w.sin() @ w).cos()

    for time_ in range(3):
        torch._dynamo.reset()
        compiled = torch.compile(function, backend="bascule", options=TIERS)
        for _ in range(2):
            found = torch.autograd.grad(compiled(w).sum(), w)
            torch.testing.assert_close(found, torch.autograd.grad(function(w).sum(), w))
            beside.compile()
        assert told("calls by operators: forward") == told("calls by operators: backward") == 1
        assert time_ == 0 or bascule.counters()["traces"]["hit"] == time_
    with torch.no_grad():  # the traces are gone, and the graphs are there
        options = {**TIERS, "trace_cache": False}
        torch.compile(lambda w: w.sin(), backend="bascule", options=options)(w)
        beside.compile()
        torch._dynamo.reset()
        torch.compile(lambda w: w.sin(), backend="bascule", options=options)(w)
    assert told("calls by operators: inference") == 1 and told("graphs with kernels at once") == 1


def test_both_ways_share_an_entry(folder, beside):
    x = torch.randn(5)
    torch.compile(lambda x: x.exp(), backend="bascule")(x)
    torch._dynamo.reset()
    torch.compile(lambda x: x.exp(), backend="bascule", options=TIERS)(x)
    assert not beside.works and bascule.counters()["cache"]["hit"] == 1


def test_a_split_graph_draws_in_each_of_its_parts_as_its_kernels_do(beside):
    def function(x, w):
        h = torch.nn.functional.dropout(x @ w, 0.5)
        h = torch.cond(h.sum() > 0, lambda h: h + torch.rand(1), lambda h: h - h.cos(), (h,))
        return torch.nn.functional.dropout(h.exp(), 0.5), torch.rand(2)

    x, w = torch.randn(6, 6), torch.randn(6, 6)
    compiled = torch.compile(function, backend="bascule", options=TIERS)
    results = []
    for call in range(3):
        torch.manual_seed(call // 3)
        with torch.no_grad():
            results.append((*compiled(x, w), torch.rand(1)))
        if call == 1:
            beside.compile()
    for result in results[1:]:
        torch.testing.assert_close(result, results[0], rtol=1e-4, atol=1e-5)
    assert told("calls by operators: inference") == 2 and bascule.counters()["graphs"]["compiled"] == 4


def test_frozen_weights(beside):
    layer, x = torch.nn.Linear(4, 4), torch.randn(2, 4)
    compiled = torch.compile(layer, backend="bascule", options={**TIERS, "freezing": True})
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(compiled(x), layer(x))
            beside.compile()
    assert told("calls by operators: inference") == 1


def test_explain_tells(monkeypatch):
    monkeypatch.setattr(background, "IDLE", 0.0)
    told = bascule.explain(torch.nn.Linear(4, 4), torch.randn(2, 4), mode="tiered")
    assert [graph.name.partition("_")[2] for graph in told.graphs] == ["forward", "backward"]
    assert all("compiled beside the program" in graph.tier and graph.wrapper for graph in told.graphs)
    assert "tiers: its kernels were compiled beside the program in" in str(told)


def test_what_does_not_go_with_it():
    with pytest.raises(UserError, match="on_error='inductor'"):
        torch.compile(torch.sin, backend="bascule", options={"tiers": True, "on_error": "inductor"})(torch.ones(2))
    graph = torch.fx.symbolic_trace(lambda x: (x.sin(),))
    with pytest.raises(UserError, match="the backward of a forward"):
        bascule.compile_fx_inner(graph, [torch.ones(2)], options={"tiers": True})


def test_a_model_that_trains_on_while_it_is_compiled():
    """Nothing is held back here: the thread works as it does."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        *(torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Dropout(0.2)) for _ in range(4))
    )
    tiered = torch.compile(model, backend="bascule", options=TIERS)
    plain = torch.compile(model, backend="bascule", options={"on_error": "raise"})
    x, end = torch.randn(8, 16), time.monotonic() + 60
    while told("graphs changed over") < 2 and time.monotonic() < end:
        grads = []
        for compiled in (tiered, plain):
            torch.manual_seed(1)
            grads.append(torch.autograd.grad(compiled(x).square().sum(), list(model.parameters())))
        torch.testing.assert_close(*grads, rtol=1e-4, atol=1e-5)
    assert told("graphs changed over") == 2
    assert told("calls by operators: forward") == told("calls by operators: backward") > 0


def test_a_fork_waits_for_one_checkpoint_and_not_for_all():
    ended, reached = [], Event()

    def work():
        for _ in range(200):
            time.sleep(0.02)
            reached.set()
            background.checkpoint()
            if ended:
                return

    background.enqueue(work)
    background.begin()
    reached.wait(60)
    start = time.monotonic()
    child = os.fork()
    if child == 0:
        os._exit(0)
    ended.append(spent := time.monotonic() - start)
    os.waitpid(child, 0)
    assert background.wait_for_kernels(60) and spent < 1


@pytest.mark.parametrize("begun", [False, True])
def test_work_is_done_after_a_signal_while_the_thread_is_begun(begun, monkeypatch):
    def interrupted(thread):
        if begun:
            real(thread)
        raise KeyboardInterrupt

    real, done = background.begin_thread, []
    background._thread = None  # the one that there is ends, and is not to come back
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(background, "begin_thread", interrupted)
        background.enqueue(lambda: done.append(0))
    background.enqueue(lambda: done.append(1))
    assert background.wait_for_kernels(60)
    assert done == [1]


def test_the_thread_outlives_what_is_raised_in_it(beside, monkeypatch):
    def leave(*_, **__):
        raise SystemExit("leave")

    monkeypatch.setattr("bascule.compiler.compile_graph.to_python", leave)
    compiled = torch.compile(torch.sin, backend="bascule", options=TIERS)
    compiled(torch.ones(2))
    beside.compile()
    with pytest.raises(SystemExit, match="leave"):
        compiled(torch.ones(2))


def run(text, **environment):
    """Runs `text` in a process of its own; returns how long that took, and what it printed."""
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return time.monotonic() - start, done.stdout.split()


def test_a_child_goes_on_with_operators_and_its_parent_with_kernels():
    """A child has no thread that compiles."""
    _, printed = run(
        """
        import os, torch, bascule
        functions = [torch.compile(lambda x, n=n: (x * n).sin().softmax(-1), backend="bascule", mode="tiered") for n in range(6)]
        x = torch.randn(4, 4)
        with torch.no_grad():
            for f in functions:
                f(x), f(x)
            for f, n in zip(functions, range(6)):
                child = os.fork()
                if child == 0:
                    torch.testing.assert_close(f(x), (x * n).sin().softmax(-1))
                    os._exit(0)
                assert os.waitpid(child, 0)[1] == 0
            assert bascule.wait_for_kernels(100)
            before = bascule.counters()["tiers"]["calls by operators: inference"]
            for f, n in zip(functions, range(6)):
                torch.testing.assert_close(f(x), (x * n).sin().softmax(-1))
            print(bascule.counters()["tiers"]["calls by operators: inference"] - before)
        """,
        BASCULE_CACHE_DIR="",
    )
    assert printed == ["0"]

"""Cached traces whose graphs are replayed as CUDA graphs. No GPU: the recorder is a stand-in."""

import warnings
from dataclasses import replace

import pytest
import torch
from bascule.runtime.cudagraphs.recording import Recording

import bascule
from bascule.cudagraphs.capture_plan import Refusal
from bascule.cudagraphs.cudagraphify import UNFOLLOWED, Replays
from bascule.cudagraphs.serialized import SerializedReplay
from bascule.errors import ReplayWarning
from bascule.options import make_options
from bascule.reporting.compile_record import Record
from bascule.reporting.pool import Pool
from tests.cache.cached_calls import run
from tests.cudagraphs.stand_in_trees import Model


def counted():
    return bascule.counters()["traces"]


def train(model, steps=4):
    """Steps of `model`, compiled as in a new process, compute what eager does."""
    torch._dynamo.reset()
    call, found, wanted = torch.compile(model, backend="bascule", mode="reduce-overhead"), [], []
    for _ in range(steps):
        x, y = torch.randn(8, 6), torch.randn(8, 6)
        for function, results in ((call, found), (model, wanted)):
            model.zero_grad()
            model.norm.reset_running_stats()
            out = function(x, y)
            out.square().sum().backward()
            results += [out, model.linear.weight.grad.clone(), model.norm.running_mean.clone()]
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


def told_again(function, *args, **options):
    """The texts of the warnings that a first call gives about CUDA graphs."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        run(function, *args, cudagraphs=True, **options)
    return [str(w.message) for w in found if issubclass(w.category, ReplayWarning)]


def test_a_training_step_that_is_loaded_is_replayed_as_it_was(folder, on_cpu, monkeypatch):
    model = Model()
    train(model)
    first = on_cpu.made[:]
    assert counted() == {"miss": 1, "stored": 1}
    monkeypatch.setattr("bascule.compiler.autograd_graph.compile_autograd_graph", None)
    train(model)
    assert counted() == {"miss": 1, "stored": 1, "hit": 1}
    assert bascule.counters()["cudagraphs"] == {"graphs": 4, "recordings": 4}
    second = on_cpu.made[2:]
    names = [what.name.split("_")[1] for what in (*first, *second)]
    assert names == ["forward", "backward"] * 2
    for before, now in zip(first, second, strict=True):
        assert replace(before, name="") == replace(now, name="")
    assert first[0].static and first[0].written and first[1].static
    assert any(x.place for x in first[0].inputs) and any(first[0].outputs)


def sine(x, w):
    return torch.sin(x) @ w


# The same line further down.


def sine_elsewhere(x, w):
    return torch.sin(x) @ w


def test_lines_are_those_of_who_loads_it(folder, on_cpu):
    x, w = torch.randn(3, 4), torch.randn(4, 4)
    for function in (sine, sine_elsewhere):
        torch.testing.assert_close(run(function, x, w, cudagraphs=True), function(x, w))
    assert counted() == {"miss": 1, "stored": 1, "hit": 1}
    for what, function in zip(on_cpu.made, (sine, sine_elsewhere), strict=True):
        line = function.__code__.co_firstlineno + 1
        assert {x.place.rpartition(":")[2] for x in what.inputs} == {str(line)}
        assert all(f"line {line}, in" in text for text in what.outputs)


def test_what_is_told_is_the_same(folder, on_cpu):
    x, y = torch.randn(8, 6), torch.randn(8, 6)
    told = [bascule.explain(Model(), x, y, options={"cudagraphs": True}).graphs for _ in range(2)]
    assert counted()["hit"] == 1
    assert [g.replay for g in told[0]] == [g.replay for g in told[1]]
    assert all("its pool has" in g.replay for g in told[1])


def written(state, x):
    state.add_(x)
    return state * 2


def written_elsewhere(state, x):
    state.add_(x)
    return state * 2


def test_why_a_graph_is_not_replayed_is_told_of_a_loaded_one_too(folder, on_cpu):
    for number, function in enumerate((written, written_elsewhere)):
        (text,) = told_again(function, torch.ones(4), torch.ones(4))
        assert "'state'" in text and f"test_serialized.py:{function.__code__.co_firstlineno + 1}" in text
        assert counted().get("hit", 0) == number and not on_cpu.made


def test_a_backward_does_not_follow_a_loaded_forward_that_is_not_replayed(folder, on_cpu):
    def f(state, x):
        state.add_(1)
        return torch.sin(x) * state

    for _ in range(2):
        x = torch.randn(4, requires_grad=True)
        torch._dynamo.reset()
        with pytest.warns(ReplayWarning) as found:
            torch.compile(f, backend="bascule", mode="reduce-overhead")(torch.ones(4), x).sum().backward()
        assert len([w for w in found if issubclass(w.category, ReplayWarning)]) == 1
        torch.testing.assert_close(x.grad, 2 * torch.cos(x))
    assert counted()["hit"] == 1 and not on_cpu.made and not on_cpu.told
    assert bascule.counters()["cudagraphs"]["not replayed: its forward is not replayed"] == 2


def test_a_process_that_cannot_record_keeps_nothing_and_loads_all_the_same(folder, on_cpu):
    model = Model()
    on_cpu.unavailable = lambda: "no CUDA graphs here"
    with pytest.warns(ReplayWarning, match="no CUDA graphs here"):
        train(model)
    assert counted() == {"miss": 1, "bypass: this process cannot record CUDA graphs": 2}
    on_cpu.unavailable = lambda: None
    train(model)
    assert counted()["stored"] == 1 and len(on_cpu.made) == 2
    on_cpu.unavailable = lambda: "no CUDA graphs here"
    with pytest.warns(ReplayWarning, match="no CUDA graphs here"):
        train(model)
    assert counted()["hit"] == 1 and len(on_cpu.made) == 2


def test_dynamic_sizes_and_limits_of_this_process(folder, on_cpu):
    """How many sizes are recorded is no part of the key: nothing that is compiled depends on it."""
    for limit in (5, 2):
        torch._dynamo.reset()
        options = {"on_error": "raise", "cudagraphs": True, "cudagraph_shapes": limit}
        call = torch.compile(
            lambda x: torch.softmax(x, -1) * x.shape[0], backend="bascule", dynamic=True, options=options
        )
        before = len(on_cpu.made)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReplayWarning)
            for rows in (3, 4, 5, 3, 4, 5):
                x = torch.randn(rows, 7)
                torch.testing.assert_close(call(x), torch.softmax(x, -1) * rows)
        assert len(on_cpu.made) - before == min(limit, 3)
    assert counted() == {"miss": 1, "stored": 1, "hit": 1}


def test_with_and_without_the_option_are_two_traces(folder, on_cpu):
    x, w = torch.randn(3, 4), torch.randn(4, 4)
    for _ in range(2):
        for option in (True, False):
            torch.testing.assert_close(run(sine, x, w, cudagraphs=option), sine(x, w))
    assert counted() == {"miss": 2, "stored": 2, "hit": 2} and len(on_cpu.made) == 2


def parts(x, w):
    return torch.linalg.svdvals(torch.sin(x)) * 2 + w


def test_a_graph_in_parts_is_replayed_as_it_was(folder, on_cpu, monkeypatch):
    """Around an operator for which the host waits."""
    for _ in range(2):
        x, w = torch.randn(5, 5), torch.randn(5)
        torch.testing.assert_close(run(parts, x, w, cudagraphs=True), parts(x, w))
        monkeypatch.setattr("bascule.compiler.autograd_graph.compile_autograd_graph", None)
    assert counted() == {"miss": 1, "stored": 1, "hit": 1} and len(on_cpu.made) == 4
    assert bascule.counters()["cudagraphs"] == {"graphs": 4}
    for before, now in zip(on_cpu.made[:2], on_cpu.made[2:], strict=True):
        assert replace(before, name="") == replace(now, name="")
    assert [what.name.rpartition("_")[2] for what in on_cpu.made] == ["part0", "part1"] * 2


def trained_parts(x, w):
    return torch.linalg.inv(torch.sin(x) + 9 * torch.eye(5)) @ w


def test_a_training_step_in_parts_is_replayed_as_it_was(folder, on_cpu):
    for _ in range(2):
        torch._dynamo.reset()
        call = torch.compile(trained_parts, backend="bascule", options={"on_error": "raise", "cudagraphs": True})
        for _ in range(3):
            x, w = (torch.randn(5, 5, requires_grad=True) for _ in range(2))
            got, wanted = (torch.autograd.grad(f(x, w).square().sum(), (x, w)) for f in (call, trained_parts))
            torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)
    assert counted() == {"miss": 1, "stored": 1, "hit": 1}
    half = len(on_cpu.made) // 2
    assert half > 1 and {what.direction for what in on_cpu.made} == {"forward", "backward"}
    for before, now in zip(on_cpu.made[:half], on_cpu.made[half:], strict=True):
        assert replace(before, name="") == replace(now, name="")


# One graph


RECORDING = Recording("g", 1, "forward", (), (), static=(0, 2), written=(2,), host=(3,), sized=(1,), integers=(4,))


def record():
    return Record("g", make_options("reduce-overhead"), nodes=1)


@pytest.mark.parametrize(
    "kept", [SerializedReplay(RECORDING, Pool("8 * s0", 1, 2)), SerializedReplay(Refusal("it writes", None, "do not"))]
)
def test_written_down_and_read(kept):
    assert SerializedReplay.of(kept.told(lambda line: None), "g", "forward", [], ()) == kept


def test_a_loaded_backward_that_is_not_replayed_tells_the_tree(on_cpu):
    for followed in (True, False):
        replays = replace(Replays(make_options("reduce-overhead")), recorder=on_cpu)
        if followed:
            replays.restored(lambda args: args, SerializedReplay(RECORDING, Pool("0", 0, 0)), "forward", record())
        assert replays.followed(lambda args: args, "backward", replayed=False)([1]) == [1]
        assert on_cpu.told == [1]
        assert replays.followed(list, "backward", replayed=True) is list
        assert replays.followed(list, "forward", replayed=False) is list
    assert replays.anew().forward is not replays.forward


def test_a_loaded_backward_needs_its_forward_replayed(on_cpu):
    """Tensors that the forward saved lie at other addresses each time else."""
    backward = SerializedReplay(replace(RECORDING, direction="backward"), Pool("0", 0, 0))
    replays, told = replace(Replays(make_options("reduce-overhead")), recorder=on_cpu), record()
    assert replays.restored(list, backward, "backward", told) is list
    assert told.replay == f"not replayed: {UNFOLLOWED}"

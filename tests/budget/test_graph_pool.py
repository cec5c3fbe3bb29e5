"""The pool of CUDA graphs that a step within a memory budget has."""

from dataclasses import replace

import pytest
import torch
from bascule.dialect.analysis.memory.live_bytes import ARENA_OF, GIVEN, INTERMEDIATE, RESULT, Held, LiveBytes
from torch.nn import functional

import bascule
from bascule.budget import step_peak
from bascule.budget.graph_pool import (
    HOPPER_WORKSPACE,
    WORKSPACE,
    Played,
    pool_bytes,
    saved_places,
    smallest_pool,
    workspace_of,
)
from tests.cudagraphs.stand_in_trees import as_if_on_a_gpu

MIB = 1 << 20
SAVED = Held(20 * MIB, 1, 4, RESULT, numbers=(0,))
FORWARD = LiveBytes((Held(12 * MIB, 0, 4, ARENA_OF), SAVED, Held(30 * MIB, 2, 3, INTERMEDIATE)), 4)
BACKWARD = LiveBytes((Held(20 * MIB, 0, 1, GIVEN, numbers=(0,)), Held(18 * MIB, 2, 4, RESULT, numbers=(0,))), 4)


def played(forward=FORWARD, backward=BACKWARD, results=(0,), **how):
    return pool_bytes(Played(forward, **how), Played(backward), saved_places(forward, backward, results))


def test_what_is_saved_is_freed_in_the_backward():
    assert saved_places(FORWARD, BACKWARD, [0]) == {0: 1}
    assert played() == 62 * MIB  # the gradient lies where something was


def test_what_is_not_the_forwards_is_not_in_the_pool():
    assert saved_places(FORWARD, BACKWARD, [None]) == {}
    assert played(results=(None,)) == 62 * MIB


def test_copies_of_inputs_and_the_workspace_count():
    assert played(copied=[40 * MIB]) == 102 * MIB
    assert played(workspace=32 * MIB, product=2) == 94 * MIB
    assert workspace_of({"capability": 90}) == HOPPER_WORKSPACE and workspace_of({"capability": 80}) == WORKSPACE


def test_a_warm_up_reads_inputs_where_they_are():
    """A copy that a recording makes is in a hole that its results had to lie in: they take more of the device."""
    assert played(copied=[13 * MIB]) == (62 + 30) * MIB


def test_what_is_reserved_at_once_leaves_no_holes():
    made = [Held(11 * MIB, n, n + 1, INTERMEDIATE) for n in range(4)]
    forward = LiveBytes((*made, Held(22 * MIB, 5, 6, RESULT, numbers=(0,))), 6)
    assert played(forward) == 12 * 2 * MIB + 22 * MIB
    assert played(forward, reserved=22 * MIB) == 22 * MIB


def test_the_smaller_of_two_pools():
    """All of the step in one segment, or only what the forward takes for sure."""
    steps = Played(FORWARD, reserved=32 * MIB), Played(BACKWARD), saved_places(FORWARD, BACKWARD, [0])
    pool, reserved = smallest_pool(*steps)
    assert reserved in (32 * MIB, FORWARD.peak()[0])
    assert pool == pool_bytes(replace(steps[0], reserved=reserved), *steps[1:]) <= pool_bytes(*steps)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(128, 512) for _ in range(4))
        self.back = torch.nn.ModuleList(torch.nn.Linear(512, 128) for _ in range(4))

    def forward(self, x):
        for layer, back in zip(self.layers, self.back):
            x = x + back(functional.gelu(layer(x)))
        return x.square().mean()


@pytest.fixture
def found(monkeypatch):
    """The steps that were planned."""
    as_if_on_a_gpu(monkeypatch)
    made, pool = [], step_peak._pool

    def told(step, *rest):
        found = pool(step, *rest)
        made.append((step, found[0]))
        return found

    monkeypatch.setattr(step_peak, "_pool", told)
    return made


def test_the_pool_is_the_peak(found):
    model, x = Model(), torch.randn(8192, 128)
    (told,) = bascule.memory(model, x, options={"cudagraphs": True}).steps
    step, pool = found[0]
    assert told.peak == max(*step.peaks, step.standing + pool) == sum(told.categories.values())
    # Of all that is live at the peak parameters alone, and what the user gives, is not in it.
    assert (
        max(step.peaks) - step.standing + x.nbytes
        <= pool
        <= 1.5 * (max(step.peaks) - step.standing + x.nbytes) + WORKSPACE
    )
    assert told.least < told.peak


def test_an_input_that_the_backward_reads_is_in_the_pool(found, monkeypatch):
    given = []
    smallest = step_peak.smallest_pool
    monkeypatch.setattr(step_peak, "smallest_pool", lambda *steps: given.append(steps) or smallest(*steps))
    model, x = Model(), torch.randn(8192, 128)
    bascule.memory(model, x, options={"cudagraphs": True})
    for forward, backward, _ in given:
        assert [size for size in forward.copied if size > MIB] == [x.nbytes]
        assert [size for size in backward.copied if size > MIB] == [x.nbytes]


def test_the_budget_is_that_of_the_pool(found):
    model, x = Model(), torch.randn(8192, 128)
    graphs = bascule.explain(model, x, options={"cudagraphs": True, "memory_budget": 0.8}).graphs
    (told,) = [str(each) for graph in graphs for each in graph.remarks if each.pass_name == "memory-budget"]
    assert "with a pool of CUDA graphs of" in told
    (_, first), *others = found
    assert min(pool for _, pool in others) < 0.8 * first


def test_the_forwards_warm_up_reserves_it(monkeypatch):
    trees = as_if_on_a_gpu(monkeypatch)
    made = []

    def found(*args):
        made.append((10**9, 500 * MIB + len(made)))
        return made[-1]

    monkeypatch.setattr(step_peak, "smallest_pool", found)
    model, x = Model(), torch.randn(8192, 128)
    call = torch.compile(
        model,
        backend="bascule",
        options={"on_error": "raise", "cache": False, "cudagraphs": True, "memory_budget": 1.0},
    )
    for _ in range(3):
        call(x).backward()
    assert trees.reserved[0] in [reserved for _, reserved in made]


def test_a_graph_around_an_unsafe_operator_has_no_plan(found):
    def step(x, w):
        return (torch.histc((x @ w).detach(), 4) * torch.sin(x @ w)[:4, :4]).sum()

    w = torch.nn.Parameter(torch.randn(64, 64))
    report = bascule.memory(step, torch.randn(64, 64), w, options={"cudagraphs": True})
    assert not report.steps and "compiled in parts" in report.untold[0]

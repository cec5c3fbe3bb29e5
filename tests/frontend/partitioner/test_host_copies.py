"""Saved tensors are kept on the host where the user allows it and the budget asks for it: with all bits, and less memory than without."""

import re

import pytest
import torch
from bascule.frontend.partitioner import memory_budget
from bascule.frontend.partitioner.host_copies import Link, movable
from bascule.runtime.modules import host_copies

import bascule
from bascule.budget import partition
from bascule.errors import UserError
from bascule.options import make_options

from .test_memory_budget import BESIDE, ROWS, WIDTH, Model, Run

ALLOWED = {"memory_budget_host": True}


@pytest.fixture
def quick_link(monkeypatch):
    """A link on which copies of small tensors are worth it."""
    monkeypatch.setattr(partition, "host_link", lambda: Link(1.0, 0.0, (50.0, 50.0)))


@pytest.fixture(scope="module")
def without():
    return Run()


def moved(run):
    """The bytes that a step keeps on the host, and the calls that begin a copy, by what `explain` tells."""
    told = bascule.explain(Model(), torch.randn(ROWS, WIDTH), options=run)
    return [graph.copies for graph in told.graphs]


@pytest.mark.parametrize("part", [0.7, 0.5])
def test_the_budget_is_kept_with_the_same_bits(part, without, quick_link):
    run = Run(part, **ALLOWED)
    assert run.peak <= part * without.peak + BESIDE
    assert all(map(torch.equal, run.results, without.results))
    copies = moved({"memory_budget": part, **ALLOWED})
    assert len(copies) == 2 and copies[0].bytes == copies[1].bytes > 0


def test_the_peak_is_as_predicted(without, quick_link, monkeypatch):
    outcomes, within = [], partition.Search.within
    monkeypatch.setattr(partition.Search, "within", lambda *args: outcomes.append(within(*args)) or outcomes[-1])
    run = Run(0.5, **ALLOWED)
    assert outcomes[-1].choice.moved
    assert abs(run.peak - outcomes[-1].peak.bytes) <= 0.05 * run.peak


def test_the_interpreter_of_triton_has_the_same_results(quick_link):
    """But for roundings: sums of columns that are computed beside others are in other pieces."""
    usual, run = (Run(*budget, target="interpret", **how) for budget, how in (((), {}), ((0.5,), ALLOWED)))
    for one, other in zip(run.results, usual.results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-8)
    assert run.peak < usual.peak


def test_the_least_is_less_where_it_is_allowed(quick_link):
    x = torch.randn(ROWS, WIDTH)
    usual, allowed = (bascule.memory(Model(), x, options=how).steps[0] for how in ({}, ALLOWED))
    assert allowed.least < usual.least
    assert not usual.host and not any(point.host for point in usual.curve)
    assert sum(holder.bytes for holder in allowed.host) == allowed.curve[0].host > 0
    assert all(holder.category == "host" for holder in allowed.host)
    assert any("test_memory_budget.py" in (holder.line or "") for holder in allowed.host)
    for point in allowed.curve:
        assert 0 <= point.exposed <= point.copies
    assert re.search(r"on the host within it: [\d.]+ MiB", str(allowed)) and "of them exposed" in str(allowed)


def test_it_is_told(quick_link):
    options = {"memory_budget": 0.5, "fallback": "error", **ALLOWED}
    told = bascule.explain(Model(), torch.randn(ROWS, WIDTH), options=options)
    remarks = [str(remark) for graph in told.graphs for remark in graph.remarks]
    assert sum("on the host" in remark for remark in remarks) == 1
    assert str(told).count("bytes on the host between forward and backward") == 2


def test_nothing_is_moved_that_is_not_allowed(without, quick_link, monkeypatch):
    monkeypatch.setattr(memory_budget, "keep_on_host", lambda *args: pytest.fail("it is not allowed"))
    run = Run(0.6)
    assert run.peak <= 0.6 * without.peak + BESIDE


def test_nothing_is_moved_over_a_slow_link(monkeypatch):
    monkeypatch.setattr(partition, "host_link", lambda: Link(1e6, 1e9, (50.0, 50.0)))
    monkeypatch.setattr(memory_budget, "keep_on_host", lambda *args: pytest.fail("it takes longer"))
    Run(0.7, **ALLOWED)


def test_what_may_be_moved(quick_link, monkeypatch):
    seen = []

    def told(step):
        found = movable(step)
        returned = {step.root(node) for node in (*step.forward_outputs, *step.backward_outputs)}
        assert not found & (returned | step.given | {*step.backward})
        seen.extend(step.size(node) for node in found)
        return found

    monkeypatch.setattr(memory_budget, "movable", told)
    Run(0.7, **ALLOWED)
    assert seen and min(seen) >= 1 << 16


def test_a_backward_may_run_twice(quick_link):
    torch._dynamo.reset()
    model, x = Model().eval(), torch.randn(ROWS, WIDTH)
    options = {"on_error": "raise", "cache": False, "memory_budget": 0.5, **ALLOWED}
    loss = torch.compile(model, backend="bascule", options=options)(x)
    first, second = (torch.autograd.grad(loss, [*model.parameters()], retain_graph=True) for _ in range(2))
    assert all(map(torch.equal, first, second))


def check_gradients(model, x):
    """The gradients that a backward left are eager's."""
    found = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    model(x).backward()
    for got, p in zip(found, model.parameters(), strict=True):
        torch.testing.assert_close(got, p.grad, rtol=1e-4, atol=1e-6)


def test_compiled_autograd_takes_the_copies_too(quick_link):
    torch._dynamo.reset()
    model, x = Model().eval(), torch.randn(ROWS, WIDTH)
    how = {"on_error": "raise", "cache": False}
    call = torch.compile(model, backend="bascule", options={**how, "memory_budget": 0.6, **ALLOWED})
    with torch._dynamo.compiled_autograd._enable(torch.compile(backend="bascule", options=how)):
        call(x).backward()
    check_gradients(model, x)


@pytest.mark.filterwarnings("error:.*may not alias")
def test_no_warning_of_an_alias(quick_link):
    Run(0.5, **ALLOWED)


def test_a_changing_size(quick_link):
    torch._dynamo.reset()
    model = Model().eval()
    options = {"on_error": "raise", "cache": False, "memory_budget": 0.5, **ALLOWED}
    call = torch.compile(model, backend="bascule", dynamic=True, options=options)
    for rows in (ROWS, ROWS // 2 + 3):
        x = torch.randn(rows, WIDTH)
        model.zero_grad()
        call(x).backward()
        check_gradients(model, x)


def test_a_host_without_memory(quick_link, monkeypatch):
    def full(*args):
        raise OSError("Cannot allocate memory")

    torch._dynamo.reset()
    monkeypatch.setattr(host_copies.mmap, "mmap", full)
    options = {"on_error": "raise", "cache": False, "memory_budget": 0.5, **ALLOWED}
    call = torch.compile(Model(), backend="bascule", options=options)
    with pytest.raises(
        MemoryError, match=r"the host has no \d+ bytes of memory for what [\s\S]* option 'memory_budget_host'"
    ):
        call(torch.randn(ROWS, WIDTH))


def test_what_does_not_go_with_it():
    with pytest.raises(UserError, match="option 'memory_budget_host': does nothing without 'memory_budget'"):
        make_options(options=ALLOWED)
    with pytest.raises(UserError, match="option 'memory_budget_host': does not go with 'cudagraphs'"):
        make_options(options={"memory_budget": 0.5, "cudagraphs": True, **ALLOWED})
    with pytest.raises(UserError, match="option 'memory_budget_host': takes"):
        make_options(options={"memory_budget": 0.5, "memory_budget_host": "yes"})

"""Ranks that change over at different steps issue the same collectives in the same order: graphs with several are compiled before they run."""

from contextlib import nullcontext
from unittest.mock import patch

import pytest
import torch
import torch.distributed._functional_collectives as fc

import bascule
from bascule.compiler import autograd_graph
from bascule.reporting.counters import reset_counters
from bascule.tiers import background
from tests.generators.ranks import end_ranks, on_ranks

TIERS = {"tiers": True, "on_error": "raise"}


@pytest.fixture(scope="module", autouse=True)
def ranks():
    yield
    end_ranks()


def summed(rank, group, count, differentiated):
    """Of five calls, between which the first rank gets its kernels, the other none: results and the counters."""
    torch._dynamo.reset()
    reset_counters()

    def function(x):
        sums = [fc.all_gather_tensor_autograd(x * n, 0, group).sum(0) for n in range(1, count + 1)]
        return torch.stack(sums).sum(0) + x

    compiled = torch.compile(function, backend="bascule", options=TIERS)
    results = []
    with patch.multiple(background, enqueue=lambda work: None, begin=lambda: None) if rank else nullcontext():
        for call in range(5):
            x = torch.full([3, 4], float(rank + call), requires_grad=differentiated)
            y = compiled(x)
            if differentiated:
                y.sum().backward()
            results.append((y[0, 0].item(), x.grad[0, 0].item() if differentiated else None))
            if rank == 0 and call == 1:
                assert background.wait_for_kernels(60)
    return results, bascule.counters()["tiers"]


def changed(told):
    return told.get("graphs changed over", 0)


@pytest.mark.parametrize("differentiated", [False, True])
def test_one_collective_is_the_same_in_both_tiers(differentiated):
    (first, early), (second, late) = on_ranks(2, summed, 1, differentiated)
    for call in range(5):
        total = 3 * (2 * call + 1)
        assert (first[call][0], second[call][0]) == (total + call, total + call + 1)
        assert not differentiated or first[call][1] == second[call][1] == 3 * 2 + 1
    assert changed(early) == 1 + differentiated
    assert changed(late) == 0
    assert late["calls by operators: forward" if differentiated else "calls by operators: inference"] == 5


@pytest.mark.parametrize("differentiated", [False, True])
def test_graphs_with_several_are_compiled_first(differentiated):
    (first, early), (second, late) = on_ranks(2, summed, 2, differentiated)
    for call in range(5):
        total = 9 * (2 * call + 1)
        assert (first[call][0], second[call][0]) == (total + call, total + call + 1)
    for told in (early, late):
        assert not any(name.startswith("calls by operators") for name in told)
        assert told["graphs with kernels at once"] == 1 + differentiated


@pytest.mark.parametrize("first", ["forward", "backward"])
def test_a_pair_of_which_one_is_compiled_first(beside, monkeypatch, first):
    """A backward has its kernels, and its forward runs by operators until it has its own; or the other way round."""
    other, reasons = {"forward": "backward", "backward": "forward"}[first], []
    numbers = iter((2, 0) if first == "forward" else (0, 2))
    monkeypatch.setattr(autograd_graph, "number_of_collectives", lambda gm: next(numbers))
    monkeypatch.setattr(
        "bascule.entry.backend.told_of_passes",
        lambda *_: lambda record: reasons.append((record.direction, record.tier)),
    )
    w = torch.randn(6, 6, requires_grad=True)
    compiled = torch.compile(
        lambda w: torch.nn.functional.dropout(w.sin() @ w, 0.5).exp(), backend="bascule", options=TIERS
    )
    grads = []
    for step in range(4):
        torch.manual_seed(1)
        grads.append(torch.autograd.grad(compiled(w).sum(), w)[0])
        if step == 1:
            beside.compile()
    for grad in grads[1:]:
        torch.testing.assert_close(grad, grads[0])
    told = bascule.counters()["tiers"]
    assert told[f"calls by operators: {other}"] == 2 and f"calls by operators: {first}" not in told
    assert changed(told) == 2
    assert any(direction == first and "it begins 2 collectives" in tier for direction, tier in reasons)

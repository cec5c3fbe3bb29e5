"""Saved activations are kept in bf16 where the user allows it and the budget asks for it: the loss has its bits, gradients are near f64's."""

import pytest
import torch
from bascule.frontend.partitioner import memory_budget

import bascule
from bascule.errors import UserError
from bascule.options import make_options

from .test_memory_budget import BESIDE, ROWS, WIDTH, Model, Run

ALLOWED = {"memory_budget_precision": "bf16"}
NEAR = 2**-7  # of a gradient's largest element: sums over rows of numbers that are off by 2**-9 each


class Reference(Model):
    """`Model` without dropouts, which f64 would draw otherwise."""

    def __init__(self):
        super().__init__()
        for layer in self:
            layer.drop = torch.nn.Identity()


def trained(dtype=torch.float32, **options):
    """The loss and the gradients."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    model, x = Reference().to(dtype), torch.randn(ROWS, WIDTH).to(dtype)
    call = torch.compile(model, backend="bascule", options={"on_error": "raise", "cache": False, **options})
    loss = (call if options else model)(x)
    loss.backward()
    return [loss.detach(), *(p.grad for p in model.parameters())]


@pytest.fixture(scope="module")
def without():
    return Run()


def test_gradients_are_near_those_of_f64():
    exact, within = trained(torch.float64), trained(memory_budget=0.55, **ALLOWED)
    for x, y in zip(within, exact, strict=True):
        torch.testing.assert_close(x.double(), y, rtol=0, atol=NEAR * y.abs().max().item())
    usual = trained(memory_budget=0.55)
    assert torch.equal(within[0], usual[0])
    assert not all(map(torch.equal, within, usual))  # or nothing was lowered


@pytest.mark.parametrize("part", [0.7, 0.5])
def test_the_budget_is_kept(part, without):
    run = Run(part, **ALLOWED)
    assert run.peak <= part * without.peak + BESIDE
    for x, y in zip(run.results, without.results, strict=True):
        torch.testing.assert_close(x, y, rtol=0, atol=NEAR * y.abs().max().item())


def test_nothing_is_lowered_that_the_budget_does_not_ask_for(without):
    run = Run(1.0, **ALLOWED)
    assert all(map(torch.equal, run.results, without.results))


def test_only_activations_may_be(monkeypatch):
    seen = []

    def lowerable(step):
        found = given(step)
        seen.extend(node.meta["val"] for node in found)
        assert not found & {step.root(node) for node in (*step.forward_outputs, *step.backward_outputs)}
        return found

    given = memory_budget.lowerable
    monkeypatch.setattr(memory_budget, "lowerable", lowerable)
    Run(0.6, **ALLOWED)
    assert seen and all(value.dtype == torch.float32 and value.numel() >= ROWS * WIDTH for value in seen)


def test_it_is_told():
    told = [
        str(remark)
        for graph in bascule.explain(
            Model(), torch.randn(ROWS, WIDTH), options={"memory_budget": 0.55, **ALLOWED}
        ).graphs
        for remark in graph.remarks
    ]
    assert sum("kept in bf16" in remark for remark in told) == 1
    (step,) = bascule.memory(Model(), torch.randn(ROWS, WIDTH), options=ALLOWED).steps
    assert step.curve[-1].lowered == 0 and any(point.lowered for point in step.curve)
    assert "saved values in fewer bits" in str(step)


def test_what_is_not_allowed():
    with pytest.raises(UserError, match="option 'memory_budget_precision': does nothing without 'memory_budget'"):
        make_options(options=ALLOWED)
    with pytest.raises(UserError, match="option 'memory_budget_precision': has no value 'fp8'"):
        make_options(options={"memory_budget": 0.5, "memory_budget_precision": "fp8"})

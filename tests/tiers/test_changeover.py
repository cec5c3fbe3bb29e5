"""A step changes over between two pairs of forward and backward, wherever the kernels become ready, and nobody sees it in the results."""

import copy

import pytest
import torch

import bascule

TIERS = {"tiers": True, "on_error": "raise"}
BY_OPERATORS = "calls by operators: "


class Model(torch.nn.Module):
    """Draws, writes to buffers, returns a view of its input, and a view of what it computes."""

    def __init__(self):
        super().__init__()
        self.norm, self.first, self.last = torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls.add_(1)
        h = torch.nn.functional.dropout(torch.nn.functional.gelu(self.first(self.norm(x))), 0.25)
        y = self.last(h) + torch.rand_like(x)
        return y, y.t(), x[1:], h.exp()


def train(model, compiled, steps=4):
    """Steps of training: losses and what the model holds, to the last draw."""
    torch.manual_seed(1)
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.05), []
    for _ in range(steps):
        x = torch.randn(6, 8)
        y, turned, rest, h = compiled(x)
        assert turned.data_ptr() == y.data_ptr() and rest.data_ptr() == x[1:].data_ptr()
        loss = (y * turned.t()).sum() + h.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses, model.state_dict(), torch.rand(2)


def tier_calls():
    told = bascule.counters()["tiers"]
    return [told.get(BY_OPERATORS + direction, 0) for direction in ("forward", "backward")]


@pytest.mark.parametrize("at", range(0, 10))
def test_training_is_the_same_wherever_it_changes_over(beside, at):
    torch.manual_seed(0)
    model = Model()
    same = copy.deepcopy(model)
    expected = train(same, torch.compile(same, backend="bascule", options={"on_error": "raise"}))
    torch._dynamo.reset()
    beside.at = at
    found = train(model, torch.compile(model, backend="bascule", options=TIERS))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    forward, backward = tier_calls()
    assert forward == backward, "a pair ran in two tiers"
    assert forward == -(-at // 3), beside.points[: at + 1]
    assert at == 0 or beside.points[:3] == ["forward", "forward ran", "backward"]


def test_a_backward_follows_its_forward_in_any_order(beside):
    torch.manual_seed(0)
    weight = torch.randn(8, 8, requires_grad=True)
    xs = [torch.randn(4, 8) for _ in range(3)]

    def function(x, weight):
        return ((x @ weight).sin() @ weight).exp()

    compiled = torch.compile(function, backend="bascule", options=TIERS)
    outputs = [compiled(xs[0], weight), compiled(xs[1], weight)]
    beside.compile()
    outputs.append(compiled(xs[2], weight))
    for number in (2, 0, 1):
        (found,) = torch.autograd.grad(outputs[number].sum(), weight, retain_graph=True)
        (expected,) = torch.autograd.grad(function(xs[number], weight).sum(), weight)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    assert tier_calls() == [2, 2]
    torch.autograd.grad(outputs[0].sum(), weight)  # a graph that was kept
    assert tier_calls() == [2, 3]


def test_kernels_of_the_forward_alone_change_nothing(beside):
    weight = torch.randn(8, 8, requires_grad=True)
    compiled = torch.compile(lambda w: (w.sin() @ w).cos(), backend="bascule", options=TIERS)
    compiled(weight).sum().backward()
    beside.works.pop(0)()
    compiled(weight).sum().backward()
    assert tier_calls() == [2, 2]
    beside.compile()
    compiled(weight).sum().backward()
    assert tier_calls() == [2, 2]


def test_an_inference_changes_over_at_any_call(beside):
    buffer = torch.zeros(5)

    def function(x):
        buffer.add_(x)
        return buffer * 2, x.view(5, 1)

    compiled = torch.compile(function, backend="bascule", options=TIERS)
    with torch.no_grad():
        for call in range(1, 4):
            x = torch.ones(5)
            doubled, turned = compiled(x)
            torch.testing.assert_close(doubled, torch.full((5,), 2.0 * call))
            assert turned._base is x or turned.data_ptr() == x.data_ptr()
            if call == 2:
                beside.compile()
    told = bascule.counters()["tiers"]
    assert told[BY_OPERATORS + "inference"] == 2 and told["graphs changed over"] == 1


def test_each_recompile_has_tiers_of_its_own(beside):
    model = torch.nn.Linear(8, 8)
    compiled = torch.compile(model, backend="bascule", options=TIERS, dynamic=None)
    for rows in (3, 3, 5, 7, 7):
        x = torch.randn(rows, 8)
        found = torch.autograd.grad(compiled(x).sin().sum(), list(model.parameters()))
        torch.testing.assert_close(found, torch.autograd.grad(model(x).sin().sum(), list(model.parameters())))
        if rows == 3:
            beside.compile()
    assert tier_calls() == [4, 4]  # the first of 3 rows, those of 5 and 7, whose number is a symbol
    beside.compile()
    compiled(torch.randn(9, 8)).sum().backward()
    assert tier_calls() == [4, 4]


@pytest.mark.parametrize("when", ("before", "between", "after"))
def test_hooks_on_saved_tensors(beside, when):
    """They hand the backward tensors of their own, which either backward can read."""

    def function(x, w):
        return (torch.nn.functional.dropout(x @ w, 0.5).t().exp() @ w).sin()

    x, w = torch.randn(8, 8), torch.randn(8, 8, requires_grad=True)
    compiled = torch.compile(function, backend="bascule", options=TIERS)
    compiled(x, w)
    if when == "before":
        beside.compile()
    grads = []
    for _ in range(2):
        torch.manual_seed(3)
        with torch.autograd.graph.saved_tensors_hooks(lambda x: x.clone().numpy(), torch.from_numpy):
            y = compiled(x, w)
        if when == "between":
            beside.compile()
        grads.append(torch.autograd.grad(y.sum(), w)[0])
        beside.compile()
    torch.testing.assert_close(*grads, rtol=1e-4, atol=1e-5)
    torch.manual_seed(3)
    expected = torch.compile(function, backend="bascule", options={"on_error": "raise"})(x, w)
    torch.testing.assert_close(grads[0], torch.autograd.grad(expected.sum(), w)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("at", range(0, 8))
def test_a_checkpoint_may_run_again_in_another_tier(beside, at):
    from torch.utils.checkpoint import checkpoint

    w = torch.randn(8, 8, requires_grad=True)

    def block(x, w):
        return torch.nn.functional.dropout((x @ w).sin(), 0.5).exp()

    compiled = torch.compile(block, backend="bascule", options=TIERS)
    plain = torch.compile(block, backend="bascule", options={"on_error": "raise"})

    def step(block):
        torch.manual_seed(4)
        y = checkpoint(block, checkpoint(block, torch.eye(8), w, use_reentrant=False), w, use_reentrant=False)
        return torch.autograd.grad(y.sum(), w)[0]

    expected = step(plain)
    beside.at = at
    for _ in range(3):
        torch.testing.assert_close(step(compiled), expected, rtol=1e-4, atol=1e-4)


def test_numbers_are_those_of_the_settings_that_a_graph_was_traced_under(tmp_path, monkeypatch):
    """Not of those that the kernels are compiled under, later; the disk cache keeps them under the former too."""
    monkeypatch.setenv("BASCULE_CACHE_DIR", str(tmp_path))
    x = torch.tensor([2**24 + 1, 2**24, 3])

    def compared(x):
        return x > 2**24 + 0.5

    try:
        for options in (TIERS, {**TIERS, "tiers": False}):
            torch._dynamo.reset()
            torch.set_default_dtype(torch.float64)
            compiled = torch.compile(compared, backend="bascule", options={**options, "trace_cache": False})
            first = compiled(x)
            torch.set_default_dtype(torch.float32)
            assert bascule.wait_for_kernels(60)
            torch.set_default_dtype(torch.float64)
            for found in (first, compiled(x)):
                assert torch.equal(found, compared(x))
    finally:
        torch.set_default_dtype(torch.float32)

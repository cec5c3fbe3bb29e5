"""Masks of comparisons whose outcome is known: of places that operators find along a dimension."""

import pytest
import torch
from bascule.frontend.fx.integer_ranges import IntegerRanges
from bascule.frontend.fx_passes.known_masks import drop_known_masks
from torch.fx.experimental.proxy_tensor import make_fx

import bascule

aten = torch.ops.aten
FILLED = (aten.masked_fill.Scalar, aten.masked_fill.Tensor)


def traced(function, *inputs):
    gm = make_fx(function, tracing_mode="fake")(*inputs)
    gm.graph.eliminate_dead_code()
    return gm


def chosen(x, size=8, k=2):
    return x[:, :size].topk(k, -1)[1]


# What is compared, with the outcomes of `>= 8`, `> 7`, `< 0`, `<= -1`: all false where it is of 0 to 7.
PLACES = {
    "topk": chosen,
    "sorted": lambda x: chosen(x).reshape(-1).sort()[0].reshape(-1, 2),
    "gathered": lambda x: chosen(x)[torch.arange(len(x)).flip(0)],
    "views": lambda x: chosen(x).t().contiguous().t().unsqueeze(0).expand(3, -1, -1)[1],
    "narrower": lambda x: chosen(x).to(torch.int16).int(),
    "argmax": lambda x: x[:, :8].argmax(1, keepdim=True).expand(-1, 2),
    "max": lambda x: x[:, :8].max(1, keepdim=True)[1].expand(-1, 2),
    "argsort": lambda x: x[:, :8].argsort(1)[:, :2],
    "split": lambda x: x[:, :8].argsort(1).split(4, 1)[1][:, 1:3],
}
NEVER = {">=": lambda p: p >= 8, ">": lambda p: p > 7, "<": lambda p: p < 0, "<=": lambda p: p <= -1}


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("sign", NEVER)
def test_masks_that_hide_nothing_go(name, sign):
    def function(x):
        mask = NEVER[sign](PLACES[name](x))
        return (x[:, :2] * 2).masked_fill(mask, 0.0) + 1

    x = torch.randn(5, 12)
    gm = traced(function, x)
    assert drop_known_masks(gm.graph) == 1
    gm.graph.lint()
    gm.recompile()
    assert torch.equal(gm(x), function(x)) and not any(node.target in FILLED for node in gm.graph.nodes)


KEPT = {
    "sometimes": lambda x: chosen(x) >= 7,
    "of more": lambda x: chosen(x, 9) >= 8,
    "values": lambda x: x.topk(2, -1)[0] >= 8,
    "computed": lambda x: chosen(x) * 2 >= 8,
    "a float": lambda x: chosen(x) >= 7.5,
    "bytes": lambda x: chosen(x, 2).view(torch.int32)[:, ::2] >= 8,
    "another's": lambda x: torch.as_strided(chosen(x), (5, 2), (2, 1)) >= 8,
    "wrapped": lambda x: (chosen(x, 12, 12).to(torch.int8) >= 12)[:, :2] & (x[:, :2] > 0),
}


@pytest.mark.parametrize("name", KEPT)
def test_other_masks_stay(name):
    def function(x):
        return (x[:, :2] * 2).masked_fill(KEPT[name](x), 0.0) + 1

    assert drop_known_masks(traced(function, torch.randn(5, 12)).graph) == 0


def test_memory_that_the_user_sees_stays_apart():
    """Else an output would be an input itself, or two outputs would share memory."""

    def filled(x):
        return x.masked_fill(chosen(x)[:, :1] >= 8, 0.0) * 1, (x * 2).masked_fill(chosen(x)[:, :1] >= 8, 0.0)

    assert drop_known_masks(traced(filled, torch.randn(5, 12)).graph) == 0


def test_sizes_that_broadcast_stay():
    """The mask has more rows than what it fills."""

    def function(x):
        return (x[:1, :2] * 2).masked_fill(chosen(x) >= 8, 0.0) + 1

    x = torch.randn(5, 12)
    gm = traced(function, x)
    assert drop_known_masks(gm.graph) == 0 and gm(x).shape == (5, 2)


def test_ranges():
    def function(x):
        values, places = x.argsort(1).sort(0)
        return values.to(torch.uint8), places.to(torch.uint8), values.float(), values + 1

    graph = traced(function, torch.randn(300, 12)).graph
    ranges = IntegerRanges()
    found = [ranges.of(node) for node in graph.output_node().args[0]]
    assert found == [(0, 11), None, None, None]  # 299 is no byte
    assert ranges.of(3) == (3, 3) and ranges.of(2.5) is None


def test_compiled():
    """In a training step the mask is in neither graph."""

    def function(x, w):
        ids = chosen(x).reshape(-1).sort()[0].reshape(-1, 2)
        return ((x @ w).masked_fill(ids[:, :1] >= 8, 0.0) * ids).tanh().sum()

    def run(f):
        x, w = torch.linspace(-1, 1, 60).sin().reshape(5, 12), torch.linspace(0, 1, 24).reshape(12, 2)
        x.requires_grad_(), w.requires_grad_()
        f(x, w).backward()
        return x.grad, w.grad

    torch._dynamo.reset()
    for one, other in zip(
        run(torch.compile(function, backend="bascule", options={"on_error": "raise"})), run(function)
    ):
        torch.testing.assert_close(one, other)
    told = bascule.explain(function, torch.randn(5, 12, requires_grad=True), torch.randn(12, 2))
    assert "drop-known-masks" in str(told)

"""Effects in graphs that higher-order operators call: a training step has them where eager has them, as often."""

import pytest
import torch
from torch._higher_order_ops.map import map as map_over


def printing(x):
    torch.ops.aten._print("once")
    return x.sin()


def in_cond(x):
    """The result is of use to the backward alone, so that a partitioner would rather compute it there."""
    return torch.cond(x.detach().sum() > -1e6, printing, lambda x: x.cos(), (x,)).exp().sin()


def in_map(x):
    return map_over(printing, x).exp().sin()


def unused(x):
    torch.cond(x.detach().sum() > -1e6, printing, lambda x: x.cos(), (x.detach(),))
    return x.exp().sin()


@pytest.mark.parametrize("function", [in_cond, in_map, unused], ids=lambda f: f.__name__)
def test_a_forward_prints_what_it_prints_in_eager(function, capfd):
    x = torch.randn(3, 4, requires_grad=True)
    compiled = torch.compile(function, backend="bascule", options={"on_error": "raise"})
    torch.manual_seed(0)
    want = function(x)
    (wanted,) = torch.autograd.grad(want.sum(), x)
    capfd.readouterr()
    function(x)
    told = capfd.readouterr().out
    got = compiled(x)
    assert "once" in told and capfd.readouterr().out == told
    torch.testing.assert_close(got, want)
    torch.testing.assert_close(torch.autograd.grad(got.sum(), x)[0], wanted)

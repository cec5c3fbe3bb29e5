"""A tensor beside itself becomes views and a clone before a joint graph is split; different tensors stay beside each other."""

import pytest
import torch
from bascule.frontend.fx_passes.repeats import expand_repeats
from torch.fx.experimental.proxy_tensor import make_fx

aten = torch.ops.aten


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_a_tensor_beside_itself_becomes_views(dim):
    def function(x):
        y = x.cos()
        return aten.cat([y, y, y], dim) * 2

    x = torch.randn(4, 6)
    gm = make_fx(function, tracing_mode="fake")(x)
    expand_repeats(gm.graph)
    gm.recompile()
    assert not gm.graph.find_nodes(op="call_function", target=aten.cat.default)
    torch.testing.assert_close(gm(x), function(x), rtol=0, atol=0)
    for node in gm.graph.find_nodes(op="call_function", target=aten.view.default):
        assert node.meta["val"].shape == function(x).shape


@pytest.mark.parametrize("second", [lambda x: x.sin(), lambda x: x.cos()[:0], lambda x: x.cos().double()])
def test_different_tensors_stay_beside_each_other(second):
    gm = make_fx(lambda x: aten.cat([x.cos(), second(x)]), tracing_mode="fake")(torch.randn(4, 6))
    expand_repeats(gm.graph)
    assert gm.graph.find_nodes(op="call_function", target=aten.cat.default)


def test_what_is_repeated_is_not_saved_for_the_backward():
    saved = []

    def function(angle, x):
        table = torch.cat([angle, angle], -1).cos()
        return (x * table).sin()

    angle, x = torch.randn(16, 8), torch.randn(4, 16, 16, requires_grad=True)
    compiled = torch.compile(function, backend="bascule", options={"on_error": "raise"})
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t.shape) or t, lambda t: t):
        got = compiled(angle, x)
    assert torch.Size((16, 16)) not in saved
    (grad,) = torch.autograd.grad(got.sum(), x)
    exact = x.detach().double().requires_grad_()
    (want,) = torch.autograd.grad(function(angle.double(), exact).sum(), exact)
    torch.testing.assert_close(grad, want.float())

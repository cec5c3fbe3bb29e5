"""Biases of convolutions, added and summed apart on a GPU."""

import pytest
import torch
from bascule.frontend.aot.decompositions import decomposition_table
from bascule.frontend.fx_passes.conv_bias import peel_biases
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F

aten = torch.ops.aten
CONVOLUTIONS = aten.convolution.default, aten.convolution_backward.default
CASES = {
    "2-D": (F.conv2d, (2, 4, 9, 8), (6, 4, 3, 3), {"padding": 1}),
    "channels-last": (F.conv2d, (2, 4, 9, 8), (6, 4, 3, 3), {"stride": 2}),
    "depthwise": (F.conv2d, (2, 6, 9, 8), (6, 1, 7, 7), {"padding": 3, "groups": 6}),
    "transposed": (F.conv_transpose2d, (2, 4, 5, 6), (4, 6, 3, 3), {"stride": 2}),
    "1-D": (F.conv1d, (2, 4, 9), (6, 4, 3), {}),
    "3-D": (F.conv3d, (2, 4, 5, 6, 7), (6, 4, 3, 3, 3), {}),
}


def step(function, options):
    def run(x, w, b):
        y = function(x, w, b, **options)
        tangent = torch.linspace(-1, 2, y.numel(), dtype=y.dtype).view(y.shape)
        return y, *torch.autograd.grad(torch.tanh(y), (x, w, b), tangent)

    return run


def peeled(name, devices=("cpu",)):
    function, sizes, weight, options = CASES[name]
    inputs = [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in (sizes, weight, (6,))]
    if name == "channels-last":
        inputs[:2] = [x.detach().to(memory_format=torch.channels_last).requires_grad_() for x in inputs[:2]]
    run = step(function, options)
    gm = make_fx(run, decomposition_table(), tracing_mode="fake")(*inputs)
    count = peel_biases(gm.graph, devices)
    gm.graph.lint()
    gm.recompile()
    return gm, count, inputs, run(*inputs)


@pytest.mark.parametrize("name", CASES)
def test_it_computes_the_same(name):
    gm, count, inputs, wanted = peeled(name)
    assert count == 2
    forward, backward = (gm.graph.find_nodes(op="call_function", target=target) for target in CONVOLUTIONS)
    assert all(node.args[2] is None for node in forward) and all(not node.args[-1][2] for node in backward)
    for got, want in zip(gm(*(x.detach() for x in inputs)), wanted, strict=True):
        torch.testing.assert_close(got, want)
        assert got.stride() == want.stride()


def test_on_a_cpu_they_stay():
    assert peeled("2-D", ("cuda",))[1] == 0


def test_without_a_bias_nothing_changes():
    gm = make_fx(lambda x, w: F.conv2d(x, w))(torch.randn(1, 2, 4, 4), torch.randn(3, 2, 3, 3))
    before = str(gm.graph)
    assert peel_biases(gm.graph, ("cpu",)) == 0 and str(gm.graph) == before

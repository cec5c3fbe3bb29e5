"""Convolutions whose windows tile their image, as products: the same results and layouts for random ones, and those that stay."""

from random import Random

import pytest
import torch
from bascule.frontend.aot.decompositions import decomposition_table
from bascule.frontend.fx_passes import tiled_convolutions
from bascule.frontend.fx_passes.tiled_convolutions import multiply_tiles
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F

import bascule

aten = torch.ops.aten
CALLS = aten.convolution.default, aten.convolution_backward.default
FORMS = {1: None, 2: torch.channels_last, 3: torch.channels_last_3d}


def multiplied(run, *inputs, devices=("cpu",), mode="fake"):
    """The graph of `run` with products, and how many convolutions and gradients these replace."""
    gm = make_fx(run, decomposition_table(), tracing_mode=mode)(*inputs)
    count = multiply_tiles(gm.graph, devices)
    gm.graph.lint()
    gm.recompile()
    return gm, count


def trained(function):
    def run(x, w):
        y = function(x, w)
        tangent = torch.linspace(-1, 2, y.numel(), dtype=y.dtype).view(y.shape)
        return y, *torch.autograd.grad(torch.tanh(y), (x, w), tangent)

    return run


def calls(gm, *targets):
    return sum(node.target in targets for node in gm.graph.nodes)


def laid_out(random, shape):
    """A leaf of these sizes, whose channels are neighbours in memory or not."""
    x = torch.randn(shape, dtype=torch.float64)
    form = random.choice([None, FORMS[len(shape) - 2]])
    return (x if form is None else x.to(memory_format=form)).requires_grad_()


@pytest.mark.parametrize("seed", range(24))
def test_random_tilings(seed):
    random, rank = Random(seed), 1 + seed % 3
    transposed = seed % 4 == 3
    window = [random.randint(1, 4) for _ in range(rank - 1)] + [random.randint(2, 4)]
    batch, channels, out = random.randint(1, 3), random.choice([1, 3, 8]), random.choice([1, 5, 8])
    counts = [random.randint(1, 4) for _ in window]
    sizes = counts if transposed else [c * w + random.randrange(w) for c, w in zip(counts, window, strict=True)]
    torch.manual_seed(seed)
    x = laid_out(random, (batch, channels, *sizes))
    w = laid_out(random, (*((channels, out) if transposed else (out, channels)), *window))
    convolve = getattr(F, f"conv_transpose{rank}d" if transposed else f"conv{rank}d")
    run = trained(lambda x, w: convolve(x, w, stride=window))
    kept = make_fx(run, decomposition_table(), tracing_mode="fake")(x, w)
    gm, count = multiplied(run, x, w)
    assert count == 2 and not calls(gm, *CALLS) and calls(gm, aten.mm.default) == 3
    given = [x.detach(), w.detach()]
    traced = [node.meta["val"] for node in kept.graph.output_node().args[0]]
    for got, want, as_traced in zip(gm(*given), run(x, w), traced, strict=True):
        torch.testing.assert_close(got, want)
        assert got.stride() == as_traced.stride()


def test_patches_are_made_once_for_a_step():
    x, w = torch.randn(2, 3, 8, 8, dtype=torch.float64), torch.randn(5, 3, 4, 4, dtype=torch.float64)
    gm, _ = multiplied(trained(lambda x, w: F.conv2d(x, w, stride=4)), x.requires_grad_(), w.requires_grad_())
    readers = [node.args for node in gm.graph.find_nodes(op="call_function", target=aten.mm.default)]
    assert readers[0][0] is readers[2][1] or readers[0][0] is readers[1][1]


def test_a_batch_may_have_any_size():
    torch._dynamo.reset()

    def run(x, w):
        return F.conv2d(x.sin(), w, stride=4)

    options = {"target": "interpret", "on_error": "raise", "cache": False}
    call, w = torch.compile(run, backend="bascule", options=options), torch.randn(5, 3, 4, 4, dtype=torch.float64)
    for batch in (6, 3, 0):
        x = torch.randn(batch, 3, 8, 9, dtype=torch.float64)
        torch._dynamo.mark_dynamic(x, 0)
        torch.testing.assert_close(call(x, w), run(x, w))
    assert [name.split(":")[0] for name in bascule.counters()["aten"]] == ["aten.mm.default"]


STAY = {
    "windows overlap": ((2, 4, 9, 9), (6, 4, 3, 3), {"stride": 2}),
    "gaps between windows": ((2, 4, 9, 9), (6, 4, 2, 2), {"stride": 3}),
    "gaps in a window": ((2, 4, 9, 9), (6, 4, 2, 2), {"stride": 2, "dilation": 2}),
    "padding": ((2, 4, 9, 9), (6, 4, 3, 3), {"stride": 3, "padding": 1}),
    "groups": ((2, 4, 9, 9), (6, 2, 3, 3), {"stride": 3, "groups": 2}),
    "windows of one element": ((2, 4, 9, 9), (6, 4, 1, 1), {}),
}


@pytest.mark.parametrize("name", STAY)
def test_what_stays(name):
    sizes, weight, options = STAY[name]
    x, w = torch.randn(sizes), torch.randn(weight)
    gm, count = multiplied(lambda x, w: F.conv2d(x, w, **options), x, w)
    assert count == 0 and calls(gm, *CALLS) == 1


def test_more_of_a_transposed_result_and_a_bias_stay():
    x, w = torch.randn(2, 4, 5, 5), torch.randn(4, 6, 3, 3)
    assert multiplied(lambda x, w: F.conv_transpose2d(x, w, stride=3, output_padding=1), x, w)[1] == 0
    assert (
        multiplied(
            lambda x, w: F.conv2d(x, w, torch.ones(6), stride=3), torch.randn(2, 4, 9, 9), w.mT.mT.transpose(0, 1)
        )[1]
        == 0
    )
    assert multiplied(lambda x, w: F.conv_transpose2d(x, w, stride=3), x, w, devices=("cuda",))[1] == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_products_take_as_many_bits_as_convolutions(dtype, monkeypatch):
    """cuDNN may round factors of f32 to TF32 where cuBLAS may not, and the other way round."""
    x, w = torch.randn(2, 4, 6, 6, dtype=dtype), torch.randn(6, 4, 3, 3, dtype=dtype)
    for alike in (True, False):
        monkeypatch.setattr(tiled_convolutions, "convolutions_are_alike", lambda alike=alike: alike)
        _, count = multiplied(lambda x, w: F.conv2d(x, w, stride=3), x, w)
        assert count == (alike or dtype != torch.float32)

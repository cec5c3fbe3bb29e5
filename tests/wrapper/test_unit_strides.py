"""Strides of dimensions of size 1 that a graph returns: PyTorch tells channels-last by them, and what runs after the graph has others then."""

import pytest
import torch
from bascule.frontend.aot.decompositions import decomposition_table
from torch._dynamo.backends.common import aot_autograd
from torch.nn.functional import adaptive_avg_pool2d, interpolate

LAST = torch.channels_last


def images(*sizes):
    return torch.randn(*sizes).to(memory_format=LAST)


# Of symbolic sizes: Dynamo tells no strides of an input's dimensions of size 1.
INPUT = torch.randn(2, 8).as_strided((2, 8, 1, 1), (8, 1, 8, 8))
CASES = {
    "a pool": (lambda x: adaptive_avg_pool2d(x.relu(), 1), images(2, 8, 4, 4)),
    "an input's": (lambda x: x * 2, INPUT),
    "a view of what the graph makes": (lambda x: (x * 2).transpose(1, 2), torch.randn(2, 1, 8)),
    "a transpose": (lambda x: (x + 1).t(), torch.randn(1, 7)),
    "both": (lambda x: ((y := x + 1), y.t()), torch.randn(1, 1)),
    "an input's view": (lambda x: x.view(2, 1, 8).transpose(1, 2), torch.randn(2, 8)),
    "one batch": (lambda x: x + 1, images(1, 8, 4, 4)),
    "no elements": (lambda x: (x + 1).transpose(0, 1), torch.randn(1, 0, 3)),
}


def strides(outputs):
    return [x.stride() for x in (outputs if isinstance(outputs, tuple) else (outputs,))]


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_strides_are_those_of_eager(case, dynamic, grad):
    torch._dynamo.reset()
    function, x = CASES[case]
    if x is INPUT and dynamic:
        pytest.skip("Dynamo's fake input has row-major strides")
    x = x.detach().requires_grad_(grad)
    compiled = torch.compile(function, backend="bascule", dynamic=dynamic, options={"on_error": "raise"})
    for _ in range(2):
        assert strides(compiled(x)) == strides(function(x))


def test_what_eager_makes_of_a_pool_can_be_viewed():
    torch._dynamo.reset()
    pool = torch.compile(lambda x: adaptive_avg_pool2d(x.relu(), 1), backend="bascule", options={"on_error": "raise"})
    x = images(2, 8, 4, 4).requires_grad_()
    pixels = interpolate(pool(x), size=(4, 4)).permute(0, 2, 3, 1).view(-1, 8)
    pixels.sum().backward()
    torch.testing.assert_close(pixels, x.relu().mean((2, 3))[:, None].expand(2, 16, 8).reshape(-1, 8))
    assert x.grad.stride() == x.stride()


def scattered(sizes, strides):
    """A tensor of any strides."""
    extent = 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides))
    return torch.linspace(0.1, 0.9, extent).as_strided(sizes, strides)


LAYOUTS = {
    "channels-last": images(2, 3, 4, 5),
    "channels-last of one channel": images(2, 1, 3, 4),
    "of one batch": images(1, 3, 4, 5),
    "of one pixel": images(2, 3, 1, 1),
    "a slice of channels": images(2, 4, 3, 4)[:, 1:2],
    "transposed": torch.randn(3, 4, 5, 2).transpose(1, 3),
    "transposed, one row": torch.randn(3, 1, 5, 2).transpose(0, 2),
    "expanded": torch.randn(3, 1, 5, 1).expand(3, 4, 5, 2),
    "every other": torch.randn(6, 4, 5, 4)[::2, :, 1:4],
    "an odd stride of one": scattered((2, 1, 3, 4), (12, 7, 4, 1)),
    "a stride of zero of one": scattered((2, 1, 3, 4), (12, 0, 4, 1)),
}
ONE_TO_ONE = [
    torch.sigmoid,
    torch.relu,
    torch.neg,
    torch.isnan,
    torch.signbit,
    torch.angle,
    torch.clone,
    torch.rsqrt,
    torch.erf,
]
ONE_TO_ONE += [
    torch.nn.functional.gelu,
    torch.nn.functional.hardtanh,
    torch.nn.functional.elu,
    torch.zeros_like,
    torch.nan_to_num,
]
ONE_TO_ONE += [
    lambda x: x.clamp(0.2, 0.6),
    lambda x: x + 1,
    lambda x: x * x,
    lambda x: 2**x,
    lambda x: x > 0.5,
    lambda x: x.double(),
]
ONE_TO_ONE += [
    lambda x: x * x[:, :1],
    lambda x: torch.where(x > 0.5, x, 0.0),
    lambda x: torch.maximum(x, x * 2),
    lambda x: 1 - x,
]
ONE_TO_ONE += [lambda x: torch.polar(x, x), lambda x: torch.lerp(x, x[:1], 0.5), lambda x: x.masked_fill(x > 0.5, 0)]
OTHERS = [
    lambda x: x.softmax(1),
    lambda x: x.cumsum(2),
    lambda x: x.roll(1, 2),
    lambda x: x.flip(1),
    lambda x: torch.stack([x, x]),
]
OTHERS += [
    lambda x: torch.cat([x, x], 1),
    lambda x: x.sum(1, keepdim=True),
    lambda x: torch.nn.functional.pad(x, (1, 1)),
]
VIEWS = [
    lambda x: (x + 1).transpose(1, 2),
    lambda x: (x + 1)[:, :1],
    lambda x: (x + 1)[..., 0],
    lambda x: (x + 1).unsqueeze(1),
]
VIEWS += [
    lambda x: (x + 1).permute(0, 2, 3, 1),
    lambda x: (x + 1).narrow(2, 0, 1),
    lambda x: (x + 1).expand(2, *x.shape),
    lambda x: (x + 1).mT,
]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_results_have_the_strides_they_were_traced_with(layout):
    """Those of fake tensors, which the user's code after the graph, and the graph's own backward, were told."""
    traced, x = [], LAYOUTS[layout]

    def told(gm, example_inputs):
        traced.extend(node.meta["val"].stride() for node in gm.graph.output_node().args[0])
        return gm.forward

    def everything(x):
        return tuple(function(x) for function in (*ONE_TO_ONE, *OTHERS, *VIEWS))

    backend = aot_autograd(fw_compiler=told, decompositions=decomposition_table(), keep_inference_input_mutations=True)
    wanted = torch.compile(everything, backend=backend, fullgraph=True)(x)
    torch._dynamo.reset()
    compiled = torch.compile(everything, backend="bascule", fullgraph=True, options={"on_error": "raise"})(x)
    assert strides(compiled) == traced
    torch.testing.assert_close(compiled, wanted, equal_nan=True)

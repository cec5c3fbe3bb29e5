"""Reads under guards in Triton's IR, some of which all points share: padded windows, pads and parts of a `cat` beside broadcast
operands, drawn at random, against eager in f64."""

from random import Random

import pytest
import torch
from torch.nn import functional as F

ACTIVATIONS = (torch.relu, F.hardswish, F.silu, torch.sin)
SHAPES = ("1111", "1c11", "n111", "11h1", "111w", "1ch1", "nc11", "nchw")  # of operands beside the image


def drawn(random: Random, sizes: dict[str, int], generator: torch.Generator) -> torch.Tensor:
    shape = random.choice(SHAPES)
    return torch.randn([sizes.get(letter, 1) for letter in shape], generator=generator)


def program(random: Random, channels: int, window: int):
    """A function of an image, two operands and a weight of one window for each channel."""
    activation, form = random.choice(ACTIVATIONS), random.choice(("convolution", "pad", "cat", "pool"))
    pads = [random.randint(0, 3) for _ in range(4)]
    dim, stride = random.randrange(4), random.choice((1, 1, 2))

    def function(x, scale, shift, weight):
        y = activation(x * scale + shift)
        if form == "convolution":
            return F.conv2d(y, weight, None, stride, window // 2, groups=channels)
        if form == "pad":
            return F.pad(y, pads, value=0.5) * 2
        if form == "cat":
            return torch.cat([y, x.narrow(dim, 0, 1)], dim).sum(1)
        return F.avg_pool2d(y, window, stride, window // 2)

    return function


@pytest.mark.parametrize("seed", range(24))
def test_as_eager_in_f64(seed):
    random, generator = Random(seed), torch.Generator().manual_seed(seed)
    sizes = {letter: random.randint(1, most) for letter, most in (("n", 3), ("c", 20), ("h", 19), ("w", 19))}
    window = random.choice((3, 5, 7))
    function = program(random, sizes["c"], window)
    x = torch.randn(*sizes.values(), generator=generator)
    if random.random() < 0.5:
        x = x.contiguous(memory_format=torch.channels_last)
    scale, shift = (drawn(random, sizes, generator) for _ in range(2))
    if random.random() < 0.3:
        shift.view(-1)[0] = torch.inf  # a guard keeps it out of what is beside the image
    inputs = [x, scale, shift, torch.randn(sizes["c"], 1, window, window, generator=generator)]
    compiled = torch.compile(function, backend="bascule", options={"target": "interpret", "on_error": "raise"})
    want = function(*(value.double() for value in inputs))
    torch.testing.assert_close(compiled(*inputs), want, check_dtype=False, equal_nan=True, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("offset", [-2, 0, 1])
@pytest.mark.parametrize("sizes", [(7, 6), (6, 7), (19, 5)])
def test_a_guard_that_keeps_an_index_inside_for_another(sizes, offset, dynamic):
    """A gradient of a diagonal reads at one index where both are on it: beyond the end of the other index nothing else keeps it inside."""

    def function(x):
        y = x * x.sum(0)
        return y.diagonal(offset).tanh(), y.sin()

    options = {"target": "interpret", "on_error": "raise"}
    compiled = torch.compile(function, backend="bascule", dynamic=dynamic, options=options)
    x = torch.randn(sizes, generator=torch.Generator().manual_seed(1))
    gradients = []
    for called, given in ((function, x.double()), (compiled, x)):
        given.requires_grad_()
        first, second = called(given)
        gradients.append(torch.autograd.grad(first.sum() + second.sum(), given)[0])
    torch.testing.assert_close(gradients[1], gradients[0], check_dtype=False, rtol=1e-3, atol=1e-3)

"""Strides of dimensions of size 1 that a graph returns: PyTorch tells channels-last by them, and what runs after the graph has others then."""

import pytest
import torch
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

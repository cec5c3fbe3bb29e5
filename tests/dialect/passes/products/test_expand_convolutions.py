"""Depthwise convolutions as computes: results and gradients by the interpreter of Triton IR, against eager in f64."""

import pytest
import torch
from torch.nn import functional as F

OPTIONS = {"target": "interpret", "on_error": "raise"}
# window, stride, padding, dilation; channels-last; the image
CASES = (
    (3, 1, 1, 1, True, (11, 9)),
    (5, 2, 2, 1, True, (8, 13)),
    (7, 1, 3, 1, True, (7, 7)),
    (3, 1, 2, 2, True, (6, 19)),
    (4, 2, 1, 1, True, (9, 8)),
    (3, 1, 0, 1, False, (10, 9)),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_results_and_gradients_are_eagers(case):
    window, stride, padding, dilation, last, image = case
    torch.manual_seed(0)

    def run(x, w):
        return F.gelu(F.conv2d(x, w, None, stride, padding, dilation, groups=x.shape[1]))

    x, w = torch.randn(2, 6, *image), torch.randn(6, 1, window, window)
    if last:
        x = x.contiguous(memory_format=torch.channels_last)
    inputs = [t.clone().requires_grad_() for t in (x, w)]
    exact = [t.double().requires_grad_() for t in (x, w)]
    got, want = torch.compile(run, backend="bascule", dynamic=False, options=OPTIONS)(*inputs), run(*exact)
    assert got.stride() == want.stride()
    seed = torch.randn_like(got)
    gradients = torch.autograd.grad(got, inputs, seed), torch.autograd.grad(want, exact, seed.double())
    for found, right in zip((got, *gradients[0]), (want, *gradients[1]), strict=True):
        torch.testing.assert_close(found.double(), right, rtol=1e-5, atol=1e-5)


def test_one_dimension_and_three():
    torch.manual_seed(0)
    for dims, sizes in ((1, (17,)), (3, (5, 4, 6))):
        convolution = (F.conv1d, F.conv2d, F.conv3d)[dims - 1]

        def run(x, w, convolution=convolution):
            return convolution(x, w, padding=1, groups=x.shape[1])

        x, w = torch.randn(2, 4, *sizes), torch.randn(4, 1, *[3] * dims)
        got = torch.compile(run, backend="bascule", dynamic=False, options=OPTIONS)(x, w)
        torch.testing.assert_close(got.double(), run(x.double(), w.double()), rtol=1e-5, atol=1e-5)
        torch._dynamo.reset()


def test_sums_of_16_bits_are_rounded_once():
    torch.manual_seed(0)
    x = torch.randn(2, 8, 9, 9).bfloat16().contiguous(memory_format=torch.channels_last)
    w = torch.randn(8, 1, 5, 5).bfloat16()

    def run(x, w):
        return F.conv2d(x, w, padding=2, groups=8)

    got = torch.compile(run, backend="bascule", dynamic=False, options=OPTIONS)(x, w)
    exact = run(x.double(), w.double())
    assert ((got.double() - exact).abs() <= exact.abs() * 2**-8 + 1e-5).all()

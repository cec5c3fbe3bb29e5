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


# batch, channels, image; window, stride, dilation: lanes over rows of 72 channels, whole windows, rests of rows and columns
FUSED = (
    ((2, 72, 16, 14), 3, 1, 1),
    ((2, 72, 13, 15), 5, 2, 1),
    ((1, 40, 14, 21), 7, 1, 1),
    ((2, 24, 17, 16), 3, 1, 2),
    ((1, 64, 16, 16), 3, 2, 1),
)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("case", FUSED, ids=str)
def test_what_is_read_is_computed_and_the_border_is_zero(case, dtype):
    """A function that is not 0 at 0 stands before the window: outside of the image there is none of it."""
    (n, c, *image), window, stride, dilation = case
    torch.manual_seed(0)
    # What is costly is stored, rounded as eager's is.
    before = torch.maximum if dtype.itemsize < 4 else lambda x, shift: F.softplus(x + shift)

    def run(x, w, shift):
        y = F.conv2d(before(x, shift), w, None, stride, dilation * (window // 2), dilation, groups=c)
        return torch.relu(y * shift - 0.5)

    x = torch.randn(n, c, *image, dtype=dtype).contiguous(memory_format=torch.channels_last)
    inputs = x, torch.randn(c, 1, window, window, dtype=dtype), torch.randn(1, c, 1, 1, dtype=dtype)
    got = torch.compile(run, backend="bascule", dynamic=False, options=OPTIONS)(*inputs)
    want = run(*(t.double() for t in inputs))
    epsilon = torch.finfo(dtype).eps
    assert ((got.double() - want).abs() <= epsilon * want.abs() + 2**-18 * want.abs().max()).all()


def test_what_is_not_finite_stays_in_its_windows():
    torch.manual_seed(0)
    x = torch.randn(2, 72, 14, 14).contiguous(memory_format=torch.channels_last)
    x[0, 3, 0, 0], x[0, 70, 13, 13], x[1, 71, 6, 0] = float("nan"), float("inf"), float("-inf")

    def run(x, w):
        return F.conv2d(x, w, padding=1, groups=72)

    w = torch.rand(72, 1, 3, 3) + 0.5
    got = torch.compile(run, backend="bascule", dynamic=False, options=OPTIONS)(x, w)
    torch.testing.assert_close(got, run(x, w), rtol=1e-5, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("case", [((8, 72, 14, 14), 3, 1), ((4, 32, 28, 29), 7, 1), ((8, 48, 15, 14), 5, 2)], ids=str)
def test_gradients_that_are_split(case):
    """Sums over so many places are parts, whose programs have all rows of a window."""
    (n, c, *image), window, stride = case
    torch.manual_seed(0)

    def run(x, w):
        return F.conv2d(x, w, None, stride, window // 2, groups=c)

    x = torch.randn(n, c, *image).contiguous(memory_format=torch.channels_last)
    inputs = [t.requires_grad_() for t in (x, torch.randn(c, 1, window, window))]
    exact = [t.detach().double().requires_grad_() for t in inputs]
    got, want = torch.compile(run, backend="bascule", dynamic=False, options=OPTIONS)(*inputs), run(*exact)
    seed = torch.randn_like(got)
    found = torch.autograd.grad(got, inputs, seed)
    right = torch.autograd.grad(want, exact, seed.double())
    for gradient, exactly in zip(found, right, strict=True):
        torch.testing.assert_close(gradient.double(), exactly, rtol=1e-4, atol=1e-3)


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

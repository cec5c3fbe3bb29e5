"""Depthwise convolutions as kernels on a GPU, with what stands around them, and their gradients, held against f64."""

import pytest
import torch
from torch.nn import functional as F

OPTIONS = {"on_error": "raise", "cache": False}
TOLERANCES = {torch.float32: 2e-5, torch.float16: 5e-3, torch.bfloat16: 4e-2}
# batch, channels, image; window, stride, dilation
CASES = (
    ((3, 72, 15, 17), 3, 1, 1),
    ((2, 72, 28, 28), 5, 2, 1),
    ((2, 64, 112, 112), 3, 2, 1),
    ((16, 96, 56, 56), 7, 1, 1),
    ((4, 768, 7, 7), 7, 1, 1),
    ((8, 24, 28, 29), 3, 1, 2),
    ((2, 7, 9, 11), 3, 1, 1),
)


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_results_and_gradients(case, dtype):
    (n, c, *image), window, stride, dilation = case
    torch.manual_seed(0)

    def run(x, w, shift):
        y = F.conv2d(F.softplus(x + shift), w, None, stride, dilation * (window // 2), dilation, groups=c)
        return torch.tanh(y) * shift

    x = torch.randn(n, c, *image, device="cuda", dtype=dtype).contiguous(memory_format=torch.channels_last)
    w = torch.randn(c, 1, window, window, device="cuda", dtype=dtype) / window
    inputs = [t.requires_grad_() for t in (x, w, torch.randn(1, c, 1, 1, device="cuda", dtype=dtype))]
    exact = [t.detach().double().requires_grad_() for t in inputs]
    got, want = torch.compile(run, backend="bascule", dynamic=False, options=OPTIONS)(*inputs), run(*exact)
    seed = torch.randn_like(got)
    found = got, *torch.autograd.grad(got, inputs, seed)
    right = want, *torch.autograd.grad(want, exact, seed.double())
    for value, exactly in zip(found, right, strict=True):
        assert ((value.double() - exactly).abs().max() <= TOLERANCES[dtype] * exactly.abs().max()).item()


def test_what_is_not_finite_stays_in_its_windows():
    torch.manual_seed(0)
    x = torch.randn(2, 72, 56, 56, device="cuda").contiguous(memory_format=torch.channels_last)
    x[0, 3, 0, 0], x[0, 70, 55, 55], x[1, 71, 6, 0] = float("nan"), float("inf"), float("-inf")

    def run(x, w):
        return F.conv2d(x, w, padding=1, groups=72)

    w = torch.rand(72, 1, 3, 3, device="cuda") + 0.5
    got = torch.compile(run, backend="bascule", dynamic=False, options=OPTIONS)(x, w)
    torch.testing.assert_close(got.double(), run(x.double(), w.double()), rtol=1e-5, atol=1e-5, equal_nan=True)

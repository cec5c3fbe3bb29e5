"""Indices that a max pooling saves for its backward."""

import pytest
import torch
from torch.nn import functional as F

import bascule

CASES = {
    "2-D": (lambda x: F.max_pool2d(x, 3, 2, 1), (2, 3, 11, 14)),
    "2-D, windows that touch": (lambda x: F.max_pool2d(x, 2), (2, 3, 9, 10)),
    "2-D, of other sizes": (lambda x: F.max_pool2d(x, (2, 5), (3, 1), (1, 2), ceil_mode=True), (2, 3, 12, 9)),
    "2-D without a batch": (lambda x: F.max_pool2d(x, 3, 1, 1), (3, 7, 5)),
    "3-D": (lambda x: F.max_pool3d(x, (2, 3, 2), 2, (1, 1, 0)), (2, 2, 6, 7, 5)),
    "1-D": (lambda x: F.max_pool1d(x, 3, 2, 1), (2, 3, 15)),
    "long rows": (lambda x: F.max_pool2d(x, 3, 2, 1), (1, 2, 5, 200)),
    "long rows, 3-D": (lambda x: F.max_pool3d(x, 2, 1), (1, 1, 3, 190, 180)),
    "with gaps": (lambda x: F.max_pool2d(x, 2, 2, 0, 2), (2, 3, 9, 10)),
}


def gradient(call, x):
    x = x.clone().requires_grad_()
    out = call(torch.tanh(x))
    return out, torch.autograd.grad((out * torch.linspace(-1, 2, out.numel()).view(out.shape)).sum(), x)[0]


@pytest.mark.parametrize("name", CASES)
def test_gradients(name):
    function, sizes = CASES[name]
    torch.manual_seed(0)
    x = torch.randn(sizes)
    x.view(-1)[::7] = x.view(-1)[3]  # elements that are equal: the first counts
    x.view(-1)[5] = float("nan")
    compiled = torch.compile(function, backend="bascule", options={"on_error": "raise"}, dynamic=False)
    for got, want in zip(gradient(compiled, x), gradient(function, x), strict=True):
        torch.testing.assert_close(got, want, equal_nan=True)


SAVED = {"2-D": "uint8", "3-D": "uint8", "with gaps": "uint8", "long rows": "int16", "long rows, 3-D": "int32"}


@pytest.mark.parametrize(("name", "dtype"), SAVED.items())
def test_what_is_saved(name, dtype, tmp_path):
    function, sizes = CASES[name]
    x = torch.randn(sizes, requires_grad=True)
    bascule.explain(function, x, options={"dump": str(tmp_path), "on_error": "raise"})
    (forward,) = tmp_path.rglob("*forward*/*wrapper.py")
    text = forward.read_text()
    assert f"torch.{dtype})" in text and "torch.int64" not in text


def test_indices_that_the_user_sees_stay_as_they_are():
    def function(x):
        out, indices = F.max_pool2d(x, 3, 2, 1, return_indices=True)
        return out * 2, indices

    x = torch.randn(2, 3, 11, 14, requires_grad=True)
    got = torch.compile(function, backend="bascule", options={"on_error": "raise"})(x)
    want = function(x)
    assert torch.equal(got[1], want[1])
    for one, other in zip(*(torch.autograd.grad(out.sum(), x) for out, _ in (got, want))):
        torch.testing.assert_close(one, other)

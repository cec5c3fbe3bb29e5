"""Scales and shifts after a convolution become part of its weights, where these are held and wide enough."""

import pytest
import torch
from bascule.frontend.freezing.conv_folding import fold_into_convolutions
from torch.nn import functional as F

from .held import calls, held, same

X, W, B, S = torch.randn(2, 4, 9, 8), torch.randn(6, 4, 3, 3), torch.randn(6), torch.rand(6, 1, 1) + 1


@pytest.mark.parametrize(
    ("folded", "function"),
    {
        "numbers": (2, lambda x, w, b, s: F.conv2d(x, w, b) * 3 + 1),
        "channels": (3, lambda x, w, b, s: ((F.conv2d(x, w, b) - s) / s) * 3),
        "no bias": (2, lambda x, w, b, s: F.conv2d(x, w) * s + s),
    }.values(),
    ids=("numbers", "channels", "no bias"),
)
def test_scales_and_shifts_are_folded(folded, function):
    gm = held(function, X, W, B, S)
    assert fold_into_convolutions(gm) == folded and calls(gm) == ["convolution.default"]
    same(gm, function, X, W, B, S)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w, b, s: F.conv2d(x, w, b).relu() * 3,
        lambda x, w, b, s: (y := F.conv2d(x, w, b)) * 3 + y,
        lambda x, w, b, s: F.conv2d(x, w, b) * x[:, :1, 2:, 2:],
        lambda x, w, b, s: 2 / F.conv2d(x, w, b),
    ],
    ids=("an activation between", "another reader", "an input", "a quotient the other way"),
)
def test_others_stay(function):
    gm = held(function, X, W, B, S)
    before = calls(gm)
    assert fold_into_convolutions(gm) == 0 and calls(gm) == before


def test_narrow_weights_stay():
    gm = held(lambda x, w: F.conv2d(x, w) * 3, X.bfloat16(), W.bfloat16())
    assert fold_into_convolutions(gm) == 0

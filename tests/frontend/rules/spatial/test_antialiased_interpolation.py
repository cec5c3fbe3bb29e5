"""Resampling with antialiasing, forward and backward, against eager."""

import pytest
import torch
import torch.nn.functional as F

from bascule.entry.backend import compile_dynamo_graph
from tests.frontend.against_eager import check, leaf

SIZES = {
    "shrunk": ((20, 30), (7, 11)),
    "rows shrunk much": ((64, 9), (5, 9)),
    "grown": ((7, 9), (15, 20)),
    "rows grown, columns shrunk": ((9, 40), (17, 6)),
    "to one": ((9, 5), (1, 3)),
    "of one": ((1, 1), (4, 3)),
    "as it is": ((6, 7), (6, 7)),
}


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("sizes", SIZES)
def test_resampling(sizes, align_corners, mode):
    before, after = SIZES[sizes]

    def function(x):
        return F.interpolate(x, size=after, mode=mode, align_corners=align_corners, antialias=True)

    (forward, *_) = check(function, [leaf(2, 3, *before)], rtol=1e-4, atol=2e-5)
    assert not forward.summary.aten


def test_by_factors_and_in_double_precision():
    def function(x):
        return F.interpolate(x, scale_factor=(0.3, 0.7), mode="bicubic", antialias=True)

    check(function, [leaf(2, 3, 40, 25)], rtol=1e-4, atol=2e-5)
    x = torch.randn(1, 2, 33, 21, dtype=torch.float64, requires_grad=True)
    check(lambda x: F.interpolate(x, size=(8, 30), mode="bilinear", antialias=True), [x], rtol=1e-12, atol=1e-12)


def test_channels_last():
    x = torch.randn(2, 3, 20, 30).to(memory_format=torch.channels_last)
    check(lambda x: F.interpolate(x, size=(7, 11), mode="bilinear", antialias=True), [x], rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("sizes", [((20, 30), (7, 11)), ((9, 40), (17, 6))])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_against_double_precision(mode, sizes):
    """Eager in f64 is the truth: what is computed in f32 is as near to it as rounding lets it be."""
    before, after = sizes
    x = torch.randn(2, 3, *before)

    def function(x):
        return F.interpolate(x, size=after, mode=mode, antialias=True)

    torch._dynamo.reset()
    got = torch.compile(function, backend=compile_dynamo_graph)(x)
    assert (got.double() - function(x.double())).abs().max() < 1e-5


def test_what_goes_to_aten():
    """Sizes that are not constant, and integers, which eager resamples in fixed point."""

    def function(x):
        return F.interpolate(x, scale_factor=0.5, mode="bilinear", antialias=True)

    (record, *_) = check(function, [torch.randn(2, 3, 20, 30)], [torch.randn(2, 3, 24, 26)], dynamic=True)
    assert any("not constant" in call.reason for call in record.summary.aten)
    image = torch.randint(0, 255, (1, 3, 20, 30), dtype=torch.uint8)
    (record,) = check(lambda x: F.interpolate(x, size=(7, 9), mode="bilinear", antialias=True), [image])
    assert any("fixed point" in call.reason for call in record.summary.aten)

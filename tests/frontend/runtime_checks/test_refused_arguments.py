"""Compiled code refuses by eager's exceptions: sizes, dtypes and numbers, and elements that are no indices."""

import pytest
import torch
from torch.nn import functional as F

T, R = torch.tensor, torch.randn
CASES = {
    "select_scatter, beyond": (lambda x: x.select_scatter(x[0], 0, 7), R(6, 3)),
    "select_scatter, before": (lambda x: x.select_scatter(x[0], 0, -9), R(6, 3)),
    "select_scatter, size": (lambda x: x.select_scatter(x[0, :2], 0, 1), R(6, 3)),
    "slice_scatter": (lambda x: x.slice_scatter(x[:2], 0, 1, 5), R(6, 3)),
    "diagonal_scatter": (lambda x: x.diagonal_scatter(x[:2, 0]), R(6, 3)),
    "index_add": (lambda x, i: x.index_add(0, i, x[:2, :2]), R(6, 3), T([0, 1])),
    "put": (lambda x, i: x.put(i, x[:3]), R(4), T([0, -1])),
    "masked_scatter": (lambda x, m: x.masked_scatter(m, x), R(4), T([1, 0, 1, 0], dtype=torch.uint8)),
    "bernoulli_": (lambda x: x.clone().bernoulli_(1.5), R(4)),
    "uniform_": (lambda x: x.clone().uniform_(2, 1), R(4)),
    "floor_divide": (lambda x: x // 0, T([3, 4])),
    "pow": (lambda x: x**-2, T([3, 4])),
    "bucketize": (lambda x, b: torch.bucketize(x, b), T([2.0]), R(2, 2)),
    "index_add dtype": (lambda x, i: x.index_add(0, i, x[:2].int()), R(6, 3), T([0, 1])),
    "index_reduce dtype": (lambda x, i: x.index_reduce(0, i, x[:2].short(), "amax"), R(6, 3), T([0, 1])),
    "pixel_unshuffle": (lambda x: F.pixel_unshuffle(x, 33), R(1, 1, 33, 34)),
    "mv dtype": (lambda x, y: x.mv(y.int()), R(2, 3), R(3)),
    "binary_cross_entropy dtype": (lambda x: F.binary_cross_entropy(x.sigmoid(), x.sigmoid().double()), R(4)),
    "nll_loss": (lambda x, i: F.nll_loss(x, i), R(2, 3), T([0, 1], dtype=torch.int32)),
    "cummin": (lambda x: x.cummin(33), T(1.0)),
    "binary_cross_entropy": (lambda x: F.binary_cross_entropy(x, x.round()), T([0.5, 1.5])),
    "bernoulli": (lambda x: torch.bernoulli(x), T([0.5, float("nan")])),
    "normal": (lambda x: torch.normal(0.0, x), T([0.5, -0.5])),
    "5 % x": (lambda x: 5 % x, T([1, 0])),
}


@pytest.mark.parametrize("name", CASES)
def test_it_raises_what_eager_raises(name):
    function, *inputs = CASES[name]
    with pytest.raises((RuntimeError, IndexError)) as eager:
        function(*inputs)
    with pytest.raises(eager.type) as told:
        torch.compile(function, backend="bascule", options={"on_error": "raise"})(*inputs)
    notes = getattr(told.value, "__notes__", [])  # none where PyTorch's own trace refuses, whose text has the line
    assert any(__file__ in text for text in (*notes, str(told.value)))


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_a_loss_of_probabilities(reduction):
    """In f64, with a weight, and its gradient."""
    x, target, weight = torch.rand(3, 40, dtype=torch.float64)

    def loss(x):
        return F.binary_cross_entropy(x.sigmoid(), target, weight, reduction=reduction)

    results = []
    for f in (loss, torch.compile(loss, backend="bascule", options={"fallback": "error"})):
        given = x.clone().requires_grad_()
        f(given).sum().backward()
        results.append((f(given).detach(), given.grad))
    torch.testing.assert_close(*results, rtol=1e-12, atol=1e-14)

"""Masks compared as whole numbers are those compared as floats, to the bit."""

import pytest
import torch
import torch.nn.functional as F

from bascule.pipelines import DEFAULT

PASS = "simplify-masks"
PLAIN = ",".join(name for name in DEFAULT if name != PASS)


def results(function, x, pipeline, target):
    torch._dynamo.reset()
    torch.manual_seed(5)
    options = {"target": target, "on_error": "raise", **({"pipeline": pipeline} if pipeline else {})}
    out = torch.compile(function, backend="bascule", options=options)(x)
    return [*out, *torch.autograd.grad(out[0].sum(), x)]


# 0.9 lies between two multiples of 2**-24, 0.5 and 2**-24 are some; of 1e-9 and 1 - 1e-9 the comparison is always the same.
@pytest.mark.parametrize("p", [0.1, 0.5, 1 - 0.9, 2.0**-24, 1e-9, 1 - 1e-9])
@pytest.mark.parametrize("target", ["cpu", "interpret"])
def test_the_same_elements_pass(target, p):
    x = torch.randn(40, 77, requires_grad=True)

    def function(x):
        return F.dropout(x, p), torch.rand_like(x) < p, torch.rand_like(x) >= p, torch.rand_like(x) <= p

    for got, want in zip(results(function, x, None, target), results(function, x, PLAIN, target), strict=True):
        torch.testing.assert_close(got, want, rtol=0, atol=0)


def test_infinities_are_not_chosen_away():
    """0 * inf is NaN, as in eager."""
    x = torch.full((64,), float("inf"), requires_grad=True)
    out, *_ = results(lambda x: (F.dropout(x, 0.5),), x, None, "cpu")
    assert out.isnan().any() and out.isinf().any()

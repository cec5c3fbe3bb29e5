"""Checkpoints that draw random numbers, whether anything wants a gradient or not."""

import pytest
import torch
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from tests.frontend.against_eager import check

WEIGHT = torch.randn(6, 6)


def model(x):
    def part(x):
        return F.dropout(x @ WEIGHT, 0.4).sin()

    return checkpoint(part, x, use_reentrant=False) * torch.rand_like(x)


@pytest.mark.parametrize("trained", [False, True], ids=["nothing is trained", "trained"])
@pytest.mark.parametrize("dynamic", [None, True], ids=["static", "dynamic"])
def test_what_is_checkpointed_draws(trained, dynamic):
    calls = [[torch.randn(n, 6, requires_grad=trained)] for n in (4, 5)]
    check(model, *calls, dynamic=dynamic, options={"random": "eager"})


def test_gradients_inside_of_a_graph_compute_what_is_checkpointed_again():
    def gradient(x):
        loss = checkpoint(lambda x: (x @ WEIGHT).sin().exp(), x, use_reentrant=False).sum()
        return loss.detach(), torch.autograd.grad(loss, x)[0]

    with torch._dynamo.config.patch(trace_autograd_ops=True):
        check(gradient, [torch.randn(3, 6, requires_grad=True)], graphs=1)

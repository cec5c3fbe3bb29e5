"""Random numbers from a seed and an offset that are inputs of the graphs, as `functionalize_rng_ops` asks: what a backward draws again is what
the forward drew."""

import pytest
import torch
from torch._functorch import config
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


@pytest.fixture(autouse=True)
def functionalized():
    with config.patch(functionalize_rng_ops=True):
        yield


def compiled(function, **options):
    return torch.compile(function, backend="bascule", options={"on_error": "raise", **options})


def dropped(x):
    return F.dropout(torch.sin(x), 0.5)


def recomputed(x):
    return checkpoint(lambda x: F.dropout(torch.sin(x), 0.5).exp(), x, use_reentrant=False)


def noisy(x):
    return x * torch.rand_like(x) + torch.rand(1000, 40, device=x.device)


@pytest.mark.parametrize("cudagraphs", [False, True])
@pytest.mark.parametrize("function", [dropped, recomputed])
def test_the_backward_draws_what_the_forward_drew(function, cudagraphs):
    call, masks = compiled(function, cudagraphs=cudagraphs), []
    for _ in range(4):
        x = torch.randn(1000, 40, device="cuda", requires_grad=True)
        y = call(x).clone()
        y.sum().backward()
        s, c = torch.sin(x.detach()), torch.cos(x.detach())
        kept = y.detach() != (1.0 if function is recomputed else 0.0)
        want = torch.where(kept, 2 * c, 0.0) * (torch.exp(2 * s) if function is recomputed else 1.0)
        torch.testing.assert_close(x.grad, want, rtol=1e-4, atol=1e-5)
        assert abs(kept.float().mean().item() - 0.5) < 0.02
        masks.append(kept)
    assert not any(torch.equal(a, b) for n, a in enumerate(masks) for b in masks[:n])


def test_numbers_follow_the_seed():
    call, x = compiled(noisy), torch.ones(1000, 40, device="cuda")
    call(x)
    torch.manual_seed(5)
    first, second = call(x), call(x)
    torch.manual_seed(5)
    assert torch.equal(call(x), first) and not torch.equal(first, second)
    assert first.min() >= 0 and first.max() < 2 and abs(first.mean().item() - 1) < 0.02
